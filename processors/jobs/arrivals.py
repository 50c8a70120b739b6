"""Who came last in each collective, and what the others waited for it. Pure; whole columns.

A collective moves when its last member is there, so what a member waits is the last start less its own. Starts are of
different clocks: who was last is told only where every other start is earlier by more than both bounds; else the wait
is indeterminate.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from processors.operators.intake import NONE, Bools, Ints, grouped, summed


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Entries of members into collectives: codes of ``group`` (communicator) and ``who`` (device), ``sequence`` and
    ``size`` of the collective, ``start`` and its bound ``err`` (−1: none) in ns."""

    group: Ints
    sequence: Ints
    size: Ints
    who: Ints
    start: Ints
    err: Ints

    def __len__(self) -> int:
        return len(self.start)

    def take(self, chosen: Ints | Bools) -> Arrivals:
        """The entries of an index or mask."""
        return Arrivals(*(getattr(self, f.name)[chosen] for f in fields(Arrivals)))

    def plain(self) -> list[list[int]]:
        """As JSON takes it, in an order of its own."""
        order = np.lexsort((self.who, self.sequence, self.group))
        return [getattr(self, f.name)[order].tolist() for f in fields(Arrivals)]

    @classmethod
    def of(cls, plain: list[list[int]]) -> Arrivals:
        """Of ``plain``."""
        return cls(*(np.array(column, np.int64) for column in plain))


def none() -> Arrivals:
    """No entry."""
    return Arrivals.of([[] for _ in fields(Arrivals)])


def joined(first: Arrivals, second: Arrivals) -> Arrivals:
    """One after the other."""
    return Arrivals(*(np.concatenate((getattr(first, f.name), getattr(second, f.name))) for f in fields(Arrivals)))


@dataclass(frozen=True, slots=True)
class Meetings:
    """Collectives whose members are all there: ``group``, ``last`` (code of who came last, −1: the clocks do not
    tell), ``at`` (its start, ns), ``wait`` (of the others together, ns) and ``size``."""

    group: Ints
    last: Ints
    at: Ints
    wait: Ints
    size: Ints


def met(arrivals: Arrivals) -> tuple[Meetings, Arrivals]:
    """Collectives that are complete, and the entries of those that are not."""
    if not len(arrivals):
        empty = np.zeros(0, np.int64)
        return Meetings(empty, empty, empty, empty, empty), arrivals
    _, key = grouped([arrivals.group, arrivals.sequence])
    complete = np.bincount(key)[key] >= arrivals.size
    whole, left = arrivals.take(complete), arrivals.take(~complete)
    if not len(whole):
        empty = np.zeros(0, np.int64)
        return Meetings(empty, empty, empty, empty, empty), left
    _, key = grouped([whole.group, whole.sequence])
    order = np.lexsort((whole.who, whole.start, key))
    whole, key = whole.take(order), key[order]
    ends = np.flatnonzero(np.append(key[1:] != key[:-1], True))
    count = len(ends)
    wait = whole.start[ends][key] - whole.start
    is_last = np.zeros(len(whole), np.bool_)
    is_last[ends] = True
    known = (whole.err != NONE) & (whole.err[ends][key] != NONE)
    told = is_last | (known & (wait > whole.err + whole.err[ends][key]))
    sure = summed((~(told & known)).astype(np.int64), key, count) == 0
    return Meetings(whole.group[ends], np.where(sure, whole.who[ends], NONE), whole.start[ends],
                    summed(wait, key, count), whole.size[ends]), left
