"""LLM serving with continuous batching over tensor-parallel ranks and pipeline stages, with a key-value budget and
speculative decoding. One step is planned at a time, for all ranks of a replica.

A stage's kernels run in order on one queue. Copies of pages run beside them: attention waits for the pages it reads.
Two all-reduces a layer keep tensor-parallel ranks together (Shoeybi et al., 2019), sends and receives the stages; the
last stage tells all ranks the tokens. With speculation a draft model, repeated on every rank, guesses tokens one by one
and the model verifies all of them in one step (Leviathan et al., 2023).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from fleetscope.errors import UsageError
from simulator.engine.program import Program
from simulator.machine import Machine
from simulator.work.arrivals import ArrivalConfig, Lengths, arrivals
from simulator.work.batcher import Batch, BatchConfig, Batcher, Group
from simulator.work.crew import Crew
from simulator.work.layout import Layout, LayoutBuilder
from simulator.work.models import CHAT_8B, Transformer
from simulator.work.operators import KV_BLOCK_TOKENS, all_gather_bytes, all_reduce_bytes
from simulator.work.plan import WARM_UP_NS, Conditions, Gauges, Plan, Seat
from simulator.work.table import Message, Table, ring_rounds, table
from simulator.work.transformer import ON_VECTOR, ROW, ROWS, costs, rank_kv_bytes, rank_weight_bytes

INPUT_BYTES_PER_TOKEN: Final = 4_096
"""Token ids, positions, page tables and masks."""
OUTPUT_BYTES_PER_SEQUENCE: Final = 1_024
SWAP_COPIES: Final = 8
"""Copies that pages of a preempted request are gathered into, each direction."""
MEMORY_SHARE: Final = 0.92
"""Share of device memory for weights and pages; the rest is for activations and the runtime."""
_AFTER_STEP_NS: Final = 5_000
_ARRIVALS, _LENGTHS = 1, 2
"""Purposes of random streams."""
_LAYER: Final = ROWS[1:9]


@dataclass(frozen=True, slots=True)
class Speculation:
    """A draft model that guesses ``tokens`` each step, each accepted with probability ``acceptance`` if those before
    are."""

    draft: Transformer
    tokens: int = 4
    acceptance: float = 0.7

    def __post_init__(self) -> None:
        if self.tokens < 1:
            raise UsageError("speculation: tokens: is at least 1")
        if not 0 <= self.acceptance <= 1:
            raise UsageError("speculation: acceptance: a probability lies within 0..1")


@dataclass(frozen=True, slots=True)
class ServingConfig:
    """What one replica serves, and how."""

    model: Transformer = CHAT_8B
    arrivals: ArrivalConfig = ArrivalConfig(per_s=1.2)
    prompt: Lengths = Lengths("gamma", 512, 0.5)
    output: Lengths = Lengths("geometric", 128)
    batch: BatchConfig = BatchConfig()
    tensor_parallel: int = 1
    pipeline_stages: int = 1
    speculation: Speculation | None = None
    kv_budget_bytes: int = 0
    """Device memory of a rank for pages; 0: what weights leave."""

    def __post_init__(self) -> None:
        if self.tensor_parallel < 1 or self.model.hidden // self.model.head_width % self.tensor_parallel:
            raise UsageError(f"serving: tensor_parallel: {self.tensor_parallel} ranks do not divide the "
                             f"{self.model.hidden // self.model.head_width} heads of {self.model.name}")
        if not 1 <= self.pipeline_stages <= self.model.layers:
            raise UsageError(f"serving: pipeline_stages: lies within 1..{self.model.layers}, the model's layers")
        if self.speculation and self.pipeline_stages > 1:
            raise UsageError("serving: speculation: drafts need all layers on one stage (pipeline_stages = 1)")
        if self.kv_budget_bytes < 0:
            raise UsageError("serving: kv_budget_bytes: is not negative")

    @property
    def ranks(self) -> int:
        """Ranks of a replica: rank = stage · tensor_parallel + index in the stage."""
        return self.tensor_parallel * self.pipeline_stages

    def layers_of(self, stage: int) -> int:
        """Layers of a stage; the first ones take what is left over."""
        layers, rest = divmod(self.model.layers, self.pipeline_stages)
        return layers + (stage < rest)


def budget_blocks(config: ServingConfig, machines: Sequence[Machine]) -> int:
    """Pages that fit into every rank's device memory beside its weights."""
    least = 1 << 62
    for rank, machine in enumerate(machines):
        stage = rank // config.tensor_parallel
        layers = config.layers_of(stage)
        held = rank_weight_bytes(config.model, layers, config.tensor_parallel, first=stage == 0,
                                 last=stage == config.pipeline_stages - 1)
        page = KV_BLOCK_TOKENS * rank_kv_bytes(config.model, layers, config.tensor_parallel)
        if config.speculation:
            draft = config.speculation.draft
            held += rank_weight_bytes(draft, draft.layers, 1, first=True, last=True)
            page += KV_BLOCK_TOKENS * rank_kv_bytes(draft, draft.layers, 1)
        budget = config.kv_budget_bytes or int(machine.hbm_bytes * MEMORY_SHARE) - held
        least = min(least, budget // page)
    return least


def communicators(config: ServingConfig) -> tuple[tuple[int, ...], ...]:
    """Groups: one a stage (tensor parallel), then pairs of ranks of neighbouring stages, then all ranks."""
    t, stages = config.tensor_parallel, config.pipeline_stages
    groups: list[tuple[int, ...]] = []
    if t > 1:
        groups += [tuple(range(stage * t, stage * t + t)) for stage in range(stages)]
    if stages > 1:
        groups += [(rank, rank + t) for rank in range(t * (stages - 1))]
        groups.append(tuple(range(t * stages)))
    return tuple(groups)


@dataclass(frozen=True, slots=True)
class _Shape:
    """What decides the calls of a step."""

    micro_batches: int
    drafted: int
    blocks_in: bool
    blocks_out: bool
    streamed: bool
    written: bool


# Rows of the step's table: per micro-batch the rows of the model; then of the draft; then copies; then collectives.
_COPIES: Final = ("inputs", "outputs", "swap_in", "swap_out", "stream_in", "stream_out")
_MESSAGES: Final = ("all_reduce", "all_gather", "stage")


class ServingPlanner:
    """Plans one replica. ``key`` seeds it; ``first_rank`` marks its requests; see `Planner`."""

    def __init__(self, config: ServingConfig, key: tuple[int, ...], seats: Sequence[Seat], *, first_rank: int = 0,
                 first_group: int = 0, start_ns: int = WARM_UP_NS) -> None:
        if len(seats) != config.ranks:
            raise UsageError(f"serving: {config.tensor_parallel} · {config.pipeline_stages} ranks need as many seats, "
                             f"not {len(seats)}")
        self.config = config
        self.ranks = config.ranks
        self.groups = communicators(config)
        self._crew = Crew(key, seats, self.groups)
        self._first_rank, self._first_group = first_rank, first_group
        guess = config.speculation
        self.batcher = Batcher(
            config.batch, arrivals(config.arrivals, np.random.default_rng([*key, _ARRIVALS]), start_ns),
            (config.prompt, config.output), np.random.default_rng([*key, _LENGTHS]),
            budget_blocks(config, [seat.machine for seat in seats]), drafted=guess.tokens if guess else 0,
            acceptance=guess.acceptance if guess else 0.0)
        self._start_ns = start_ns
        self._layouts: dict[_Shape, list[Layout]] = {}
        self._step = 0
        self._answered = 0

    def plan(self, now_ns: int, conditions: tuple[Conditions, ...] = ()) -> Plan:
        """The next step; see `Planner.plan`."""
        now_ns = max(now_ns, self._start_ns)
        batcher = self.batcher
        batcher.completed(now_ns, self._answered)
        self._answered = 0
        batcher.admit(now_ns)
        if not batcher.pending:
            return Plan(self._step, batcher.next_arrival_ns, batcher.next_arrival_ns, (), Gauges(kv_used_share=0.0))
        batch = batcher.step(self.config.pipeline_stages)
        self._answered = len(batch.finished)
        programs = self._programs(batch, conditions)
        gauges = Gauges(batch.running, batch.waiting, batch.size, batch.used_blocks / batcher.budget_blocks)
        step, self._step = self._step, self._step + 1
        return Plan(step, now_ns + _AFTER_STEP_NS, now_ns, programs, gauges)

    # Programs

    def _programs(self, batch: Batch, conditions: tuple[Conditions, ...]) -> tuple[Program, ...]:
        shape = _Shape(len(batch.groups), batch.drafted, batch.blocks_in > 0, batch.blocks_out > 0,
                       batch.streamed_tokens > 0, batch.written_tokens > 0)
        if shape not in self._layouts:
            self._layouts[shape] = [self._layout(shape, rank) for rank in range(self.ranks)]
        tables: dict[tuple[int, int], Table] = {}
        found = []
        for rank, seat in enumerate(self._crew.seats):
            layers = self.config.layers_of(rank // self.config.tensor_parallel)
            kind = (id(seat.machine), layers)
            if kind not in tables:
                tables[kind] = self._table(batch, seat.machine, layers)
            found.append(tables[kind])
        request = self._first_rank << 32 | batch.request if batch.request >= 0 else -1
        return self._crew.programs(self._layouts[shape], found, conditions, request)

    def _table(self, batch: Batch, machine: Machine, layers: int) -> Table:
        config, model = self.config, self.config.model
        rows = [cost for group in batch.groups for cost in costs(model, group, config.tensor_parallel)]
        if batch.drafted and config.speculation:
            rows += costs(config.speculation.draft, _draft_group(batch.groups[0], batch.drafted))
        tokens, sampled = (sum(getattr(g, name) for g in batch.groups) for name in ("tokens", "sampled"))
        page = KV_BLOCK_TOKENS * rank_kv_bytes(model, layers, config.tensor_parallel)
        layer_token = rank_kv_bytes(model, 1, config.tensor_parallel)
        copies = [tokens * INPUT_BYTES_PER_TOKEN, sampled * OUTPUT_BYTES_PER_SEQUENCE,
                  -(-batch.blocks_in * page // SWAP_COPIES), -(-batch.blocks_out * page // SWAP_COPIES),
                  batch.streamed_tokens * layer_token, batch.written_tokens * layer_token]
        messages = []
        for group in batch.groups:
            hidden = group.tokens * model.hidden * model.activation_bytes
            logits = group.sampled * model.vocab * model.activation_bytes
            ranks = config.tensor_parallel
            messages += [Message(all_reduce_bytes(hidden, ranks), hidden, ring_rounds(ranks)),
                         Message(all_gather_bytes(logits, ranks), logits, ring_rounds(ranks)),
                         Message(hidden, hidden)]
        messages.append(Message(8 * sampled, 8 * sampled, ring_rounds(self.ranks)))
        return table(machine, rows, copies, messages)

    def _layout(self, shape: _Shape, rank: int) -> Layout:
        return _StageCalls(self.config, shape, self._crew.seats[rank], rank, self.groups, self._first_group).layout()

    @property
    def budget_blocks(self) -> int:
        """Pages of device memory on every rank."""
        return self.batcher.budget_blocks


def _draft_group(group: Group, drafted: int) -> Group:
    """One step of the draft model: one token a sequence on about the same context."""
    count = group.sequences
    keys = group.keys - count * drafted // 2
    return Group(tokens=count, sampled=count, pairs=keys, keys=keys, sequences=count)


class _StageCalls:
    """The calls of one rank in a step of a shape."""

    def __init__(self, config: ServingConfig, shape: _Shape, seat: Seat, rank: int, groups: tuple[tuple[int, ...], ...],
                 first_group: int) -> None:
        self._config, self._shape = config, shape
        self._stage, self._index = divmod(rank, config.tensor_parallel)
        self._rank = rank
        self._groups = groups
        self._last = self._stage == config.pipeline_stages - 1
        self._calls = LayoutBuilder(seat.host, len(groups), first_group, remote_numa=seat.remote_numa)
        self._scheduler_ns = seat.host.scheduler_ns
        self._draft_row = shape.micro_batches * len(ROWS)
        self._copy_row = self._draft_row + (len(ROWS) if shape.drafted else 0)
        self._message_row = self._copy_row + len(_COPIES)

    def layout(self) -> Layout:
        """Schedule, pages and inputs, then each micro-batch, then the tokens."""
        calls, shape = self._calls, self._shape
        calls.work("schedule", self._scheduler_ns, "host_launch")
        swapped = self._swaps()
        ready = calls.copy("inputs_h2d", self._copy("inputs")) if not self._stage else -1
        if shape.drafted:
            ready = self._draft(ready)
        for micro in range(shape.micro_batches):
            ready = self._forward(micro, ready, swapped)
            swapped = -1
        if self._config.pipeline_stages > 1:
            ready = calls.collective("broadcast", self._message_row + 3 * shape.micro_batches, len(self._groups) - 1,
                                     wait=ready)
        if self._last:
            calls.copy("tokens_d2h", self._copy("outputs"), out=True, wait=ready)
        calls.sync()
        return calls.build()

    def _copy(self, name: str) -> int:
        return self._copy_row + _COPIES.index(name)

    def _message(self, name: str, micro: int) -> int:
        return self._message_row + 3 * micro + _MESSAGES.index(name)

    def _swaps(self) -> int:
        """Pages of preempted requests; returns the copy that attention has to wait for."""
        calls, last, out = self._calls, -1, -1
        if self._shape.blocks_out:
            for _ in range(SWAP_COPIES):
                out = calls.copy("kv_swap_out", self._copy("swap_out"), out=True)
        if self._shape.blocks_in:
            for part in range(SWAP_COPIES):
                last = calls.copy("kv_swap_in", self._copy("swap_in"), wait=-1 if part else out)
        return last if last >= 0 else out

    def _draft(self, ready: int) -> int:
        """Guesses one after the other; the last kernel of each gives the next its token."""
        assert self._config.speculation is not None
        draft = self._config.speculation.draft
        names = ("embedding", *(_LAYER * draft.layers), *ROWS[9:])
        for _ in range(self._shape.drafted):
            for name in names:
                last = self._calls.kernel(f"draft.{name}", self._draft_row + ROW[name], matrix=name not in ON_VECTOR,
                                          wait=ready)
                ready = -1
            ready = last
        return -1

    def _forward(self, micro: int, ready: int, swapped: int) -> int:
        """One micro-batch through the layers of this stage; returns the call that ends it."""
        calls, config = self._calls, self._config
        t = config.tensor_parallel
        if self._stage:
            ready = calls.collective("recv", self._message("stage", micro), self._pair(self._rank - t))
        else:
            self._kernel("embedding", micro, ready)
            ready = -1
        for _ in range(config.layers_of(self._stage)):
            ready = self._layer(micro, ready, swapped)
            swapped = -1
        if not self._last:
            # the kernels' queue is in order: what it waits for is the last call given to it, or the collective after it
            end = ready if ready >= 0 else len(calls) - 1
            return calls.collective("send", self._message("stage", micro), self._pair(self._rank), wait=end)
        self._kernel("final_norm", micro, ready)
        end = self._kernel("lm_head", micro, -1)
        if t > 1:
            end = calls.collective("all_gather", self._message("all_gather", micro), self._stage, wait=end)
        return self._kernel("sampling", micro, end if t > 1 else -1)

    def _layer(self, micro: int, ready: int, swapped: int) -> int:
        """One layer; returns the collective the next kernel waits for, or −1."""
        calls, split = self._calls, self._config.tensor_parallel > 1
        pages = calls.copy("kv_swap_in", self._copy("stream_in")) if self._shape.streamed and not micro else swapped
        for name in _LAYER:
            wait = pages if name == "attention" and ready < 0 else ready
            done = self._kernel(name, micro, wait)
            ready = -1
            if name == "attention" and self._shape.written and not micro:
                calls.copy("kv_swap_out", self._copy("stream_out"), out=True, wait=done)
            if split and name in ("out_proj", "mlp_down"):
                ready = calls.collective("all_reduce", self._message("all_reduce", micro), self._stage, wait=done)
        return ready

    def _kernel(self, name: str, micro: int, wait: int) -> int:
        if self._config.model.experts:
            shown = {"mlp_up": "moe_up", "activation": "moe_activation", "mlp_down": "moe_down"}.get(name, name)
        else:
            shown = name
        return self._calls.kernel(shown, micro * len(ROWS) + ROW[name], matrix=name not in ON_VECTOR, wait=wait)

    def _pair(self, rank: int) -> int:
        """Group of ``rank`` and the same rank of the next stage."""
        t, stages = self._config.tensor_parallel, self._config.pipeline_stages
        return (stages if t > 1 else 0) + rank
