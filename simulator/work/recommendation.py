"""A recommendation model: many small copies, gathers from embedding tables, small multi-layer networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from fleetscope.errors import UsageError
from simulator.machine import Machine
from simulator.work.arrivals import ArrivalConfig
from simulator.work.crew import Crew
from simulator.work.layout import Layout, LayoutBuilder
from simulator.work.models import RECOMMEND_26, Recommendation
from simulator.work.operators import Cost, elementwise, embedding_bag, matmul
from simulator.work.plan import WARM_UP_NS, Conditions, Gauges, Plan, Seat
from simulator.work.queue import GatherConfig, RequestQueue
from simulator.work.table import Table, table

_INDEX_BYTES = 8


@dataclass(frozen=True, slots=True)
class RecommendationConfig:
    """One device that ranks candidates."""

    model: Recommendation = RECOMMEND_26
    batch: GatherConfig = GatherConfig(64, 1_000_000)
    arrivals: ArrivalConfig | None = ArrivalConfig(per_s=2_000.0)
    candidates: int = 16
    """Samples of a request."""
    features_ns: int = 6_000
    """Processor time to build the features of one request."""

    def __post_init__(self) -> None:
        if self.candidates < 1:
            raise UsageError("recommendation: candidates: is at least 1")
        if self.features_ns < 0:
            raise UsageError("recommendation: features_ns: is not negative")


def kernels(model: Recommendation, samples: int) -> list[tuple[str, bool, Cost]]:
    """(name, on the matrix engine, cost) of every kernel of a batch, in order: one gather a table."""
    w, a = model.weight_bytes, model.activation_bytes
    bag = embedding_bag(samples, 1, model.lookups, model.width, w, a)
    bottom = pairwise((model.dense_features, *model.bottom))
    top = pairwise((model.interactions, *model.top))
    features = model.tables + 1
    dots = matmul(samples * features, model.width, features, 0, a)  # each sample's features by themselves: no weights
    return [
        *(("bottom_mlp", True, matmul(samples, inner, outer, w, a)) for inner, outer in bottom),
        *(("embedding_bag", False, bag) for _ in range(model.tables)),
        ("concat_features", False, elementwise(samples * features * model.width, 1, 1, 0, a)),
        ("interaction", True, dots),
        *(("top_mlp", True, matmul(samples, inner, outer, w, a)) for inner, outer in top),
        ("sigmoid", False, elementwise(samples, 1, 1, 4, a)),
    ]


class RecommendationPlanner:
    """Plans one device; see `Planner`."""

    ranks = 1
    groups: tuple[tuple[int, ...], ...] = ()

    def __init__(self, config: RecommendationConfig, key: tuple[int, ...], seats: Sequence[Seat], *,
                 start_ns: int = WARM_UP_NS) -> None:
        if len(seats) != 1:
            raise UsageError(f"recommendation: a replica has one seat, not {len(seats)}")
        self._seat, self.config = seats[0], config
        model = config.model
        held = int(model.tables * model.rows * model.width * model.weight_bytes)
        if held > self._seat.machine.hbm_bytes:
            raise UsageError(f"recommendation: model: the tables of {model.name} take {held:,} B; "
                             f"{self._seat.machine.kind} has {self._seat.machine.hbm_bytes:,} B")
        self._crew = Crew(key, [self._seat], ())
        self._queue = RequestQueue(config.batch, config.arrivals, np.random.default_rng([*key, 1]), start_ns)
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
            self._made[shape] = self._layout(*shape), _table(self.config, count, self._seat.machine)
        layout, work = self._made[shape]
        programs = self._crew.programs([layout], [work], conditions)
        if at_ns > demand_ns:  # the step is open from its first request on
            programs[0].call_ns[0] = at_ns - demand_ns
        step, self._step = self._step, self._step + 1
        return Plan(step, demand_ns, demand_ns, programs, Gauges(count, self._queue.waiting, count))

    def _layout(self, count: int, gathers: bool) -> Layout:
        config, model = self.config, self.config.model
        calls = LayoutBuilder(self._seat.host, 0, 0, remote_numa=self._seat.remote_numa)
        if gathers:
            calls.work("gather_batch", 0, "host_launch")
        calls.work("build_features", config.features_ns * count, "host_input")
        shapes = kernels(model, count * config.candidates)
        dense, sparse, out = range(len(shapes), len(shapes) + 3)
        ready = [calls.copy("features_h2d", dense), *(calls.copy("features_h2d", sparse) for _ in range(model.tables))]
        table_of = iter(ready[1:])
        for row, (name, matrix, _) in enumerate(shapes):
            wait = ready[0] if not row else next(table_of) if name == "embedding_bag" else -1
            done = calls.kernel(name, row, matrix=matrix, wait=wait)
        calls.copy("outputs_d2h", out, out=True, wait=done)
        calls.sync()
        return calls.build()


def _table(config: RecommendationConfig, count: int, machine: Machine) -> Table:
    """Dense features in 32 bit, indices of each table in 64 bit, scores in 32 bit."""
    model, samples = config.model, count * config.candidates
    return table(machine, [cost for _, _, cost in kernels(model, samples)],
                 [samples * model.dense_features * 4, samples * model.lookups * _INDEX_BYTES, samples * 4])
