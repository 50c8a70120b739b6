"""Jobs over hosts: their accounting, and the ranks that others wait for."""
