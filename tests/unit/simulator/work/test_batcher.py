"""Continuous batching: budgets hold, and every request gets what it asked for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetscope.errors import UsageError
from simulator.work.arrivals import ArrivalConfig, Lengths, arrivals
from simulator.work.batcher import Batch, BatchConfig, Batcher, Request


@dataclass
class Seen:
    """What a run left behind."""

    batches: list[Batch]
    requests: dict[int, Request]
    held: list[int]
    in_batch: list[int]


def run(config: BatchConfig, steps: int, *, budget: int = 64, drafted: int = 0, acceptance: float = 0.6, seed: int = 1,
        prompt: Lengths = Lengths("gamma", 120), output: Lengths = Lengths("geometric", 40), micro_batches: int = 1,
        per_s: float = 40.0) -> Seen:
    """Steps of 10 ms."""
    batcher = Batcher(config, arrivals(ArrivalConfig(per_s=per_s), np.random.default_rng(seed)), (prompt, output),
                      np.random.default_rng(seed + 1), budget, drafted=drafted, acceptance=acceptance)
    seen = Seen([], {}, [], [])
    for step in range(steps):
        batcher.admit(step * 10_000_000)
        for request in [*batcher.running, *batcher.waiting, *batcher.swapped]:
            seen.requests[request.number] = request
        if not batcher.pending:
            continue
        before = batcher.running
        seen.batches.append(batcher.step(micro_batches))
        seen.held.append(sum(request.blocks for request in batcher.running))
        seen.in_batch.append(len({request.number for request in [*before, *batcher.running]}))
    return seen


configs = st.builds(BatchConfig, max_batch=st.integers(1, 12), prefill=st.sampled_from(["separate", "chunked"]),
                    token_budget=st.integers(16, 256), kv=st.sampled_from(["swap", "stream"]),
                    running_at_start=st.integers(0, 8))


@given(configs, st.integers(16, 80), st.integers(0, 3), st.integers(1, 3), st.integers(0, 1_000))
def test_pages_never_exceed_the_budget_and_requests_get_their_tokens(
        config: BatchConfig, budget: int, drafted: int, micro_batches: int, seed: int) -> None:
    seen = run(config, 150, budget=budget, drafted=drafted, micro_batches=micro_batches, seed=seed)
    finished = {number for batch in seen.batches for number in batch.finished}
    for number, request in seen.requests.items():
        if number in finished:
            assert request.made == request.output
            assert request.cached == request.prompt + request.output - 1  # the last token drawn is not read again
        else:
            assert request.made < request.output
    assert len(finished) == sum(len(batch.finished) for batch in seen.batches)
    for batch, held in zip(seen.batches, seen.held, strict=True):
        assert batch.groups, "a step without work"
        assert batch.used_blocks <= budget
        assert batch.size <= config.max_batch
        assert config.kv == "stream" or held <= budget
        assert all(group.tokens > 0 and group.keys >= group.tokens for group in batch.groups)


def test_requests_finish_under_pressure() -> None:
    """Pages for about four requests, and more than that run."""
    seen = run(BatchConfig(max_batch=12), 3_000, budget=40, per_s=2, output=Lengths("geometric", 100))
    finished = sum(len(batch.finished) for batch in seen.batches)
    assert finished > 0.8 * len(seen.requests)
    out, back = (sum(getattr(b, name) for b in seen.batches) for name in ("blocks_out", "blocks_in"))
    assert out > 0
    assert out >= back >= out - 40


def test_pages_beyond_the_budget_stream_in_every_step() -> None:
    seen = run(BatchConfig(max_batch=12, kv="stream"), 300, budget=40)
    for batch, held in zip(seen.batches, seen.held, strict=True):
        if not batch.finished:
            assert batch.streamed_tokens == max(0, held - 40) * 16
    assert max(batch.streamed_tokens for batch in seen.batches) > 0
    assert all(batch.blocks_out == 0 for batch in seen.batches)


def test_a_prefill_alone_computes_the_whole_prompt() -> None:
    batch = run(BatchConfig(max_batch=4), 200, per_s=5).batches[0]
    assert batch.request == 1
    [group] = batch.groups
    assert group.pairs == group.tokens * (group.tokens + 1) // 2
    assert (group.keys, group.sampled) == (group.tokens, 1)


def test_chunks_keep_to_the_budget_of_tokens() -> None:
    seen = run(BatchConfig(max_batch=8, prefill="chunked", token_budget=32), 500, per_s=10)
    assert max(sum(group.tokens for group in batch.groups) for batch in seen.batches) == 32
    assert any(batch.finished for batch in seen.batches)


def test_speculation_makes_the_expected_tokens_a_step() -> None:
    """(1 − a^(k+1))/(1 − a) tokens a step (Leviathan et al., 2023)."""
    seen = run(BatchConfig(max_batch=1), 4_000, drafted=4, acceptance=0.7, per_s=100, budget=4_000,
               prompt=Lengths("fixed", 16), output=Lengths("fixed", 20_000))
    decodes = sum(batch.request < 0 for batch in seen.batches)
    made = seen.requests[1].made - 1
    assert seen.requests[1].made < 20_000
    assert made / decodes == pytest.approx((1 - 0.7 ** 5) / 0.3, rel=0.03)


def test_micro_batches_share_the_sequences() -> None:
    seen = run(BatchConfig(max_batch=8), 200, micro_batches=3, budget=200)
    for batch in seen.batches:
        if batch.request < 0:
            assert len(batch.groups) == min(3, batch.size)
            sizes = [group.sequences for group in batch.groups]
            assert sum(sizes) == batch.size
            assert max(sizes) - min(sizes) <= 1


def test_no_room_for_pages_is_refused() -> None:
    with pytest.raises(UsageError, match="0 pages"):
        run(BatchConfig(), 1, budget=-3)
    with pytest.raises(UsageError, match="max_batch"):
        BatchConfig(max_batch=0)
    with pytest.raises(UsageError, match="prefill"):
        BatchConfig(prefill="none")  # type: ignore[arg-type]
