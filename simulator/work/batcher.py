"""Continuous batching: which requests run, what each step computes, and where their key-value pages live."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np

from fleetscope.errors import UsageError
from simulator.work.arrivals import Arrivals, Lengths
from simulator.work.operators import KV_BLOCK_TOKENS, causal_pairs

_HOST_BLOCKS: Final = 16_384
"""Pages the host keeps of one request: 262,144 tokens."""


@dataclass(frozen=True, slots=True)
class BatchConfig:
    """How the server batches. ``kv`` says what happens when the cache does not fit into device memory.

    ``swap``: the latest request is preempted, its pages go to the host and come back when there is room.
    ``stream``: pages beyond the budget live on the host, and every step brings them in layer by layer.
    """

    max_batch: int = 16
    prefill: Literal["separate", "chunked"] = "separate"
    """``separate``: a step is the prefill of one request or a decode of all; ``chunked``: decodes and part of
    prefills."""
    token_budget: int = 2_048
    """New tokens of a chunked step."""
    kv: Literal["swap", "stream"] = "swap"
    running_at_start: int = 0

    def __post_init__(self) -> None:
        for key, least in (("max_batch", 1), ("token_budget", 1), ("running_at_start", 0)):
            if getattr(self, key) < least:
                raise UsageError(f"batch: {key}: is at least {least}")
        if self.prefill not in ("separate", "chunked"):
            raise UsageError(f"batch: prefill: {self.prefill!r} is neither separate nor chunked")
        if self.kv not in ("swap", "stream"):
            raise UsageError(f"batch: kv: {self.kv!r} is neither swap nor stream")


@dataclass(slots=True)
class Request:
    """One request: tokens of prompt and output it has, and how far it is."""

    number: int
    prompt: int
    output: int
    cached: int = 0
    """Tokens in the key-value cache."""
    made: int = 0
    """Output tokens made."""

    @property
    def blocks(self) -> int:
        """Pages it holds."""
        return -(-self.cached // KV_BLOCK_TOKENS)


@dataclass(slots=True)
class Group:
    """Sums over the sequences that one pipeline stage computes together."""

    tokens: int = 0
    """New tokens."""
    sampled: int = 0
    """Rows of the output head: tokens drawn, and guesses verified."""
    pairs: int = 0
    """(query, key) pairs of attention."""
    keys: int = 0
    """Tokens of context read."""
    sequences: int = 0

    def add(self, queries: int, context: int, sampled: int) -> None:
        """A sequence of ``queries`` new tokens with ``context`` tokens, the new ones included."""
        self.tokens += queries
        self.sampled += sampled
        self.pairs += causal_pairs(queries, context)
        self.keys += context
        self.sequences += 1


@dataclass(slots=True)
class Batch:
    """One step: work by micro-batch, pages to move first, and the request if it is one alone."""

    groups: list[Group]
    request: int = -1
    """Number of the request prefilled; −1: several."""
    size: int = 0
    running: int = 0
    waiting: int = 0
    used_blocks: int = 0
    blocks_in: int = 0
    blocks_out: int = 0
    streamed_tokens: int = 0
    """Tokens of context whose pages come from the host in this step (``stream``)."""
    written_tokens: int = 0
    """New tokens whose pages go to the host in this step (``stream``)."""
    finished: list[int] = field(default_factory=list)
    drafted: int = 0
    """Tokens each decoding sequence guesses before verification."""


class Batcher:
    """Holds the requests of one replica; `step` gives the next batch, or none while nothing is to do."""

    def __init__(self, config: BatchConfig, arrivals: Arrivals, lengths: tuple[Lengths, Lengths],
                 rng: np.random.Generator, budget_blocks: int, *, drafted: int = 0, acceptance: float = 0.0) -> None:
        if budget_blocks < 16:
            raise UsageError(f"batch: {max(budget_blocks, 0)} pages of {KV_BLOCK_TOKENS} tokens are left of device "
                             "memory for the key-value cache: use fewer bytes a weight, more ranks or a larger device")
        self._config = config
        self._arrivals = arrivals
        self._lengths = lengths
        self._rng = rng
        self._drafted, self._acceptance = drafted, acceptance
        self.budget_blocks = budget_blocks
        self._numbers = 0
        self.waiting: deque[Request] = deque()
        self.running: list[Request] = []
        self.swapped: deque[Request] = deque()
        for _ in range(min(config.running_at_start, config.max_batch)):
            self._start_running()

    @property
    def held_blocks(self) -> int:
        """Pages of running requests: in device memory, and with ``stream`` those beyond its budget on the host."""
        return sum(request.blocks for request in self.running)

    @property
    def next_arrival_ns(self) -> int:
        """Time of the next request, NEVER if there is none."""
        return self._arrivals.next_ns

    @property
    def pending(self) -> bool:
        """Whether any request is unanswered."""
        return bool(self.running or self.waiting or self.swapped)

    def admit(self, now_ns: int) -> None:
        """Take all arrivals until ``now_ns``."""
        while self._arrivals.next_ns <= now_ns:
            self._arrivals.take()
            self.waiting.append(self._request())

    def completed(self, now_ns: int, count: int) -> None:
        """``count`` requests were answered by ``now_ns``."""
        for _ in range(count):
            self._arrivals.completed(now_ns)

    def step(self, micro_batches: int) -> Batch:
        """The next step of pending requests, split in at most ``micro_batches`` groups."""
        batch = Batch([])
        if self._config.kv == "swap":
            self._swap_in(batch)
        if self._config.prefill == "chunked":
            self._chunked(batch, micro_batches)
        elif not self._prefill(batch):
            self._decode(batch, micro_batches, self._make_room(batch))
        batch.running, batch.waiting = len(self.running), len(self.waiting) + len(self.swapped)
        batch.used_blocks = min(self.budget_blocks, self.held_blocks)
        if self._config.kv == "stream":
            self._streams(batch)
        batch.finished = [request.number for request in self.running if request.made >= request.output]
        self.running = [request for request in self.running if request.made < request.output]
        return batch

    # Requests

    def _request(self) -> Request:
        self._numbers += 1
        pages = self.budget_blocks if self._config.kv == "swap" else _HOST_BLOCKS
        most = pages * KV_BLOCK_TOKENS - self._drafted - 1  # what the server can hold of one request
        prompt = min(self._lengths[0].draw(self._rng), max(1, most // 2))
        return Request(self._numbers, prompt, min(self._lengths[1].draw(self._rng), most - prompt))

    def _start_running(self) -> None:
        request = self._request()
        request.output = max(2, request.output)
        request.made = int(self._rng.integers(1, request.output))
        request.cached = request.prompt + request.made - 1
        if self._fits(request.blocks + 1):
            self.running.append(request)
        else:
            self._numbers -= 1

    def _fits(self, blocks: int) -> bool:
        return self._config.kv == "stream" or self.held_blocks + blocks <= self.budget_blocks

    # Parts of a step

    def _swap_in(self, batch: Batch) -> None:
        while self.swapped and len(self.running) < self._config.max_batch:
            request = self.swapped[0]
            # a page more for each that runs, else what comes in is the next to go out
            if self.running and not self._fits(request.blocks + 1 + len(self.running)):
                return
            self.running.append(self.swapped.popleft())
            batch.blocks_in += request.blocks

    def _prefill(self, batch: Batch) -> bool:
        """The prefill of the first waiting request, if there is room for it."""
        if not self.waiting or self.swapped or len(self.running) >= self._config.max_batch:
            return False
        request = self.waiting[0]
        if self.running and not self._fits(-(-(request.prompt + 1) // KV_BLOCK_TOKENS)):
            return False
        self.running.append(self.waiting.popleft())
        group = Group()
        group.add(request.prompt, request.prompt, 1)
        request.cached, request.made = request.prompt, 1
        batch.groups, batch.request, batch.size = [group], request.number, 1
        return True

    def _chunked(self, batch: Batch, micro_batches: int) -> None:
        """Decodes first; the rest of the token budget goes to prompts in order of arrival."""
        self._decode(batch, micro_batches, self._make_room(batch))
        left = self._config.token_budget - sum(group.tokens for group in batch.groups)
        prompts = [request for request in self.running if request.cached < request.prompt]
        while left > 0 and (request := self._next_prompt(prompts)) is not None:
            tokens = self._chunk(batch, request, left)
            if not tokens:
                break
            left -= tokens
        if not batch.groups:  # prompts hold all pages, and none can grow
            self._preempt(batch)
            self._chunked(batch, micro_batches)

    def _next_prompt(self, prompts: list[Request]) -> Request | None:
        """The next request with a prompt to compute; one that waits starts to run."""
        if prompts:
            return prompts.pop(0)
        if not self.waiting or self.swapped or len(self.running) >= self._config.max_batch:
            return None
        self.running.append(self.waiting.popleft())
        return self.running[-1]

    def _chunk(self, batch: Batch, request: Request, left: int) -> int:
        """Up to ``left`` tokens of a prompt, as many as pages are free; returns their number."""
        room = left
        if self._config.kv == "swap":
            free = self.budget_blocks - self.held_blocks + request.blocks
            room = min(left, free * KV_BLOCK_TOKENS - request.cached - 1)
        tokens = min(room, request.prompt - request.cached)
        if tokens <= 0:
            return 0
        request.cached += tokens
        last = request.cached == request.prompt
        request.made += last
        if not batch.groups:
            batch.groups.append(Group())
        min(batch.groups, key=lambda group: group.tokens).add(tokens, request.cached, int(last))
        batch.size += 1
        return tokens

    def _make_room(self, batch: Batch) -> list[Request]:
        """Requests that decode now, after the latest ones have given up their pages if need be."""
        grow = 1 + self._drafted
        while self._config.kv == "swap":
            need = sum(-(-(r.cached + (grow if r.cached >= r.prompt else 0)) // KV_BLOCK_TOKENS) for r in self.running)
            if need <= self.budget_blocks or len(self.running) == 1:
                break
            self._preempt(batch)
        return [request for request in self.running if request.cached >= request.prompt]

    def _preempt(self, batch: Batch) -> None:
        """The latest request gives its pages to the host; it is the first to come back."""
        victim = self.running.pop()
        self.swapped.appendleft(victim)
        batch.blocks_out += victim.blocks

    def _decode(self, batch: Batch, micro_batches: int, decoding: Sequence[Request]) -> None:
        queries = 1 + self._drafted
        batch.drafted = self._drafted
        batch.size += len(decoding)
        parts = max(1, min(micro_batches, len(decoding)))
        groups = [Group() for _ in range(parts)] if decoding else []
        for index, request in enumerate(decoding):
            groups[index % parts].add(queries, request.cached + queries, queries)
            made = min(1 + self._accepted(), request.output - request.made)
            request.cached += made
            request.made += made
        batch.groups = groups

    def _accepted(self) -> int:
        """Guesses accepted: the first rejected one ends them."""
        count = 0
        while count < self._drafted and self._rng.random() < self._acceptance:
            count += 1
        return count

    def _streams(self, batch: Batch) -> None:
        total = self.held_blocks
        excess = max(0, total - self.budget_blocks)
        if excess:
            batch.streamed_tokens = excess * KV_BLOCK_TOKENS
            # new pages of what lives on the host go there: the same share of the new tokens
            batch.written_tokens = -(-sum(group.tokens for group in batch.groups) * excess // total)

