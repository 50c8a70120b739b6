"""The calls of a step whose order does not change: columns built once, then filled with the work of each step.

A layout names for each call a row of the step's table of work; many calls (the layers) share a row. `fill` looks the
rows up, adds noise, and numbers the collectives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

from simulator.causes import CODE
from simulator.engine.program import (
    BLOCKING,
    COLLECTIVE,
    COMPUTE,
    COPY_IN,
    COPY_OUT,
    LAUNCH,
    MATRIX_TRACK,
    NONE,
    PAGEABLE,
    REMOTE_NUMA,
    SYNC,
    WORK,
    Floats,
    Ints,
    Program,
)
from simulator.work.hosts import BITS, ONE, HostCosts, draw, growth_table, spread_table
from simulator.work.names import NAME
from simulator.work.table import Table

NS: Final = 1_000_000_000
_COPY: Final = (COPY_IN, COPY_OUT)


@dataclass(frozen=True, slots=True)
class Layout:
    """Columns of n calls that hold in every step; ``row`` is the row of the table (the last row of a table is zero)."""

    fixed: dict[str, Ints]
    row: Ints
    gap_ns: Ints
    call_ns: Ints
    group: Ints
    """Communicator of the call among the planner's groups; its last entry's number stands for none."""
    staged: Ints
    """Calls that copy pageable memory."""
    collectives: Ints
    """Collectives of each group in the layout."""


class LayoutBuilder:
    """Takes calls one after the other."""

    def __init__(self, host: HostCosts, groups: int, first_group: int, *, remote_numa: bool = False) -> None:
        self._host = host
        self._first_group = first_group
        self._copy_flags = REMOTE_NUMA if remote_numa else 0
        self._calls: list[tuple[int, ...]] = []
        self._counts = [0] * groups
        self._in_graph = False

    def __len__(self) -> int:
        return len(self._calls)

    def kernel(self, name: str, row: int, *, matrix: bool = True, wait: int = NONE) -> int:
        """Launch on the compute queue; returns the call's index."""
        gap, call, api = self._host.gap_ns, self._host.launch_ns, NAME["launchKernel"]
        if self._host.graph:
            first = not self._in_graph
            gap, call = (gap, self._host.graph_launch_ns) if first else (0, self._host.graph_kernel_ns)
            api = NAME["launchGraph"] if first else NONE
            self._in_graph = True
        return self._add(LAUNCH, gap, call, "host_launch", api, name, COMPUTE, row, wait,
                         MATRIX_TRACK if matrix else 0)

    def copy(self, name: str, row: int, *, out: bool = False, wait: int = NONE, blocking: bool = False) -> int:
        """A copy over PCIe; pageable memory makes it block."""
        pageable = self._host.pageable
        flags = self._copy_flags | (BLOCKING | PAGEABLE if pageable else BLOCKING if blocking else 0)
        api = NAME["memcpyPageable" if pageable else "memcpy" if blocking else "memcpyAsync"]
        return self._add(LAUNCH, self._host.gap_ns, self._host.copy_ns, "host_pageable" if pageable else "host_launch",
                         api, name, COPY_OUT if out else COPY_IN, row, wait, flags)

    def collective(self, name: str, row: int, group: int, *, wait: int = NONE) -> int:
        """A collective of a group, numbered in order of these calls."""
        index = self._add(LAUNCH, self._host.gap_ns, self._host.collective_ns, "host_launch", NAME["launchCollective"],
                          name, COLLECTIVE, row, wait, 0, group, self._counts[group])
        self._counts[group] += 1
        return index

    def work(self, name: str | None, call_ns: int, cause: str) -> int:
        """Work of the host alone, with a span if named."""
        return self._add(WORK, 0, call_ns, cause, NONE if name is None else NAME[name], None, NONE, NONE, NONE, 0)

    def sync(self) -> int:
        """Wait for everything given."""
        return self._add(SYNC, self._host.gap_ns, self._host.sync_ns, "host_launch", NAME["synchronize"], None, NONE,
                         NONE, NONE, 0)

    def _add(self, kind: int, gap: int, call: int, cause: str, api: int, name: str | None, queue: int, row: int,
             wait: int, flags: int, group: int = NONE, sequence: int = NONE) -> int:
        if kind != LAUNCH or queue != COMPUTE:
            self._in_graph = False
        self._calls.append((kind, gap, call, CODE[cause], api, NONE if name is None else NAME[name], queue, row, wait,
                            flags, group, sequence))
        return len(self._calls) - 1

    def build(self) -> Layout:
        """The layout of all calls so far."""
        kind, gap, call, cause, api, name, queue, row, wait, flags, group, sequence = np.array(
            self._calls, dtype=np.int64).reshape(-1, 12).T.copy()
        communicator = np.where(group == NONE, NONE, group + self._first_group)
        fixed = {"kind": kind, "cause": cause, "api": api, "name": name, "queue": queue, "wait": wait, "flags": flags,
                 "communicator": communicator, "sequence": sequence}
        staged = np.flatnonzero(((flags & PAGEABLE) > 0) & np.isin(queue, _COPY))
        return Layout(fixed, row, gap, call, np.where(group == NONE, len(self._counts), group), staged,
                      np.array(self._counts, dtype=np.int64))


class Filler:
    """Fills layouts of one rank, with its own stream of noise."""

    def __init__(self, host: HostCosts, rng: np.random.Generator) -> None:
        self._host = host
        self.rng = rng
        self._gap, self._call = spread_table(host.gap_spread), spread_table(host.call_spread)
        self._device = growth_table(host.device_noise)

    def fill(self, layout: Layout, table: Table, sequences: Ints, request: int, host_factor: float,
             device_factor: float) -> Program:
        """One step's program. ``sequences``: next number of each group."""
        fixed, count = layout.fixed, len(layout.row)
        noise = draw(self.rng, (3, count))
        factor, share = round(host_factor * ONE), round(self._host.driver_share * ONE)
        gap, call, driver = np.empty((3, count), dtype=np.int64)
        times, integers = np.empty((8, count)), np.empty((3, count), dtype=np.int64)
        _work(layout.row, table.times, table.integers, self._device[noise[2]], device_factor, times, integers)
        _calls(layout.gap_ns, layout.call_ns, self._gap, self._call, noise, factor, gap, call)
        if len(layout.staged):
            at = layout.staged
            call[at] += (integers[0, at] * (NS / self._host.pageable_bytes_per_s)).astype(np.int64)
        _drivers(call, fixed["kind"], share, driver)
        return Program(
            gap_ns=gap, call_ns=call, driver_ns=driver, request=np.full(count, request, dtype=np.int64),
            matrix_ns=times[0], vector_ns=times[1], sram_ns=times[2], noc_ns=times[3], hbm_ns=times[4],
            spill_ns=times[5], fixed_ns=times[6], conflict=times[7], link_bytes=integers[0], flops=integers[1],
            bytes=integers[2], quantities=table.quantities.take(layout.row, axis=0),
            **{**fixed, "sequence": self._numbered(layout, sequences)})

    @staticmethod
    def _numbered(layout: Layout, sequences: Ints) -> Ints:
        if not len(sequences):
            return layout.fixed["sequence"]
        return np.asarray(layout.fixed["sequence"] + np.append(sequences, 0)[layout.group])


@numba.njit(cache=True)
def _work(row: Ints, table_times: Floats, table_integers: Ints, device: Floats, device_factor: float, times: Floats,
          integers: Ints) -> None:
    """Each call's row of the table; all its times but the conflict factor grow by the device's noise."""
    for i in range(len(row)):
        at = row[i]  # −1: the last row
        factor = device[i] * device_factor
        for column in range(7):
            times[column, i] = table_times[column, at] * factor
        times[7, i] = table_times[7, at]
        for column in range(3):
            integers[column, i] = table_integers[column, at]


@numba.njit(cache=True)
def _calls(gap_ns: Ints, call_ns: Ints, gaps: Ints, calls: Ints, noise: NDArray[np.uint16], factor: int, gap: Ints,
           call: Ints) -> None:
    """Times of the host with their noise; factors are in 1/65,536, each product is rounded down."""
    for i in range(len(gap)):
        gap[i] = (gap_ns[i] * gaps[noise[0, i]] >> BITS) * factor >> BITS
        call[i] = (call_ns[i] * calls[noise[1, i]] >> BITS) * factor >> BITS


@numba.njit(cache=True)
def _drivers(call: Ints, kind: Ints, share: int, driver: Ints) -> None:
    """The driver's part of launches."""
    for i in range(len(call)):
        driver[i] = call[i] * share >> BITS if kind[i] == LAUNCH else 0
