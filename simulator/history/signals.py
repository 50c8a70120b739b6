"""What varies with time: season, correlated noise, and the factors of events on operators (pure, whole slices)."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numba
import numpy as np
from numpy.typing import NDArray

from simulator.history.plan import Event, Plan, Served
from simulator.history.profile import KERNEL
from simulator.history.settings import EVERY, HOUR_S, Season

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

_DAY_S = 24 * HOUR_S
_WEEKEND = (5, 6)
_GRID = 1 << 30
"""Values of libm are rounded to this grid, so that their last bit is the same on every machine."""


def on_grid(value: float) -> float:
    """``value`` to a multiple of 2^-30."""
    return round(value * _GRID) / _GRID


def day_shape(peak_hour: float) -> Floats:
    """cos of the time of day around the peak, one entry a minute, shape (1441,); ends meet."""
    turns = [(minute / 60 - peak_hour) / 24 for minute in range(24 * 60 + 1)]
    return np.array([on_grid(math.cos(2 * math.pi * turn)) for turn in turns])


def daily(start_s: Ints, shape: Floats) -> Floats:
    """The shape at Unix seconds, linear between minutes; −1..1."""
    second = start_s % _DAY_S
    minute, rest = second // 60, (second % 60) / 60
    return np.asarray(shape[minute] + (shape[minute + 1] - shape[minute]) * rest)


def demand_season(start_s: Ints, shape: Floats, season: Season) -> Floats:
    """Demand over its mean on weekdays at these Unix seconds (UTC)."""
    weekday = (start_s // _DAY_S + 3) % 7  # 1970-01-01 was a Thursday, Monday is 0
    factor = 1.0 + season.daily * daily(start_s, shape)
    return np.asarray(factor * np.where(np.isin(weekday, _WEEKEND), 1.0 - season.weekend, 1.0))


def phi_of_window(phi: float, lag_s: float, window_s: int) -> float:
    """AR(1) coefficient between neighbouring windows that correlates by ``phi`` over ``lag_s``."""
    return on_grid(phi ** (window_s / lag_s)) if phi > 0 else 0.0


@numba.njit(cache=True)
def _ar1(shocks: Floats, level: float, phi: float, scale: float) -> float:
    """In place: x[t] = phi·x[t − 1] + scale·shock[t]; returns the last x."""
    for index in range(len(shocks)):
        level = phi * level + scale * shocks[index]
        shocks[index] = level
    return level


class Ar1:
    """A stationary AR(1) series of mean 0, taken piece by piece: the pieces do not depend on where they are cut."""

    def __init__(self, key: Iterable[int], sigma: float, phi: float) -> None:
        self._rng = np.random.default_rng(list(key))
        self._phi = phi
        self._scale = sigma * math.sqrt(1.0 - phi * phi)
        # Before the first value: the first step leaves it in the stationary distribution.
        self._level = sigma * float(self._rng.standard_normal())

    def take(self, count: int) -> Floats:
        """The next ``count`` values."""
        values = self._rng.standard_normal(count)
        self._level = float(_ar1(values, self._level, self._phi, self._scale))
        return values


def operator_factors(plan: Plan, host: int, job: Served, start: int, stop: int) -> Floats:
    """Factor on the time of each operator in windows [start, stop) of a host, shape (windows, K)."""
    names = job.profile.operators
    factors = np.ones((stop - start, len(names)))
    for event in plan.by_host[host]:
        for operator, model, share in event.effects:
            if model in (EVERY, job.model.name):
                chosen = [k for k, name in enumerate(names)
                          if name == operator or (operator == EVERY and job.profile.role[k] == KERNEL)]
                factors[:, chosen] *= (1.0 + share * _present(event, start, stop))[:, None]
    return factors


def _present(event: Event, start: int, stop: int) -> Floats:
    """How much of an event's effect is there in windows [start, stop): 0..1."""
    window = np.arange(start, stop)
    there = (window >= event.start) & (window < event.end)
    if event.full <= event.start:
        return there.astype(np.float64)
    grown = (window - event.start + 0.5) / (event.full - event.start)
    return np.asarray(np.where(there, np.clip(grown, 0.0, 1.0), 0.0))


def shifts(plan: Plan, host: int, job: Served, start: int, stop: int) -> tuple[Ints, Floats]:
    """Cost shifts of a host: (source, target) operators, shape (J, 2), and shares that move, shape (windows, J)."""
    events = [event for event in plan.by_host[host] if event.kind == "cost_shift"]
    names = job.profile.operators
    pairs = np.array([[names.index(event.source), names.index(event.target)] for event in events], dtype=np.int64)
    moved = np.zeros((stop - start, len(events)))
    for place, event in enumerate(events):
        moved[:, place] = event.share * _present(event, start, stop)
    return pairs.reshape(-1, 2), moved


def known_share(plan: Plan, host: int, start: int, stop: int) -> Floats:
    """Share of a host's rows that arrives in windows [start, stop)."""
    known = np.ones(stop - start)
    for event in plan.by_host[host]:
        if event.kind == "gap":
            known *= 1.0 - event.share * _present(event, start, stop)
    return known


def pieces(plan: Plan, host: int, start: int, stop: int) -> tuple[Ints, list[tuple[int, int]]]:
    """Runs of windows in one hour under one set of versions: the piece of each window, and (hour, versions) of each.

    Hours count from the start of the run, versions index `Plan.versions_of`.
    """
    window = np.arange(start, stop)
    hour = window // plan.history.windows_per_hour
    edges = np.array([first for first, _ in plan.versions_of(host)])
    version = np.searchsorted(edges, window, side="right") - 1
    changes = np.flatnonzero((np.diff(hour) != 0) | (np.diff(version) != 0)) + 1
    piece = np.zeros(stop - start, dtype=np.int64)
    piece[changes] = 1
    firsts = np.concatenate([[0], changes])
    return np.cumsum(piece), [(int(hour[first]), int(version[first])) for first in firsts]


