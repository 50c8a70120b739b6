"""The table of work of one step: what each row takes of a machine's resources, and what its spans state."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.engine.program import NONE, Floats, Ints
from simulator.machine import Machine
from simulator.physics.lower import QUANTITIES, Work, lower
from simulator.physics.roofline import tile_share
from simulator.physics.sram import GATHER
from simulator.work.operators import Cost


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
    return Work(matrix, vector, share, read, written, run, zeros, ones, ones, live, ones, sram,
                np.where(gathers > 0, float(GATHER), 1.0), np.full(len(rows), np.nan))


def table(machine: Machine, kernels: Sequence[Cost], copies: Sequence[int] = (),
          messages: Sequence[Message] = ()) -> Table:
    """Rows in the order given; ``copies`` in bytes. The engine charges device memory for what copies and
    collectives move."""
    k, c, n = len(kernels), len(copies), len(messages)
    times = np.zeros((8, k + c + n + 1))
    times[7] = 1.0
    integers = np.full((3, k + c + n + 1), NONE, dtype=np.int64)
    integers[0] = 0
    quantities = np.zeros((k + c + n + 1, len(QUANTITIES)), dtype=np.int64)
    if k:
        low = lower(needs(kernels, machine), machine)
        for row, column in enumerate((low.matrix_ns, low.vector_ns, low.sram_ns, low.noc_ns, low.hbm_ns, low.spill_ns,
                                      low.fixed_ns, low.conflict)):
            times[row, :k] = column
        integers[1, :k], integers[2, :k] = low.flops, low.bytes
        quantities[:k] = low.quantities()
    moved = [*copies, *(message.link_bytes for message in messages)]
    integers[0, k:-1] = moved
    integers[2, k:-1] = [*copies, *(message.payload_bytes for message in messages)]
    times[6, k:-1] = [machine.dma_setup_ns] * c + [machine.fabric_latency_ns * m.rounds for m in messages]
    return Table(times, integers, quantities)


def ring_rounds(ranks: int) -> int:
    """Rounds of latency of an all-reduce: up and down a binary tree (messages too small for a ring's bandwidth)."""
    return 2 * math.ceil(math.log2(max(ranks, 2)))
