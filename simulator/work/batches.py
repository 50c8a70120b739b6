"""Planners of one device that works through batches of requests: what a batch does is up to the model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np

from fleetscope.errors import UsageError
from simulator.work.arrivals import ArrivalConfig
from simulator.work.crew import Crew
from simulator.work.layout import Layout, LayoutBuilder
from simulator.work.plan import Conditions, Gauges, Plan, Seat
from simulator.work.queue import GatherConfig, RequestQueue
from simulator.work.table import Table


class BatchPlanner(ABC):
    """Plans one device; see `Planner`. A step is a batch, and is open from its first request on."""

    ranks: int = 1
    groups: tuple[tuple[int, ...], ...] = ()
    def __init__(self, seat: Seat, key: tuple[int, ...], batch: GatherConfig, arrivals: ArrivalConfig | None,
                 start_ns: int) -> None:
        self._seat = seat
        self._crew = Crew(key, [seat], ())
        self._queue = RequestQueue(batch, arrivals, np.random.default_rng([*key, 1]), start_ns)
        self._made: dict[tuple[int, bool], tuple[Layout, Table]] = {}
        self._start_ns = start_ns
        self._step = 0

    def plan(self, now_ns: int, conditions: tuple[Conditions, ...] = ()) -> Plan:
        """The next batch; see `Planner.plan`."""
        count, at_ns, demand_ns = self._queue.take(max(now_ns, self._start_ns))
        if not count:
            return Plan(self._step, at_ns, at_ns, (), Gauges())
        shape = count, at_ns > demand_ns
        if shape not in self._made:
            self._made[shape] = self._layout(*shape), self._table(count)
        layout, work = self._made[shape]
        programs = self._crew.programs([layout], [work], conditions)
        if at_ns > demand_ns:  # the step is open from its first request on
            programs[0].call_ns[0] = at_ns - demand_ns
        step, self._step = self._step, self._step + 1
        return Plan(step, demand_ns, demand_ns, programs, Gauges(count, self._queue.waiting, count))

    def _layout(self, count: int, gathers: bool) -> Layout:
        calls = LayoutBuilder(self._seat.host, 0, 0, remote_numa=self._seat.remote_numa)
        if gathers:
            calls.work("gather_batch", 0, "host_launch")
        self._calls(calls, count)
        calls.sync()
        return calls.build()

    @abstractmethod
    def _calls(self, calls: LayoutBuilder, count: int) -> None:
        """Everything a batch of ``count`` requests calls, but for the wait at its end."""

    @abstractmethod
    def _table(self, count: int) -> Table:
        """Work of the kernels of such a batch, then bytes of its copies."""


def only(seats: Sequence[Seat], kind: str) -> Seat:
    """The one seat of a replica of one device. UsageError where there are more or none."""
    if len(seats) != 1:
        raise UsageError(f"{kind}: a replica has one seat, not {len(seats)}")
    return seats[0]
