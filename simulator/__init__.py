"""A simulated fleet: workloads, clocks, collection faults, their ground truth, and grading against it.

Everything follows from the configuration and its seed. There is no wall clock here.
"""
