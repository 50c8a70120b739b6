"""Power, heat and the clock that follows: constants and formulas for a device's governor.

Dynamic power of the engines goes with f·V², and voltage falls linearly with the clock down to ``VOLTAGE_FLOOR``; memory
and link keep their own clocks. Formulas use products, quotients and square roots only: equal on every machine.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from simulator.machine import Machine

INLET_C: Final = 28.0
"""Air that enters the host, unless a scenario says otherwise."""
VOLTAGE_FLOOR: Final = 0.7
"""Voltage at clock 0 over that at full clock, extrapolated."""
MATRIX_SHARE: Final = 0.55
VECTOR_SHARE: Final = 0.15
MEMORY_SHARE: Final = 0.25
LINK_SHARE: Final = 0.05
"""Parts of what a device draws above idle with everything busy; assumed, of the order published for accelerators."""
THROTTLE_SHARE_PER_C: Final = 0.05
"""Full clocks given up for each kelvin above ``throttle_c``."""
POWER_LIMITED: Final = 1
HEAT_LIMITED: Final = 2
"""Bits of the throttle reasons."""


@dataclass(frozen=True, slots=True)
class Load:
    """Busy shares (0..1) over a governor's step."""

    matrix: float = 0.0
    vector: float = 0.0
    memory: float = 0.0
    link: float = 0.0


def power_w(machine: Machine, load: Load, clock_share: float) -> float:
    """Drawn at a clock (share of the full one)."""
    engines = MATRIX_SHARE * load.matrix + VECTOR_SHARE * load.vector
    other = MEMORY_SHARE * load.memory + LINK_SHARE * load.link
    return machine.idle_w + _dynamic_w(machine) * (engines * engine_scale(clock_share) + other)


def engine_scale(clock_share: float) -> float:
    """f·V² of the engines over that at full clock."""
    voltage = VOLTAGE_FLOOR + (1.0 - VOLTAGE_FLOOR) * clock_share
    return clock_share * voltage * voltage


def clock_share(machine: Machine, load: Load, temperature_c: float) -> tuple[float, int]:
    """Clock a governor chooses, and why it is not the full one (bits; 0: it is)."""
    lowest = machine.clock_min_mhz / machine.clock_mhz
    reasons, share = 0, 1.0
    if power_w(machine, load, 1.0) > machine.max_w:
        reasons |= POWER_LIMITED
        low, high = lowest, 1.0
        for _ in range(30):  # bisection to 1e-9; power rises with the clock
            middle = (low + high) / 2
            low, high = (middle, high) if power_w(machine, load, middle) <= machine.max_w else (low, middle)
        share = low
    if temperature_c > machine.throttle_c:
        reasons |= HEAT_LIMITED
        share = min(share, 1.0 - THROTTLE_SHARE_PER_C * (temperature_c - machine.throttle_c))
    return max(share, lowest), reasons


def next_temperature_c(machine: Machine, temperature_c: float, watts: float, step_s: float,
                       inlet_c: float = INLET_C) -> float:
    """Temperature a step later: first order towards inlet + resistance · power (implicit step, always stable)."""
    share = step_s / (machine.thermal_s + step_s)
    return temperature_c + (inlet_c + machine.thermal_c_per_w * watts - temperature_c) * share


def _dynamic_w(machine: Machine) -> float:
    return (machine.full_load_w or machine.max_w) - machine.idle_w
