"""The fleet's clocks as they really run. True time τ is int64 ns since the start of the simulation.

A clock reads ``floor((offset + moved(τ) + deviation(τ)) · hz)``, rounded down to its grain and cut to its width. What
it moved is τ but for steps, stops and planned rates, and like the offset it stays an integer; only the deviation of the
oscillator, at most some milliseconds, is floating point, so epoch times keep every nanosecond.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simulator.faults.plan import BOOTTIME, RAW, REALTIME, HostPlan, Interval
from simulator.faults.settings import Clocks, Thermal
from simulator.faults.timeline import NS, Ints, Pieces, Step, pieces

__all__ = ["BOOTTIME", "DEVICE_PPM", "HOST_PPM", "NS", "RAW", "REALTIME", "REALTIME_MAX_NS", "REALTIME_SLEW_PPM",
           "WANDER_PPM_PER_S", "Clock", "HostClocks", "Ints", "Lag", "host_clocks"]

_DEFAULT: Final = Clocks()
HOST_PPM: Final = _DEFAULT.host_ppm
DEVICE_PPM: Final = _DEFAULT.device_ppm
WANDER_PPM_PER_S: Final = _DEFAULT.wander_ppm_per_s
"""Bound on the change of rate of a free-running clock, |f''|."""
REALTIME_MAX_NS: Final = 2_000_000
REALTIME_SLEW_PPM: Final = 5.0

_WANDER_PERIODS_S: Final = (40.0, 400.0)


@dataclass(frozen=True, slots=True)
class Lag:
    """A rate that follows targets with a first-order lag, as an oscillator follows the temperature of its load.

    Between ``starts`` the rate g goes from where it is towards the target G: ``dg/dt = (G − g) / tau``. Rates in ppm.
    """

    tau_ns: float
    starts: tuple[int, ...]
    targets: tuple[float, ...]
    first_ppm: float
    _columns: NDArray[np.float64] = field(init=False, repr=False, compare=False)
    """Rows: start, target, rate at the start, deviation in ns at the start."""

    def __post_init__(self) -> None:
        rate, deviation, rows = self.first_ppm, 0.0, []
        ends = (*self.starts[1:], self.starts[-1])
        for start, end, target in zip(self.starts, ends, self.targets, strict=True):
            rows.append((float(start), target, rate, deviation))
            left = float(np.exp((start - end) / self.tau_ns))
            deviation += 1e-6 * (target * (end - start) + (rate - target) * self.tau_ns * (1 - left))
            rate = target + (rate - target) * left
        object.__setattr__(self, "_columns", np.array(rows).T)

    def deviation_ns(self, tau_ns: NDArray[np.float64]) -> NDArray[np.float64]:
        """Integral of the rate from 0 to τ, in ns."""
        starts, targets, rates, deviations = self._columns
        at = np.maximum(np.searchsorted(starts, tau_ns, side="right") - 1, 0)
        since = tau_ns - starts[at]
        excess = (rates[at] - targets[at]) * self.tau_ns * -np.expm1(-since / self.tau_ns)
        return np.asarray(deviations[at] + 1e-6 * (targets[at] * since + excess))


@dataclass(frozen=True, slots=True)
class Clock:
    """One clock. ``offset_ns`` is its reading at τ = 0 before scaling to ticks.

    ``waves`` are (amplitude ns, rad a ns, phase) of its slow wander; ``slew`` is (slope, period ns, phase ns) of a
    triangular correction, as clock discipline makes it: rate kinks, never a step. ``grain`` ticks pass at a time; a
    counter of less than 64 ``bits`` wraps. ``dark``: when nobody can read it.
    """

    name: str
    hz: int
    offset_ns: int
    ppm: float = 0.0
    waves: tuple[tuple[float, float, float], ...] = ()
    slew: tuple[float, float, float] = (0.0, 1e9, 0.0)
    steps: tuple[Step, ...] = ()
    lags: tuple[Lag, ...] = ()
    pieces: Pieces | None = None
    grain: int = 1
    bits: int = 64
    dark: tuple[Interval, ...] = ()

    def deviation_ns(self, tau_ns: Ints) -> NDArray[np.float64]:
        """How far the oscillator is ahead of τ, in ns; planned steps, stops and rates are not in it."""
        t = tau_ns.astype(np.float64)
        result = t * (self.ppm * 1e-6)
        for amplitude, omega, phase in self.waves:
            result += amplitude * (np.sin(omega * t + phase) - np.sin(phase))
        for lag in self.lags:
            result += lag.deviation_ns(t)
        slope, period, phase_ns = self.slew
        if slope:
            result += slope * np.abs((t + phase_ns) % period - period / 2)
        return result

    def read(self, tau_ns: Ints) -> Ints:
        """Ticks at true times τ (int64 ns); between steps and wraps never decreasing with τ."""
        moved, running = (tau_ns, tau_ns) if self.pieces is None else self.pieces.moved(tau_ns)
        local = moved + np.floor(self.deviation_ns(running)).astype(np.int64) + self.offset_ns
        if self.hz != NS:
            seconds, rest = np.divmod(local, NS)
            local = seconds * self.hz + rest * self.hz // NS
        if self.grain > 1:
            local = local - local % self.grain
        if self.bits < 64:
            local = local & ((1 << self.bits) - 1)
        return np.asarray(local, dtype=np.int64)

    def at(self, tau_ns: int) -> int:
        """Ticks at one true time."""
        return int(self.read(np.array([tau_ns], dtype=np.int64))[0])

    def passed(self, first: Ints, last: Ints) -> Ints:
        """Ticks between two readings, the later one last, as a reader of the counter's width has them."""
        return np.asarray(last - first if self.bits == 64 else (last - first) & ((1 << self.bits) - 1))

    def readable(self, tau_ns: Ints) -> NDArray[np.bool_]:
        """Where somebody answers who asks for the time."""
        mask = np.ones(len(tau_ns), dtype=np.bool_)
        for start, end in self.dark:
            mask &= (tau_ns < start) | (tau_ns >= end)
        return mask


@dataclass(frozen=True, slots=True)
class HostClocks:
    """The clocks of one host; ``devices[i]`` is called ``dev<i>``. ``boottime`` is the one that goes on asleep."""

    raw: Clock
    realtime: Clock
    devices: tuple[Clock, ...]
    boottime: Clock


def host_clocks(seed: int, host: int, devices: int, start_unix_ns: int, tick_hz: Sequence[int],
                settings: Clocks = _DEFAULT, plan: HostPlan | None = None) -> HostClocks:
    """The clocks of one host; the same arguments give the same clocks."""
    plan = plan or HostPlan()
    rng = np.random.default_rng([seed, 1, host])
    raw = Clock(RAW, NS, int(rng.integers(86_400 * NS, 30 * 86_400 * NS)), *_oscillator(rng, settings.host_ppm,
                                                                                        settings.wander_ppm_per_s))
    limit = round(settings.realtime_error_ms * 1e6)
    error = int(rng.integers(-limit, limit)) if limit else 0
    slope = float(rng.uniform(0.3, 0.9)) * REALTIME_SLEW_PPM * 1e-6
    ahead = sum(round(a.seconds * NS) for a in settings.ahead if a.host in (None, host))
    realtime = Clock(REALTIME, NS, start_unix_ns + error + ahead, slew=(slope, 64e9, float(rng.uniform(0, 64e9))))
    made = [_device_clock(rng, i, tick_hz[i % len(tick_hz)], settings) for i in range(devices)]
    if settings.same_epoch:
        made = [replace(clock, offset_ns=made[0].offset_ns) for clock in made]
    lags = [_lags(settings, np.random.default_rng([seed, 10, host, number]), plan.horizon_ns)
            for number in range(1 + devices)]
    raw = replace(raw, lags=lags[0], dark=plan.dark())
    made = [replace(clock, lags=lag, dark=tuple(plan.gone.get(i, ())))
            for i, (clock, lag) in enumerate(zip(made, lags[1:], strict=True))]
    # BOOTTIME is MONOTONIC_RAW as the time daemon steers it; here they differ by sleep alone.
    boottime = replace(raw, name=BOOTTIME)
    return HostClocks(_changed(raw, plan), _changed(realtime, plan), tuple(_changed(clock, plan) for clock in made),
                      _changed(boottime, plan))


def _device_clock(rng: np.random.Generator, index: int, hz: int, settings: Clocks) -> Clock:
    offset = int(rng.integers(60 * NS, 10 * 86_400 * NS))
    return Clock(f"dev{index}", hz, offset, *_oscillator(rng, settings.device_ppm, settings.wander_ppm_per_s),
                 grain=settings.device_grain_ticks, bits=settings.device_bits)


def _changed(clock: Clock, plan: HostPlan) -> Clock:
    """The clock with what is planned for it. A restart is of the whole counter, whatever the oscillator did."""

    def deviation_ns(at_ns: int) -> int:
        return int(np.floor(clock.deviation_ns(np.array([at_ns], dtype=np.int64)))[0])

    made, steps = pieces(plan.changes.get(clock.name, ()), clock.offset_ns, deviation_ns)
    return replace(clock, pieces=made, steps=steps)


def _oscillator(rng: np.random.Generator, limit_ppm: float, wander_ppm_per_s: float) \
        -> tuple[float, tuple[tuple[float, float, float], ...]]:
    """Rate and wander of a free-running clock: |rate| ≤ limit and the sum of amplitude·ω² ≤ the wander bound."""
    waves, swing = [], 0.0
    for period in _WANDER_PERIODS_S:
        omega = 2 * np.pi / (period * float(rng.uniform(0.8, 1.25)))  # rad a second
        amplitude = 0.45 * wander_ppm_per_s * 1e-6 * float(rng.uniform(0.3, 1.0)) / omega**2  # seconds
        waves.append((float(amplitude * 1e9), float(omega * 1e-9), float(rng.uniform(0, 2 * np.pi))))
        swing += amplitude * omega * 1e6
    return float(rng.uniform(-1, 1)) * max(limit_ppm - swing, 0.0), tuple(waves)


def _lags(settings: Clocks, rng: np.random.Generator, horizon_ns: int) -> tuple[Lag, ...]:
    """What warm-up and temperature do to one clock."""
    share, phase = float(rng.uniform(0.5, 1.0)), float(rng.random())
    found = []
    if settings.warm_up is not None:
        found.append(Lag(settings.warm_up.tau_s * NS, (0,), (0.0,), settings.warm_up.ppm * share))
    if settings.thermal is not None:
        found.append(_thermal(settings.thermal, share, phase, horizon_ns))
    return tuple(found)


def _thermal(thermal: Thermal, share: float, phase: float, horizon_ns: int) -> Lag:
    """A load that is on for ``duty`` of each period up to the horizon; afterwards the device cools."""
    period, swing = round(thermal.period_s * NS), thermal.ppm_per_c * thermal.swing_c * share
    starts, targets = [0], [0.0]
    for number in range(-(-horizon_ns // period)):
        on = round((number + phase) * period)
        starts += [on, on + round(thermal.duty * period)]
        targets += [swing, 0.0]
    return Lag(thermal.tau_s * NS, tuple(starts), tuple(targets), 0.0)
