"""The table of work of one step: what each row takes of a machine's resources, and what its spans state."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from simulator.engine.program import NONE, Floats, Ints
from simulator.machine import Machine
from simulator.physics.lower import QUANTITIES, Work, lower
from simulator.physics.roofline import tile_share
from simulator.physics.sram import GATHER
from simulator.work.operators import STAGE, TILE, Cost

_KEPT: Final = 4_096
"""Lowered kernels kept."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of work: kernels, then copies, then collectives, then one without work."""

    times: Floats
    """(8, rows): matrix, vector, sram, noc, hbm, spill, fixed ns; last the conflict factor."""
    integers: Ints
    """(3, rows): link bytes, stated flops, stated bytes."""
    quantities: Ints
    """(rows, QUANTITIES): what counters count of kernels; 0 for all else."""


@dataclass(frozen=True, slots=True)
class Message:
    """A collective: bytes a rank sends (and receives), the payload its span states, and its rounds of latency."""

    link_bytes: int
    payload_bytes: int
    rounds: int = 1


def needs(kernels: Sequence[Cost], machine: Machine) -> Work:
    """Columns for `simulator.physics.lower`."""
    (matrix, vector, read, written, live, run, sram, gathers, rows, columns, inner) = np.array(
        kernels, dtype=np.float64).reshape(-1, 11).T
    ones, zeros = np.ones_like(rows), np.zeros_like(rows)
    share = tile_share(np.maximum(rows, 1), np.maximum(columns, 1), np.maximum(inner, 1), machine)
    share = np.where(rows > 0, share, 1.0)
    # accumulators that do not fit leave and come back with every stage of depth of every output tile
    passes = np.ceil(np.maximum(rows, 1) / TILE) * np.ceil(np.maximum(columns, 1) / TILE) \
        * np.ceil(np.maximum(inner, 1) / STAGE)
    return Work(matrix, vector, share, read, written, run, zeros, ones, ones, live, passes, sram,
                np.where(gathers > 0, float(GATHER), 1.0), np.full(len(rows), np.nan))


class Lowerer:
    """Makes tables for one machine. Kernels that recur are lowered once; those likely to come next, with those at hand.

    A row is the same whenever it is lowered: what is kept changes no table.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._place: dict[Cost, int] = {}
        self._times = np.empty((_KEPT, 8))
        self._counts = np.empty((_KEPT, 2 + len(QUANTITIES)), dtype=np.int64)

    def table(self, kernels: Sequence[Cost], copies: Sequence[int] = (), messages: Sequence[Message] = (),
              likely: Callable[[], Sequence[Cost]] = tuple) -> Table:
        """Rows in the order given; ``copies`` in bytes. The engine charges device memory for what copies and
        collectives move. ``likely`` is asked when a kernel is new."""
        k, c, n = len(kernels), len(copies), len(messages)
        times = np.zeros((8, k + c + n + 1))
        times[7] = 1.0
        integers = np.full((3, k + c + n + 1), NONE, dtype=np.int64)
        integers[0] = 0
        quantities = np.zeros((k + c + n + 1, len(QUANTITIES)), dtype=np.int64)
        if k:
            rows = self._lowered(kernels, likely)
            times[:, :k] = self._times[rows].T
            integers[1:, :k] = self._counts[rows, :2].T
            quantities[:k] = self._counts[rows, 2:]
        moved = [*copies, *(message.link_bytes for message in messages)]
        integers[0, k:-1] = moved
        integers[2, k:-1] = [*copies, *(message.payload_bytes for message in messages)]
        times[6, k:-1] = [self._machine.dma_setup_ns] * c + [self._machine.fabric_latency_ns * m.rounds
                                                             for m in messages]
        return Table(times, integers, quantities)

    def _lowered(self, kernels: Sequence[Cost], likely: Callable[[], Sequence[Cost]]) -> list[int]:
        """Where the kernels are kept."""
        place = self._place
        try:
            return [place[cost] for cost in kernels]
        except KeyError:
            self._lower(kernels, likely())
        return [place[cost] for cost in kernels]

    def _lower(self, kernels: Sequence[Cost], likely: Sequence[Cost]) -> None:
        place, most = self._place, len(kernels) + len(likely)
        if len(place) + most > len(self._times):
            place.clear()
            if most > len(self._times):
                self._times = np.empty((2 * most, self._times.shape[1]))
                self._counts = np.empty((2 * most, self._counts.shape[1]), dtype=np.int64)
        new = [cost for cost in dict.fromkeys((*kernels, *likely)) if cost not in place]
        low = lower(needs(new, self._machine), self._machine)
        first = len(place)
        at = slice(first, first + len(new))
        self._times[at] = np.stack([low.matrix_ns, low.vector_ns, low.sram_ns, low.noc_ns, low.hbm_ns, low.spill_ns,
                                    low.fixed_ns, low.conflict], axis=1)
        self._counts[at, 0], self._counts[at, 1], self._counts[at, 2:] = low.flops, low.bytes, low.quantities()
        place.update((cost, first + index) for index, cost in enumerate(new))


def table(machine: Machine, kernels: Sequence[Cost], copies: Sequence[int] = (),
          messages: Sequence[Message] = ()) -> Table:
    """One table of a machine; see `Lowerer.table`."""
    return Lowerer(machine).table(kernels, copies, messages)


def ring_rounds(ranks: int) -> int:
    """Rounds of latency of an all-reduce: up and down a binary tree (messages too small for a ring's bandwidth)."""
    return 2 * math.ceil(math.log2(max(ranks, 2)))
