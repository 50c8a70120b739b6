"""Registers: how a count shows where it wraps, saturates, restarts, or is counted only part of the time."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from fleetscope.contracts.counters import CounterDescriptor

Ints = NDArray[np.int64]

GROUPS: Final = 4
"""Sets of counters that take turns on the same hardware; each is estimated as ``GROUPS`` times what it saw."""
SLICE_NS: Final = 10_000_000
"""Turn of one set."""
_WIDEST: Final = 63
"""Bits of a non-negative int64, in which readings travel."""


def shown(count: int, descriptor: CounterDescriptor) -> tuple[int, bool]:
    """(what the register shows, whether it stopped at its top) of a true count ≥ 0."""
    if descriptor.kind == "saturating":
        return min(count, descriptor.top), count >= descriptor.top
    return count & ((1 << min(descriptor.width_bits, _WIDEST)) - 1), False


def all_shown(counts: Ints, descriptor: CounterDescriptor) -> tuple[list[int], list[bool]]:
    """`shown` of each of several counts."""
    if descriptor.kind == "saturating":
        full = counts >= descriptor.top
        return np.minimum(counts, descriptor.top).tolist(), full.tolist()
    return (counts & ((1 << min(descriptor.width_bits, _WIDEST)) - 1)).tolist(), [False] * len(counts)


def turns(low: int, high: int) -> Ints:
    """Ends of turns in ``(low, high]``."""
    first = low // SLICE_NS + 1
    return np.arange(first, high // SLICE_NS + 1, dtype=np.int64) * SLICE_NS


def seen(edges: Ints, counts: Ints, group: int, phase: int) -> Ints:
    """What a set counts between neighbouring ``edges`` (ns), ``counts`` the true totals there; edges hold all turns."""
    turn = edges[:-1] // SLICE_NS
    return np.where((turn + phase) % GROUPS == group, np.diff(counts), 0)
