"""Tumbling windows of a host and where the time of each of its devices went."""
