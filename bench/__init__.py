"""Measurements of the pipeline, and the pipeline people write first to compare it with."""
