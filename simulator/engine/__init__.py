"""The discrete-event core: ranks that call, queues that serve, and resources they share. Knows no clock, no batch."""
