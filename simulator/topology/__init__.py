"""The PCIe tree of one host, made from a scenario's rule and checked."""
