"""What work takes on a machine and on its links: pure functions, no events."""
