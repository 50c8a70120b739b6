"""Two-way exchanges of stamps between hosts over UDP, authenticated."""
