"""LLM serving with continuous batching over tensor-parallel ranks and pipeline stages, with a key-value budget and
speculative decoding. One step is planned at a time, for all ranks of a replica; see `serving_calls` for what it runs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from fleetscope.errors import UsageError
from simulator.engine.program import Program
from simulator.work.arrivals import arrivals
from simulator.work.batcher import Batch, Batcher, Group
from simulator.work.crew import Crew
from simulator.work.layout import Layout
from simulator.work.operators import KV_BLOCK_TOKENS, Cost, all_gather_bytes, all_reduce_bytes
from simulator.work.plan import WARM_UP_NS, Conditions, Gauges, Plan, Seat
from simulator.work.serving_calls import SWAP_COPIES, Shape, StageCalls
from simulator.work.serving_config import ServingConfig, Speculation, budget_blocks, communicators
from simulator.work.table import Lowerer, Message, Table, ring_rounds
from simulator.work.transformer import attention_cost, costs, rank_kv_bytes

INPUT_BYTES_PER_TOKEN: Final = 4_096
"""Token ids, positions, page tables and masks."""
OUTPUT_BYTES_PER_SEQUENCE: Final = 1_024
_AFTER_STEP_NS: Final = 5_000
_AHEAD: Final = 12
"""Decode steps lowered at once: about as many as pass until a request comes or goes."""
_ARRIVALS, _LENGTHS = 1, 2
"""Purposes of random streams."""

__all__ = ["ServingConfig", "ServingPlanner", "Speculation"]


class ServingPlanner:
    """Plans one replica. ``key`` seeds it; see `Planner`. The code of a request is its number in the replica."""

    def __init__(self, config: ServingConfig, key: tuple[int, ...], seats: Sequence[Seat], *,
                 first_group: int = 0, start_ns: int = WARM_UP_NS) -> None:
        if len(seats) != config.ranks:
            raise UsageError(f"serving: {config.tensor_parallel} · {config.pipeline_stages} ranks need as many seats, "
                             f"not {len(seats)}")
        self.config = config
        self.ranks = config.ranks
        self.groups = communicators(config)
        self._crew = Crew(key, seats, self.groups)
        self._first_group = first_group
        guess = config.speculation
        self.batcher = Batcher(
            config.batch, arrivals(config.arrivals, np.random.default_rng([*key, _ARRIVALS]), start_ns),
            (config.prompt, config.output), np.random.default_rng([*key, _LENGTHS]),
            budget_blocks(config, [seat.machine for seat in seats]), drafted=guess.tokens if guess else 0,
            acceptance=guess.acceptance if guess else 0.0)
        self._machines = list(dict.fromkeys(seat.machine for seat in seats))
        self._lowerers = [Lowerer(machine) for machine in self._machines]
        self._start_ns = start_ns
        self._layouts: dict[Shape, list[Layout]] = {}
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
        shape = Shape(len(batch.groups), batch.drafted, batch.blocks_in > 0, batch.blocks_out > 0,
                       batch.streamed_tokens > 0, batch.written_tokens > 0)
        if shape not in self._layouts:
            self._layouts[shape] = [self._layout(shape, rank) for rank in range(self.ranks)]
        tables: dict[tuple[int, int], Table] = {}
        found = []
        for rank, seat in enumerate(self._crew.seats):
            layers = self.config.layers_of(rank // self.config.tensor_parallel)
            kind = (self._machines.index(seat.machine), layers)
            if kind not in tables:
                tables[kind] = self._table(batch, self._lowerers[kind[0]], layers)
            found.append(tables[kind])
        return self._crew.programs(self._layouts[shape], found, conditions, batch.request)

    def _table(self, batch: Batch, lowerer: Lowerer, layers: int) -> Table:
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
        return lowerer.table(rows, copies, messages, lambda: self._next_attention(batch))

    def _next_attention(self, batch: Batch) -> list[Cost]:
        """Attention of the next decode steps while nobody comes or goes; the other kernels stay the same."""
        model, ranks = self.config.model, self.config.tensor_parallel
        return [attention_cost(model, replace(group, pairs=group.pairs + ahead * group.tokens,
                                              keys=group.keys + ahead * group.tokens), ranks)
                for group in batch.groups if group.tokens == group.sequences for ahead in range(1, _AHEAD)]

    def _layout(self, shape: Shape, rank: int) -> Layout:
        return StageCalls(self.config, shape, self._crew.seats[rank], rank, self.groups, self._first_group).layout()

    @property
    def budget_blocks(self) -> int:
        """Pages of device memory on every rank."""
        return self.batcher.budget_blocks


def _draft_group(group: Group, drafted: int) -> Group:
    """One step of the draft model: one token a sequence on about the same context."""
    count = group.sequences
    keys = group.keys - count * drafted // 2
    return Group(tokens=count, sampled=count, pairs=keys, keys=keys, sequences=count)
