"""Sets of half-open int64 intervals as two sorted arrays."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


_DENSE = 4_096


def counted(values: Ints) -> tuple[Ints, Ints]:
    """Distinct values, ascending, and how often each stands there; without a sort where they lie close together."""
    if not len(values):
        return values, values
    low, high = int(values.min()), int(values.max())
    if high - low >= _DENSE:
        distinct, counts = np.unique(values, return_counts=True)
        return distinct, counts.astype(np.int64)
    counts = np.bincount(values - low)
    present = np.flatnonzero(counts)
    return present + low, counts[present]


@dataclass(frozen=True, slots=True)
class Union:
    """Disjoint intervals ``[start, stop)`` in order, with the length of all before each."""

    start: Ints
    stop: Ints
    before: Ints

    def length_before(self, at: Ints) -> Ints:
        """Length of the part of the set that lies before each of ``at``."""
        if not len(self.start):
            return np.zeros(len(at), np.int64)
        index = np.searchsorted(self.start, at, side="right") - 1
        held = np.clip(at, self.start[index], self.stop[index]) - self.start[index]
        return np.where(index >= 0, self.before[index] + held, 0)

    def overlap(self, start: Ints, stop: Ints) -> Ints:
        """Length inside each ``[start, stop)``."""
        return self.length_before(stop) - self.length_before(start)


def union(start: Ints, stop: Ints) -> Union:
    """The union of intervals in any order; those of no length vanish."""
    keep = stop > start
    start, stop = start[keep], stop[keep]
    if not len(start):
        return Union(start, stop, start)
    order = np.argsort(start, kind="stable")
    start, reach = start[order], np.maximum.accumulate(stop[order])
    first = np.concatenate(([True], start[1:] > reach[:-1]))
    last = np.concatenate((first[1:], [True]))
    start, stop = start[first], reach[last]
    length = np.cumsum(stop - start)
    return Union(start, stop, length - (stop - start))


def overlap_of(one: Union, other: Union) -> Union:
    """What lies in both sets."""
    if not len(one.start) or not len(other.start):
        return Union(one.start[:0], one.stop[:0], one.before[:0])
    bounds = np.concatenate((one.start, one.stop, other.start, other.stop))
    order = np.argsort(bounds, kind="stable")
    steps = np.repeat([1, -1, 1, -1], [len(one.start), len(one.stop), len(other.start), len(other.stop)])
    both = np.flatnonzero(np.cumsum(steps[order])[:-1] == 2)
    ordered = bounds[order]
    return union(ordered[both], ordered[both + 1])


def apportion(total: int, parts: Floats) -> list[int]:
    """``total`` split in proportion to ``parts`` (≥ 0) by largest remainder; ties go to the earlier part.

    The result adds up to ``total`` exactly. All of it goes to the last part where every part is 0.
    """
    weight = float(parts.sum())
    if total <= 0 or weight <= 0.0:
        return [0] * (len(parts) - 1) + [max(total, 0)]
    exact = parts / weight * total
    whole = np.floor(exact).astype(np.int64)
    left = total - int(whole.sum())
    # rounding of the quotients may leave a unit too many or too few
    order = np.argsort(-(exact - whole), kind="stable")
    whole[order[:max(left, 0)]] += 1
    if left < 0:
        whole[np.argmax(whole)] += left
    return [int(value) for value in whole]
