"""How other tools map a clock, on the same probes: each method as lines y = y0 + (x − x0) · rate.

Perfetto takes the latest snapshot before an event at slope 1; Tracy the line through the last two calibrations; ROCr
the line through two points of the session; Kineto one affine map for it. chrony keeps the quickest of a few exchanges
and regresses over the newest; Intel's collector drops the slowest tenth and regresses. Only the last uses every
exchange: the others are given the middle of the quickest exchange of each burst, which is kinder than what they read
themselves. None of them states a bound, and none looks for steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.clocks.probes import Series
from simulator.clocks import NS, Ints

Floats = NDArray[np.float64]

WINDOW: Final = 16
"""Bursts a regression over the newest looks at, as many nodes as the pair keeps."""
LATER: Final = 2
"""Of these, bursts after the event: the pair waits for as many."""
DROPPED: Final = 0.1


@dataclass(frozen=True, slots=True)
class Readings:
    """Exchanges by burst, both (bursts, exchanges): source tick ``x`` and middle of the target ``y`` in ns, both int64,
    and ``wait`` the round trip in ns without the time the remote side took."""

    x: Ints
    y: Ints
    wait: Ints
    hz: int

    @property
    def best(self) -> tuple[Ints, Ints]:
        """x and y (bursts,) of the quickest exchange of each burst."""
        rows = np.arange(len(self.x))
        quickest = self.wait.argmin(axis=1)
        return self.x[rows, quickest], self.y[rows, quickest]

    def before(self, target_ns: int) -> Readings:
        """The bursts that were over before the target showed ``target_ns``."""
        kept = self.y.max(axis=1) < target_ns
        return Readings(self.x[kept], self.y[kept], self.wait[kept], self.hz)


@dataclass(frozen=True, slots=True)
class Lines:
    """A line for each stretch; stretch i begins at target time ``begins[i]``, the first holds before it too.

    A clock that stepped back shows ticks twice, so which stretch an event is in is told by the true time, as the order
    of a trace tells it.
    """

    begins: Ints
    x0: Ints
    y0: Ints
    rate: Floats

    def at(self, ticks: Ints, truth: Ints) -> Ints:
        """Target ns of source ticks, each in the stretch of its true target time."""
        index = np.maximum(np.searchsorted(self.begins, truth, side="right") - 1, 0)
        return self.mapped(ticks, index)

    def mapped(self, ticks: Ints, index: Ints) -> Ints:
        """Target ns of source ticks by the lines of ``index``."""
        return np.asarray(self.y0[index] + np.rint((ticks - self.x0[index]) * self.rate[index]).astype(np.int64))


def readings(series: Series) -> Readings:
    """The exchanges of the bursts that are complete."""
    count = max(len(stamps.before) for stamps in series.stamps)
    whole = [s for s in series.stamps if len(s.before) == count]
    before, first, after = (np.array([getattr(s, name) for s in whole]) for name in ("before", "first", "after"))
    last = np.array([s.first if s.last is None else s.last for s in whole])
    local, remote = before + (after - before) // 2, first + (last - first) // 2
    inside = (last - first) * NS // (series.target if series.forward else series.source).hz
    wait = after - before - inside
    x, y = (local, remote) if series.forward else (remote, local)
    return Readings(x, y, wait, series.source.hz)


def snapshot(r: Readings) -> Lines:
    """The latest snapshot before the event, slope 1."""
    x, y = r.best
    return Lines(y, x, y, np.full(len(x), NS / r.hz))


def last_two(r: Readings) -> Lines:
    """The line through the last two calibrations before the event."""
    x, y = r.best
    slope = np.diff(y) / np.diff(x)
    return Lines(y, x, y, np.concatenate(([NS / r.hz], slope)))


def two_points(r: Readings) -> Lines:
    """The line through the first and the last reading of the session."""
    x, y = r.best
    return Lines(y[:1], x[:1], y[:1], np.array([(y[-1] - y[0]) / (x[-1] - x[0])]))


def affine(r: Readings) -> Lines:
    """Least squares over the session."""
    x, y = r.best
    return _line(x, y)


def quickest_window(r: Readings) -> Lines:
    """Least squares over the newest WINDOW bursts, the quickest exchange of each."""
    x, y = r.best
    return _windowed(x[:, None], y[:, None], np.ones((len(x), 1), bool))


def trimmed_window(r: Readings) -> Lines:
    """Least squares over all exchanges of the newest WINDOW bursts but the slowest tenth of these."""
    at = _windows(len(r.x))
    waits = r.wait[at].reshape(len(at), -1)
    rank = waits.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")
    keep = rank < round((1 - DROPPED) * waits.shape[1])
    return _fitted(r, at, keep)


def _windows(count: int) -> Ints:
    """(count, w) indices of the bursts that each stretch is fitted by."""
    width = min(WINDOW, count)
    first = np.clip(np.arange(count) + LATER - width + 1, 0, count - width)
    return np.asarray(first[:, None] + np.arange(width), np.int64)


def _windowed(x: Ints, y: Ints, keep: NDArray[np.bool_]) -> Lines:
    at = _windows(len(x))
    return _fitted(Readings(x, y, np.zeros_like(x), NS), at, keep[at].reshape(len(at), -1))


def _fitted(r: Readings, at: Ints, keep: NDArray[np.bool_]) -> Lines:
    """Weighted least squares of each row of ``at``; its numbers are kept small by the middle of the window."""
    x0, y0 = r.x[at].reshape(len(at), -1), r.y[at].reshape(len(at), -1)
    x_base, y_base = x0[:, :1], y0[:, :1]
    x, y = (x0 - x_base).astype(np.float64), (y0 - y_base).astype(np.float64)
    count = keep.sum(axis=1)
    x_mean, y_mean = (x * keep).sum(axis=1) / count, (y * keep).sum(axis=1) / count
    dx, dy = (x - x_mean[:, None]) * keep, (y - y_mean[:, None]) * keep
    rate = (dx * dy).sum(axis=1) / (dx * dx).sum(axis=1)
    anchor = np.rint(x_mean).astype(np.int64)
    offset = y_mean + (anchor - x_mean) * rate
    return Lines(r.y.min(axis=1), x_base[:, 0] + anchor, y_base[:, 0] + np.rint(offset).astype(np.int64), rate)


def _line(x: Ints, y: Ints) -> Lines:
    dx, dy = (x - x[0]).astype(np.float64), (y - y[0]).astype(np.float64)
    x_mean, y_mean = dx.mean(), dy.mean()
    rate = float(((dx - x_mean) * (dy - y_mean)).sum() / ((dx - x_mean) ** 2).sum())
    anchor = round(x_mean)
    y0 = int(y[0]) + round(y_mean + (anchor - x_mean) * rate)
    return Lines(y[:1], x[:1] + anchor, np.array([y0]), np.array([rate]))


METHODS: Final[dict[str, Callable[[Readings], Lines]]] = {
    "nearest snapshot, slope 1 (Perfetto)": snapshot,
    "last two calibrations (Tracy)": last_two,
    "two points of the session (ROCr)": two_points,
    "one affine map a session (Kineto)": affine,
    "quickest of a burst, 16 bursts regressed (as chrony)": quickest_window,
    "slowest tenth dropped, 16 bursts regressed (as Intel)": trimmed_window,
}
