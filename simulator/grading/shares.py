"""True shares of states and true coverage of the windows of one device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fleetscope.contracts.derived import STATE_NAMES
from simulator.causes import NAMES, STATE_OF
from simulator.clocks import Ints
from simulator.grading.fleet_time import HostTime
from simulator.truth import Causes, Truth

Floats = NDArray[np.float64]

BIN_NS: Final = 10_000_000
"""Rows are counted in bins of true time this long."""
SILENT: Final = frozenset({"host_silent", "device_vanished"})
"""Planted incidents in which there is nothing to see: their time is not covered."""
_PUBLISHED: Final = frozenset({"lost", "corrupted"})
"""Fates of rows that are among the published ones too."""
_TO_STATE: Final = np.zeros((len(NAMES), len(STATE_NAMES)), dtype=np.float64)
for _code, _name in enumerate(NAMES):
    _TO_STATE[_code, STATE_NAMES.index(STATE_OF[_name])] = 1.0


@dataclass(frozen=True, slots=True)
class TrueWindows:
    """W windows of a device. ``share`` has shape (W, STATE_NAMES) and is of the time that the truth knows.

    ``known`` is that time's share of the window. ``cut`` says how far a share may be off because an edge of the window
    cuts a slot, whose inside the truth does not tell: at each edge the shorter part of the slot, as a share of the
    window.
    """

    share: Floats
    known: Floats
    cut: Floats


def true_windows(causes: Causes, time: HostTime, start_ns: Ints, window_ns: int) -> TrueWindows:
    """What the truth says of the windows [start, start + window_ns) of fleet time.

    A slot that an edge cuts counts by its overlap.
    """
    edges = np.stack([causes.start_ns, causes.start_ns + causes.slot_ns], axis=1).ravel()
    fleet = time.at(edges)
    base = int(fleet[0])
    at = (fleet - base).astype(np.float64)
    low, high = (np.asarray(start_ns - base + more, dtype=np.float64) for more in (0, window_ns))
    states = causes.ns.astype(np.float64) @ _TO_STATE
    inside = np.stack([_between(at, column, low, high) for column in states.T], axis=1)
    known = inside.sum(axis=1)
    share = inside / np.maximum(known, 1.0)[:, None]
    cut = (_cut(at, low) + _cut(at, high)) / window_ns
    return TrueWindows(share, np.minimum(known / window_ns, 1.0), cut)


def windows_touched(fleet_ns: Ints, window_ns: int) -> Ints:
    """Starts of the windows that hold one of the times or follow it, in order; time may leap between them."""
    numbers = np.unique(fleet_ns // window_ns)
    return np.union1d(numbers, numbers + 1) * window_ns


def _between(edges: Floats, amounts: Floats, low: Floats, high: Floats) -> Floats:
    """Amount within [low, high), where slot i has ``amounts[i]`` spread over [edges[2i], edges[2i + 1])."""
    done = np.zeros(len(edges))
    done[1::2] = np.cumsum(amounts)
    done[2::2] = done[1:-1:2]
    return np.asarray(np.interp(high, edges, done) - np.interp(low, edges, done))


def _cut(edges: Floats, at: Floats) -> Floats:
    """Distance to the nearest edge of the slot that ``at`` falls into; 0 outside of all slots."""
    right = np.searchsorted(edges, at, "right")
    inside = (right > 0) & (right < len(edges)) & (right % 2 == 1)
    right = np.clip(right, 1, len(edges) - 1)
    return np.where(inside, np.minimum(at - edges[right - 1], edges[right] - at), 0.0)


@dataclass(frozen=True, slots=True)
class RowCounts:
    """Rows of one host, spans and counters, by bin of true time: all that were made, and those nobody can decode."""

    made: Ints
    missed: Ints

    def within(self, low_true_ns: Floats, high_true_ns: Floats) -> tuple[Floats, Floats]:
        """(made, missed) in [low, high); bins that an edge cuts count by their overlap."""
        edges = np.arange(len(self.made) + 1, dtype=np.float64) * BIN_NS
        sums = [np.concatenate([[0], np.cumsum(counts)]) for counts in (self.made, self.missed)]
        made, missed = (np.interp(high_true_ns, edges, s) - np.interp(low_true_ns, edges, s) for s in sums)
        return np.asarray(made), np.asarray(missed)

    def coverage(self, low_true_ns: Floats, high_true_ns: Floats) -> Floats:
        """Rows that could be decoded over rows that were made; 1 where none was made."""
        made, missed = self.within(low_true_ns, high_true_ns)
        return np.asarray(np.where(made > 0, 1.0 - missed / np.maximum(made, 1e-9), 1.0))


def row_counts(truth: Truth, hosts: list[str], until_ns: int) -> dict[str, RowCounts]:
    """By host; memory is a few bytes for each bin, however many rows there are."""
    bins = until_ns // BIN_NS + 1
    made, missed = ({host: np.zeros(bins, dtype=np.int64) for host in hosts} for _ in range(2))

    def count(into: Ints, start_ns: Ints) -> None:
        into += np.bincount(np.clip(start_ns // BIN_NS, 0, bins - 1), minlength=bins)

    for batch in truth.starts():
        count(made[batch.host], batch.start_ns)
    for others in truth.published():
        np.add.at(made[others.host], np.clip(others.true_ns // BIN_NS, 0, bins - 1), others.rows)
    for rows in truth.missed():
        count(missed[rows.host], rows.start_ns)
        if rows.fate not in _PUBLISHED:
            count(made[rows.host], rows.start_ns)
    return {host: RowCounts(made[host], missed[host]) for host in hosts}
