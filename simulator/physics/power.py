"""Power, heat and the clock that follows: what a device's governor works with.

Dynamic power of the engines goes with f·V² and voltage with f, so with the cube of the clock; memory keeps its own
clock. The governor itself is in the core (`simulator.engine`); these are its numbers and what they lead to in the end.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from simulator.machine import Machine

INLET_C: Final = 28.0
"""Air that enters the host, unless a scenario says otherwise."""
MATRIX_SHARE: Final = 0.60
VECTOR_SHARE: Final = 0.12
MEMORY_SHARE: Final = 0.28
"""Parts of what a device draws above idle with everything busy; assumed, of the order published for accelerators."""
POWER_LIMITED: Final = 1
HEAT_LIMITED: Final = 2
"""Bits of counter ``throttle_reasons``."""


class Dynamic(NamedTuple):
    """W above idle with a part always busy at full clock."""

    matrix_w: float
    vector_w: float
    hbm_w: float


def dynamic(machine: Machine) -> Dynamic:
    """What the parts draw; together they make ``full_load_w`` (or ``max_w`` where that is 0)."""
    above_idle_w = (machine.full_load_w or machine.max_w) - machine.idle_w
    return Dynamic(MATRIX_SHARE * above_idle_w, VECTOR_SHARE * above_idle_w, MEMORY_SHARE * above_idle_w)


def power_w(machine: Machine, matrix: float, vector: float, hbm: float, clock_share: float = 1.0) -> float:
    """Drawn with the parts busy these shares of the time at a clock (share of the full one)."""
    parts = dynamic(machine)
    engines = parts.matrix_w * matrix + parts.vector_w * vector
    return machine.idle_w + engines * clock_share**3 + parts.hbm_w * hbm


def sustained_clock_share(machine: Machine, matrix: float, vector: float, hbm: float) -> float:
    """Highest clock (share) that holds the power limit under a load, not below the lowest clock."""
    lowest = machine.clock_min_mhz / machine.clock_mhz
    fixed_w = power_w(machine, matrix, vector, hbm, 0.0)
    engines_w = power_w(machine, matrix, vector, hbm) - fixed_w
    if fixed_w + engines_w <= machine.max_w:
        return 1.0
    left = max((machine.max_w - fixed_w) / engines_w, 0.0)
    return max(lowest, math.cbrt(left))


def steady_c(machine: Machine, watts: float, inlet_c: float = INLET_C) -> float:
    """Temperature after long at a power."""
    return inlet_c + machine.thermal_c_per_w * watts
