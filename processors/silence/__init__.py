"""Which hosts are silent, told by the time of the others."""
