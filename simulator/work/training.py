"""Training-like steps of a stack of transformer blocks on data-parallel ranks.

Each step runs forward and backward, reduces the gradients of each layer over all ranks while the layers below are still
in backward, updates the parameters and reads the loss; meanwhile the host loads the next batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fleetscope.errors import UsageError
from simulator.work.batcher import Group
from simulator.work.crew import Crew
from simulator.work.hosts import HostCosts
from simulator.work.layout import Layout, LayoutBuilder
from simulator.work.models import BLOCKS_1B, Transformer
from simulator.work.operators import Cost, all_reduce_bytes, backward, elementwise, optimizer_step
from simulator.work.plan import WARM_UP_NS, Conditions, Gauges, Plan, Seat
from simulator.work.table import Message, Table, ring_rounds, table
from simulator.work.transformer import ON_VECTOR, ROW, ROWS, costs

_LAYER: Final = ROWS[1:9]
_LOSS: Final = 2 * len(ROWS)
_UPDATE: Final = _LOSS + 1
_INPUT: Final = _UPDATE + 1
_OUTPUT: Final = _INPUT + 1
_GRADIENTS: Final = _OUTPUT + 1
BYTES_PER_PARAMETER: Final = 16
"""Weight and gradient in 16 bit, master and two moments in 32 bit."""


@dataclass(frozen=True, slots=True)
class TrainingConfig:
    """One data-parallel job."""

    model: Transformer = BLOCKS_1B
    ranks: int = 1
    sequences: int = 4
    """Of each rank and step."""
    tokens: int = 1_024
    """Of each sequence."""
    load_ns: int = 2_000_000
    """The host prepares a batch, each step."""
    prefetch: bool = True
    """While the device works on the batch before; else the device waits for it."""
    overlap: bool = True
    """Gradients are reduced during backward; else after it."""

    def __post_init__(self) -> None:
        for key, least in (("ranks", 1), ("sequences", 1), ("tokens", 1), ("load_ns", 0)):
            if getattr(self, key) < least:
                raise UsageError(f"training: {key}: is at least {least}")


class TrainingPlanner:
    """Plans one job; there is always a next step. See `Planner`."""

    def __init__(self, config: TrainingConfig, key: tuple[int, ...], seats: Sequence[Seat], *, first_group: int = 0,
                 start_ns: int = WARM_UP_NS) -> None:
        if len(seats) != config.ranks:
            raise UsageError(f"training: {config.ranks} ranks need as many seats, not {len(seats)}")
        held = config.model.weights * BYTES_PER_PARAMETER
        for seat in seats:
            if held > seat.machine.hbm_bytes:
                raise UsageError(f"training: model: {config.model.name} with its optimizer takes {held:,} B; "
                                 f"{seat.machine.kind} has {seat.machine.hbm_bytes:,} B")
        self.config = config
        self.ranks = config.ranks
        self.groups: tuple[tuple[int, ...], ...] = (tuple(range(config.ranks)),) if config.ranks > 1 else ()
        self._crew = Crew(key, seats, self.groups)
        self._layouts = [self._layout(seat.host, first_group, remote_numa=seat.remote_numa) for seat in seats]
        self._tables = [self._table(seat) for seat in seats]
        self._start_ns = start_ns
        self._step = 0

    def plan(self, now_ns: int, conditions: tuple[Conditions, ...] = ()) -> Plan:
        """The next step; see `Planner.plan`."""
        programs = self._crew.programs(self._layouts, self._tables, conditions)
        step, self._step = self._step, self._step + 1
        now_ns = max(now_ns, self._start_ns)
        return Plan(step, now_ns, now_ns, programs, Gauges(batch_size=self.config.sequences))

    def _table(self, seat: Seat) -> Table:
        config, model = self.config, self.config.model
        tokens = config.sequences * config.tokens
        group = Group()
        for _ in range(config.sequences):
            group.add(config.tokens, config.tokens, config.tokens)
        forward = costs(model, group)
        loss = elementwise(tokens * model.vocab, 1, 1, 6, model.activation_bytes)
        rows: list[Cost] = [*forward, *(backward(cost) for cost in forward), loss, optimizer_step(model.weights)]
        layer, ends = 2 * model.layer_weights, 2 * model.vocab * model.hidden
        messages = [Message(all_reduce_bytes(size, self.ranks), size, ring_rounds(self.ranks))
                    for size in (layer, ends, 4)]
        return table(seat.machine, rows, [8 * tokens, 4], messages)

    def _layout(self, host: HostCosts, first_group: int, *, remote_numa: bool) -> Layout:
        calls = LayoutBuilder(host, len(self.groups), first_group, remote_numa=remote_numa)
        layers = self.config.model.layers
        if not self.config.prefetch:
            calls.work("load_batch", self.config.load_ns, "host_input")
        ready = calls.copy("inputs_h2d", _INPUT)
        for name in ("embedding", *(_LAYER * layers), "final_norm", "lm_head"):
            calls.kernel(name, ROW[name], matrix=name not in ON_VECTOR, wait=ready)
            ready = -1
        calls.kernel("loss", _LOSS, matrix=False)
        late: list[int] = []
        ready = self._backward(calls, ("lm_head", "final_norm"), _GRADIENTS + 1, late)
        for _ in range(layers):
            ready = self._backward(calls, tuple(reversed(_LAYER)), _GRADIENTS, late)
        calls.kernel("embedding_backward", len(ROWS) + ROW["embedding"], matrix=False)
        if self.groups:
            ready = self._reduce(calls, _GRADIENTS + 1, len(calls) - 1)
        for row in late:
            ready = self._reduce(calls, row, -1)
        done = calls.kernel("adam_update", _UPDATE, matrix=False, wait=ready)
        if self.groups:  # mean of the loss, which the host reads
            done = calls.collective("all_reduce", _GRADIENTS + 2, 0, wait=done)
        calls.copy("outputs_d2h", _OUTPUT, out=True, wait=done)
        if self.config.prefetch:
            calls.work("load_batch", self.config.load_ns, "host_input")
        calls.sync()
        return calls.build()

    def _backward(self, calls: LayoutBuilder, names: tuple[str, ...], row: int, late: list[int]) -> int:
        """Kernels of a part of backward, and the reduction of its gradients (table row) or its place in ``late``."""
        done = -1
        for name in names:
            done = calls.kernel(f"{name}_backward", len(ROWS) + ROW[name], matrix=name not in ON_VECTOR)
        if not self.groups:
            return -1
        if not self.config.overlap:
            late.append(row)
            return -1
        return self._reduce(calls, row, done)

    @staticmethod
    def _reduce(calls: LayoutBuilder, row: int, after: int) -> int:
        return calls.collective("all_reduce", row, 0, wait=after)
