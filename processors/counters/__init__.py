"""What the counters of a device say of themselves and of the device, as incidents."""
