"""The fleet's clocks as they really run. True time τ is int64 ns since the start of the simulation.

A clock reads ``floor((offset + τ + deviation(τ)) · hz)``. The offset and τ stay integers; only the deviation, at most
some milliseconds, is floating point, so epoch times keep every nanosecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

RAW: Final = "monotonic_raw"
REALTIME: Final = "realtime"
NS: Final = 1_000_000_000
HOST_PPM: Final = 20.0
DEVICE_PPM: Final = 30.0
WANDER_PPM_PER_S: Final = 0.05
"""Bound on the change of rate of a free-running clock, |f''|."""
REALTIME_MAX_NS: Final = 2_000_000
REALTIME_SLEW_PPM: Final = 5.0

_WANDER_PERIODS_S: Final = (40.0, 400.0)


@dataclass(frozen=True, slots=True)
class Clock:
    """One clock. ``offset_ns`` is its reading at τ = 0 before scaling to ticks.

    ``waves`` are (amplitude ns, rad a ns, phase) of its slow wander; ``slew`` is (slope, period ns, phase ns) of a
    triangular correction, as clock discipline makes it: rate kinks, never a step.
    """

    name: str
    hz: int
    offset_ns: int
    ppm: float = 0.0
    waves: tuple[tuple[float, float, float], ...] = ()
    slew: tuple[float, float, float] = (0.0, 1e9, 0.0)
    steps: tuple[int, ...] = ()

    def deviation_ns(self, tau_ns: Ints) -> NDArray[np.float64]:
        """How far the clock is ahead of its offset plus τ, in ns."""
        t = tau_ns.astype(np.float64)
        result = t * (self.ppm * 1e-6)
        for amplitude, omega, phase in self.waves:
            result += amplitude * (np.sin(omega * t + phase) - np.sin(phase))
        slope, period, phase_ns = self.slew
        if slope:
            result += slope * np.abs((t + phase_ns) % period - period / 2)
        return result

    def read(self, tau_ns: Ints) -> Ints:
        """Ticks at true times τ (int64 ns), never decreasing with τ."""
        local = tau_ns + np.floor(self.deviation_ns(tau_ns)).astype(np.int64) + self.offset_ns
        if self.hz == NS:
            return local
        seconds, rest = np.divmod(local, NS)
        return np.asarray(seconds * self.hz + rest * self.hz // NS, dtype=np.int64)

    def at(self, tau_ns: int) -> int:
        """Ticks at one true time."""
        return int(self.read(np.array([tau_ns], dtype=np.int64))[0])


@dataclass(frozen=True, slots=True)
class HostClocks:
    """The clocks of one host; ``devices[i]`` is called ``dev<i>``."""

    raw: Clock
    realtime: Clock
    devices: tuple[Clock, ...]


def host_clocks(seed: int, host: int, devices: int, start_unix_ns: int, tick_hz: Sequence[int]) -> HostClocks:
    """The clocks of one host; the same arguments give the same clocks."""
    rng = np.random.default_rng([seed, 1, host])
    raw = Clock(RAW, NS, int(rng.integers(86_400 * NS, 30 * 86_400 * NS)), *_oscillator(rng, HOST_PPM))
    error = int(rng.integers(-REALTIME_MAX_NS * 3 // 4, REALTIME_MAX_NS * 3 // 4))
    slope = float(rng.uniform(0.3, 0.9)) * REALTIME_SLEW_PPM * 1e-6
    realtime = Clock(REALTIME, NS, start_unix_ns + error, slew=(slope, 64e9, float(rng.uniform(0, 64e9))))
    return HostClocks(raw, realtime, tuple(_device_clock(rng, i, tick_hz[i % len(tick_hz)]) for i in range(devices)))


def _device_clock(rng: np.random.Generator, index: int, hz: int) -> Clock:
    return Clock(f"dev{index}", hz, int(rng.integers(60 * NS, 10 * 86_400 * NS)), *_oscillator(rng, DEVICE_PPM))


def _oscillator(rng: np.random.Generator, limit_ppm: float) -> tuple[float, tuple[tuple[float, float, float], ...]]:
    """Rate and wander of a free-running clock: |rate| ≤ limit and the sum of amplitude·ω² ≤ the wander bound."""
    waves, swing = [], 0.0
    for period in _WANDER_PERIODS_S:
        omega = 2 * np.pi / (period * float(rng.uniform(0.8, 1.25)))  # rad a second
        amplitude = 0.45 * WANDER_PPM_PER_S * 1e-6 * float(rng.uniform(0.3, 1.0)) / omega**2  # seconds
        waves.append((float(amplitude * 1e9), float(omega * 1e-9), float(rng.uniform(0, 2 * np.pi))))
        swing += amplitude * omega * 1e6
    return float(rng.uniform(-1, 1)) * (limit_ppm - swing), tuple(waves)
