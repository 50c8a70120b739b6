"""What each operator does on each device: calls, lengths, work, and what binds it."""
