"""The calls of one rank in a step of serving.

A stage's kernels run in order on one queue. Copies of pages run beside them: attention waits for the pages it reads.
Two all-reduces a layer keep tensor-parallel ranks together (Shoeybi et al., 2019), sends and receives the stages; the
last stage tells all ranks the tokens. With speculation a draft model, repeated on every rank, guesses tokens one by one
and the model verifies all of them in one step (Leviathan et al., 2023).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from simulator.work.layout import Layout, LayoutBuilder
from simulator.work.plan import Seat
from simulator.work.serving_config import ServingConfig
from simulator.work.transformer import ON_VECTOR, ROW, ROWS

SWAP_COPIES: Final = 8
"""Copies that pages of a preempted request are gathered into, each direction."""
_LAYER: Final = ROWS[1:9]


@dataclass(frozen=True, slots=True)
class Shape:
    """What decides the calls of a step."""

    micro_batches: int
    drafted: int
    blocks_in: bool
    blocks_out: bool
    streamed: bool
    written: bool


# Rows of the step's table: per micro-batch the rows of the model; then of the draft; then copies; then collectives.
COPIES: Final = ("inputs", "outputs", "swap_in", "swap_out", "stream_in", "stream_out")
MESSAGES: Final = ("all_reduce", "all_gather", "stage")


class StageCalls:
    """The calls of one rank in a step of a shape."""

    def __init__(self, config: ServingConfig, shape: Shape, seat: Seat, rank: int, groups: tuple[tuple[int, ...], ...],
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
        self._message_row = self._copy_row + len(COPIES)

    def layout(self) -> Layout:
        """Schedule, pages and inputs, then each micro-batch, then the tokens."""
        calls, shape = self._calls, self._shape
        calls.work("schedule", self._scheduler_ns, "host_launch")
        swapped = self._swaps()
        ready = calls.copy("inputs_h2d", self._copy("inputs")) if not self._stage else -1
        if shape.drafted:
            ready = self._draft(ready)
        for micro in range(shape.micro_batches):
            ready = self._forward(micro, -1 if micro else ready, swapped)
            swapped = -1
        if self._config.pipeline_stages > 1:
            ready = calls.collective("broadcast", self._message_row + 3 * shape.micro_batches, len(self._groups) - 1,
                                     wait=ready)
        if self._last:
            calls.copy("tokens_d2h", self._copy("outputs"), out=True, wait=ready)
        calls.sync()
        return calls.build()

    def _copy(self, name: str) -> int:
        return self._copy_row + COPIES.index(name)

    def _message(self, name: str, micro: int) -> int:
        return self._message_row + 3 * micro + MESSAGES.index(name)

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
