"""What the counters of simulated devices and hosts show of what ran."""
