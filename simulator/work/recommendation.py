"""A recommendation model: many small copies, gathers from embedding tables, small multi-layer networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from fleetscope.errors import UsageError
from simulator.work.arrivals import ArrivalConfig
from simulator.work.batches import BatchPlanner, only
from simulator.work.layout import LayoutBuilder
from simulator.work.models import RECOMMEND_26, Recommendation
from simulator.work.operators import Cost, elementwise, embedding_bag, matmul
from simulator.work.plan import WARM_UP_NS, Seat
from simulator.work.queue import GatherConfig
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


class RecommendationPlanner(BatchPlanner):
    """Plans one device; see `Planner`."""

    def __init__(self, config: RecommendationConfig, key: tuple[int, ...], seats: Sequence[Seat], *,
                 start_ns: int = WARM_UP_NS) -> None:
        seat, model = only(seats, "recommendation"), config.model
        held = int(model.tables * model.rows * model.width * model.weight_bytes)
        if held > seat.machine.hbm_bytes:
            raise UsageError(f"recommendation: model: the tables of {model.name} take {held:,} B; "
                             f"{seat.machine.kind} has {seat.machine.hbm_bytes:,} B")
        super().__init__(seat, key, config.batch, config.arrivals, start_ns)
        self.config = config

    def _calls(self, calls: LayoutBuilder, count: int) -> None:
        config, model = self.config, self.config.model
        calls.work("build_features", config.features_ns * count, "host_input")
        shapes = kernels(model, count * config.candidates)
        dense, sparse, out = range(len(shapes), len(shapes) + 3)
        ready = [calls.copy("features_h2d", dense), *(calls.copy("features_h2d", sparse) for _ in range(model.tables))]
        table_of = iter(ready[1:])
        for row, (name, matrix, _) in enumerate(shapes):
            wait = ready[0] if not row else next(table_of) if name == "embedding_bag" else -1
            done = calls.kernel(name, row, matrix=matrix, wait=wait)
        calls.copy("outputs_d2h", out, out=True, wait=done)

    def _table(self, count: int) -> Table:
        """Dense features in 32 bit, indices of each table in 64 bit, scores in 32 bit."""
        model, samples = self.config.model, count * self.config.candidates
        return table(self._seat.machine, [cost for _, _, cost in kernels(model, samples)],
                     [samples * model.dense_features * 4, samples * model.lookups * _INDEX_BYTES, samples * 4])
