"""What ran on a device, as its counters count it: amounts that grow while an op runs, exact once it has ended."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

from simulator.engine.program import COLLECTIVE, COPY_IN, COPY_OUT, MATRIX_TRACK, QUEUES
from simulator.physics.lower import QUANTITIES
from simulator.physics.pcie import Link, wire_bytes

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

LINK_QUANTITIES: Final = ("rx_bytes", "tx_bytes", "rx_wire_bytes", "tx_wire_bytes", "fabric_bytes")
COLUMNS: Final = (*QUANTITIES, *LINK_QUANTITIES)
COLUMN: Final = {name: column for column, name in enumerate(COLUMNS)}
ACTIVE: Final = ("matrix", "vector", "pcie_h2d", "pcie_d2h", "collective")
"""Instances of counter ``engine_active``."""


@dataclass(frozen=True, slots=True)
class Ops:
    """Ops of one device, one entry each, ``[start, end)`` ns of true time. Those of one queue do not overlap."""

    start: Ints
    end: Ints
    queue: Ints
    active: Ints
    """Index in `ACTIVE`."""
    amounts: Ints
    """(ops, COLUMNS)."""

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: Bools | Ints) -> Ops:
        """The ops of a mask or index."""
        return Ops(*(getattr(self, field.name)[index] for field in fields(self)))

    def join(self, other: Ops) -> Ops:
        """Both."""
        if not len(self):
            return other
        return Ops(*(np.concatenate([getattr(self, field.name), getattr(other, field.name)])
                     for field in fields(self)))


def no_ops() -> Ops:
    """None at all."""
    none = np.zeros(0, np.int64)
    return Ops(none, none, none, none, np.zeros((0, len(COLUMNS)), np.int64))


def ops(start: Ints, end: Ints, queue: Ints, flags: Ints, link_bytes: Ints, quantities: Ints, link: Link) -> Ops:
    """Ops from the columns of the engine's records, and the (ops, QUANTITIES) of their kernels (0 for transfers).

    ``link_bytes``: payload of copies and collectives; what it is for kernels does not matter.
    """
    amounts = np.zeros((len(start), len(COLUMNS)), np.int64)
    amounts[:, :len(QUANTITIES)] = quantities
    h2d = np.where(queue == COPY_IN, link_bytes, 0)
    d2h = np.where(queue == COPY_OUT, link_bytes, 0)
    received, sent = wire_bytes(h2d, d2h, link)
    fabric = np.where(queue == COLLECTIVE, link_bytes, 0)
    for name, values in zip(LINK_QUANTITIES, (h2d, d2h, received, sent, fabric), strict=True):
        amounts[:, COLUMN[name]] = values
    kernel = np.where(flags & MATRIX_TRACK, 0, 1)
    return Ops(start, end, queue, np.where(queue >= COPY_IN, queue, kernel), amounts)


class Ledger:
    """Quantities of the kernels that programs gave a device, until their records come back.

    Queues serve in order, so the n-th record of a queue is of the n-th op given to it.
    """

    def __init__(self) -> None:
        self._given: list[tuple[Ints, Ints]] = []
        """Parts in order, put apart by queue only when records come."""
        self._waiting = [np.zeros((0, len(QUANTITIES)), np.int64) for _ in range(QUEUES)]
        """By queue, in order."""

    def give(self, queue: Ints, quantities: Ints) -> None:
        """Ops of a program in the order of its launches: their queues and (ops, QUANTITIES); of no queue: no op."""
        self._given.append((queue, quantities))

    def take(self, queue: Ints) -> Ints:
        """Quantities of records in the order they ended; raises ValueError where more ended than were given."""
        self._sort()
        result = np.zeros((len(queue), len(QUANTITIES)), np.int64)
        for code, waiting in enumerate(self._waiting):
            mine = np.flatnonzero(queue == code)
            if len(mine) > len(waiting):
                raise ValueError(f"{len(mine)} ops of queue {code} ended, {len(waiting)} were given")
            result[mine] = waiting[:len(mine)]
            self._waiting[code] = waiting[len(mine):]
        return result

    def _sort(self) -> None:
        if not self._given:
            return
        queue = np.concatenate([part for part, _ in self._given])
        quantities = np.concatenate([part for _, part in self._given])
        self._given.clear()
        self._waiting = [np.concatenate([waiting, quantities[queue == code]])
                         for code, waiting in enumerate(self._waiting)]

    def clear(self) -> None:
        """Forget what was given: the device was reset."""
        self._given.clear()
        self._waiting = [waiting[:0] for waiting in self._waiting]


def totals_at(at: Ints, found: Ops) -> Ints:
    """(times, COLUMNS) that ops had amounted to by each time; those under way by their share of time, rounded down."""
    order = np.argsort(at, kind="stable")
    result = np.empty((len(at), len(COLUMNS)), np.int64)
    result[order] = _totals(at[order], found.start, found.end, found.amounts)
    return result


@numba.njit(cache=True)
def _totals(at: Ints, start: Ints, end: Ints, amounts: Ints) -> Ints:
    """`totals_at` for ascending times."""
    times, columns = len(at), amounts.shape[1]
    ended = np.zeros((times, columns), np.int64)
    running = np.zeros((times, columns), np.int64)
    for op in range(len(start)):
        place = np.searchsorted(at, end[op])
        if place < times:
            for column in range(columns):
                ended[place, column] += amounts[op, column]
        place -= 1
        while place >= 0 and at[place] > start[op]:
            share = (at[place] - start[op]) / (end[op] - start[op])
            for column in range(columns):
                running[place, column] += np.int64(np.floor(amounts[op, column] * share))
            place -= 1
    for place in range(1, times):
        for column in range(columns):
            ended[place, column] += ended[place - 1, column]
    return ended + running


def busy_ns(edges: Ints, found: Ops) -> Ints:
    """(periods, ACTIVE) time with an op between neighbouring of ascending ``edges``, at most all of the period where
    ops of two queues overlap."""
    return np.minimum(_busy(edges, found.start, found.end, found.active), np.diff(edges)[:, None])


@numba.njit(cache=True)
def _busy(edges: Ints, start: Ints, end: Ints, active: Ints) -> Ints:
    periods = len(edges) - 1
    summed = np.zeros((periods, len(ACTIVE)), np.int64)
    for op in range(len(start)):
        place = max(np.searchsorted(edges, start[op], side="right") - 1, 0)
        while place < periods and edges[place] < end[op]:
            summed[place, active[op]] += max(min(end[op], edges[place + 1]) - max(start[op], edges[place]), 0)
            place += 1
    return summed
