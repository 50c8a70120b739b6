"""Faults of clocks and of collection: settings, what they mean for one host, and what does it."""
