"""How an LLM is served: model, demand, batching and the ranks of a replica; what their memory holds, and who meets
whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fleetscope.errors import UsageError
from simulator.machine import Machine
from simulator.work.arrivals import ArrivalConfig, Lengths
from simulator.work.batcher import BatchConfig
from simulator.work.models import CHAT_8B, Transformer
from simulator.work.operators import KV_BLOCK_TOKENS
from simulator.work.transformer import rank_kv_bytes, rank_weight_bytes

MEMORY_SHARE: Final = 0.92
"""Share of device memory for weights and pages; the rest is for activations and the runtime."""


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
