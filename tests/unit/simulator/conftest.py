"""Fixtures of this folder."""

from tests.support.stores import embedded
from tests.unit.simulator.fleets import serving

__all__ = ["embedded", "serving"]
