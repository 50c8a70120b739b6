"""Programs of serving steps: what waits for what, who meets whom, and what they add up to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetscope.errors import UsageError
from simulator.engine.program import COLLECTIVE, COMPUTE, COPY_IN, COPY_OUT, NONE, SYNC, Program
from simulator.physics.roofline import peak_flops_per_s
from simulator.work.arrivals import NEVER, ArrivalConfig, Lengths
from simulator.work.batcher import BatchConfig
from simulator.work.models import CHAT_1B, CHAT_8B, CHAT_70B, MIXTURE_8X7B, Transformer
from simulator.work.operators import causal_pairs
from simulator.work.plan import Conditions, Plan, Seat
from simulator.work.serving import ServingConfig, ServingPlanner, Speculation
from tests.unit.simulator.work.seats import CARD, LARGE, QUIET, equal, seats, where, words

SMALL = Transformer("small", 3, 256, 128, 512, 1_000, head_width=64)
BUSY = ServingConfig(model=SMALL, arrivals=ArrivalConfig(per_s=50), prompt=Lengths("gamma", 60),
                     output=Lengths("geometric", 20), batch=BatchConfig(8, running_at_start=4))


def plans(config: ServingConfig, count: int, seed: int = 1, places: list[Seat] | None = None) -> list[Plan]:
    """Steps of 5 ms; rests are skipped."""
    planner = ServingPlanner(config, (seed,), places or seats(config.ranks), first_group=7)
    found: list[Plan] = []
    now_ns = 0
    while len(found) < count:
        plan = planner.plan(now_ns)
        if plan.programs:
            found.append(plan)
        now_ns = max(plan.at_ns, now_ns) + (5_000_000 if plan.programs else 0)
    return found


def meetings(program: Program) -> dict[int, list[int]]:
    """Sequence numbers of each communicator, in order of the calls."""
    found: dict[int, list[int]] = {}
    for group, number in zip(program.communicator, program.sequence, strict=True):
        if group != NONE:
            found.setdefault(int(group), []).append(int(number))
    return found


@given(st.sampled_from([1, 2, 4]), st.integers(1, 3), st.sampled_from(["separate", "chunked"]), st.integers(0, 99))
@settings(max_examples=25)
def test_members_of_a_group_count_the_same_collectives(tensor: int, stages: int, prefill: str, seed: int) -> None:
    config = replace(BUSY, tensor_parallel=tensor, pipeline_stages=stages,
                     batch=replace(BUSY.batch, prefill=prefill))  # type: ignore[arg-type]
    planner = ServingPlanner(config, (1,), seats(config.ranks))
    found = plans(config, 12, seed)
    for group, members in enumerate(planner.groups):
        numbers = [[n for plan in found for n in meetings(plan.programs[rank]).get(group + 7, [])] for rank in members]
        assert numbers[0] == list(range(len(numbers[0])))
        assert numbers[0]
        assert all(other == numbers[0] for other in numbers)
    for plan in found:
        for rank, program in enumerate(plan.programs):
            assert all(rank in planner.groups[group - 7] for group in meetings(program))


@pytest.mark.parametrize("config", [
    BUSY, replace(BUSY, tensor_parallel=2, pipeline_stages=3), replace(BUSY, kv_budget_bytes=700_000),
    replace(BUSY, kv_budget_bytes=700_000, batch=BatchConfig(8, kv="stream", running_at_start=4)),
    replace(BUSY, speculation=Speculation(CHAT_1B, 2))], ids=["one", "tp-pp", "swap", "stream", "draft"])
def test_ops_wait_for_earlier_ops_of_other_queues_only(config: ServingConfig) -> None:
    for plan in plans(config, 40):
        for program in plan.programs:
            waiting = np.flatnonzero(program.wait != NONE)
            assert (program.wait[waiting] < waiting).all()
            assert (program.queue[program.wait[waiting]] != NONE).all()
            assert program.kind[-1] == SYNC


def test_the_same_seed_makes_the_same_programs() -> None:
    config = replace(BUSY, tensor_parallel=2)
    one, two, other = plans(config, 20), plans(config, 20), plans(config, 20, seed=2)
    for a, b in zip(one, two, strict=True):
        assert (a.at_ns, a.step, a.gauges) == (b.at_ns, b.step, b.gauges)
        assert all(equal(x, y) for x, y in zip(a.programs, b.programs, strict=True))
    assert not all(equal(a.programs[0], b.programs[0]) for a, b in zip(one, other, strict=True))


def test_ranks_of_a_group_share_the_work_but_not_the_noise() -> None:
    quiet = plans(replace(BUSY, tensor_parallel=2), 5, places=seats(2, host=QUIET))
    assert all(equal(*plan.programs) for plan in quiet)
    noisy = plans(replace(BUSY, tensor_parallel=2), 5)
    assert not any(equal(*plan.programs) for plan in noisy)


def test_a_decode_step_runs_the_operators_of_every_layer() -> None:
    config = replace(BUSY, arrivals=ArrivalConfig(per_s=0))
    [plan] = plans(config, 1)
    [program] = plan.programs
    layer = ["norm_attention", "qkv_proj", "attention", "out_proj", "norm_mlp", "mlp_up", "activation", "mlp_down"]
    assert words(program.name) == ["inputs_h2d", "embedding", *(layer * 3), "final_norm", "lm_head", "sampling",
                                   "tokens_d2h"]
    assert program.wait[where(program, "embedding")] == where(program, "inputs_h2d")
    assert program.wait[where(program, "tokens_d2h")] == where(program, "sampling")


def test_stated_flops_of_a_prefill_are_those_of_its_shapes() -> None:
    """2 a weight and token for matrices (the head for one token), 4·hidden a visible pair for attention."""
    config = replace(BUSY, prompt=Lengths("fixed", 100), batch=BatchConfig(8))
    program = plans(config, 1, places=seats(1, host=QUIET))[0].programs[0]
    m = config.model
    matrix = 2 * 100 * m.layers * m.layer_weights + 2 * m.vocab * m.hidden
    attention = 4 * m.layers * causal_pairs(100, 100) * m.hidden
    names = ("qkv_proj", "out_proj", "mlp_up", "mlp_down", "lm_head")
    assert sum(int(program.flops[where(program, name)].sum()) for name in names) == matrix
    softmax = 5 * m.layers * causal_pairs(100, 100) * m.hidden // m.head_width
    assert int(program.flops[where(program, "attention")].sum()) == attention + softmax


def test_two_all_reduces_a_layer_hold_tensor_parallel_ranks_together() -> None:
    program = plans(replace(BUSY, tensor_parallel=2), 1)[0].programs[0]
    reduces = where(program, "all_reduce")
    assert len(reduces) == 2 * 3
    assert words(program.name[program.wait[reduces]]) == ["out_proj", "mlp_down"] * 3
    waiters = [int(np.flatnonzero(program.wait == index)[0]) for index in reduces]
    assert words(program.name[waiters]) == ["norm_mlp", "norm_attention"] * 2 + ["norm_mlp", "final_norm"]
    assert len(where(program, "all_gather")) == 1


def test_stages_send_what_the_next_receives() -> None:
    config = replace(BUSY, pipeline_stages=3, arrivals=ArrivalConfig(per_s=0))
    [plan] = plans(config, 1)
    first, middle, last = plan.programs
    micro = len(where(first, "send"))
    assert micro == min(3, plan.gauges.batch_size)
    assert (len(where(middle, "recv")), len(where(middle, "send")), len(where(last, "recv"))) == (micro,) * 3
    assert (first.link_bytes[where(first, "send")] == middle.link_bytes[where(middle, "recv")]).all()
    assert sum(len(where(program, "attention")) for program in plan.programs) == 3 * micro
    assert len(where(last, "sampling")) == micro
    assert len(where(first, "lm_head")) == 0
    assert all(len(where(program, "broadcast")) == 1 for program in plan.programs)


def test_attention_waits_for_the_pages_of_its_layer() -> None:
    config = replace(BUSY, kv_budget_bytes=700_000, prompt=Lengths("fixed", 200),
                     batch=BatchConfig(8, kv="stream", running_at_start=8), arrivals=ArrivalConfig(per_s=0))
    plan = plans(config, 1)[0]
    [program] = plan.programs
    pages = where(program, "kv_swap_in")
    assert len(pages) == SMALL.layers
    assert (program.wait[where(program, "attention")] == pages).all()
    assert (program.queue[pages] == COPY_IN).all()
    held = 8 * -(-201 // 16)
    assert plan.gauges.kv_used_share == 1.0
    # what is beyond the budget, a layer at a time
    budget = 700_000 // (16 * SMALL.kv_bytes_per_token)
    assert program.link_bytes[pages].sum() >= (held - budget) * 16 * SMALL.kv_bytes_per_token
    assert (program.queue[where(program, "kv_swap_out")] == COPY_OUT).all()


def test_preempted_pages_cross_the_link_both_ways() -> None:
    config = replace(BUSY, kv_budget_bytes=700_000, arrivals=ArrivalConfig(per_s=100))
    found = plans(config, 400)
    page = 16 * SMALL.kv_bytes_per_token
    out = sum(int(p.programs[0].link_bytes[where(p.programs[0], "kv_swap_out")].sum()) for p in found)
    back = sum(int(p.programs[0].link_bytes[where(p.programs[0], "kv_swap_in")].sum()) for p in found)
    assert out > 0
    assert 0 < back <= out + 8 * page
    assert max(plan.gauges.kv_used_share for plan in found) <= 1.0


def test_drafts_are_made_one_after_the_other_before_they_are_verified() -> None:
    config = replace(BUSY, speculation=Speculation(replace(SMALL, name="tiny", layers=1), 3),
                     arrivals=ArrivalConfig(per_s=0))
    program = plans(config, 1)[0].programs[0]
    assert len(where(program, "draft.attention")) == 3
    assert where(program, "draft.sampling").max() < where(program, "embedding").min()
    verified = program.flops[where(program, "lm_head")] / (2 * SMALL.vocab * SMALL.hidden)
    assert verified == 4 * 4  # four sequences, three guesses and one more token each


def test_without_requests_the_next_step_begins_with_the_next_one() -> None:
    config = replace(BUSY, arrivals=ArrivalConfig("fixed", per_s=1), batch=BatchConfig(8), output=Lengths("fixed", 1))
    planner = ServingPlanner(config, (1,), seats(1))
    rest = planner.plan(0)
    assert (rest.programs, rest.at_ns) == ((), 1_050_000_000)
    step = planner.plan(rest.at_ns)
    assert len(step.programs) == 1
    assert step.demand_ns == rest.at_ns
    assert step.gauges.requests_running == 1
    assert planner.plan(rest.at_ns + 5_000_000).programs == ()


def test_no_demand_at_all_is_never() -> None:
    planner = ServingPlanner(replace(BUSY, arrivals=ArrivalConfig(per_s=0), batch=BatchConfig(8)), (1,), seats(1))
    assert planner.plan(0).at_ns == NEVER


def test_a_request_alone_marks_its_calls() -> None:
    config = replace(BUSY, batch=BatchConfig(8))
    planner = ServingPlanner(config, (1,), seats(1))
    plan = planner.plan(planner.plan(0).at_ns)
    assert set(plan.programs[0].request.tolist()) == {1}


def test_conditions_hold_for_their_rank_alone() -> None:
    config = replace(BUSY, tensor_parallel=2)
    planner = ServingPlanner(config, (1,), seats(2, host=QUIET))
    slow, usual = planner.plan(0, (Conditions(device_factor=1.5), Conditions())).programs
    assert np.allclose(slow.hbm_ns, 1.5 * usual.hbm_ns)
    slow, usual = planner.plan(0, (Conditions(contention=2.0), Conditions())).programs
    assert len(slow) >= len(usual)


def test_experts_are_named_and_read_as_far_as_used() -> None:
    config = ServingConfig(model=MIXTURE_8X7B, tensor_parallel=2, arrivals=ArrivalConfig(per_s=0),
                           batch=BatchConfig(2, running_at_start=1))
    program = plans(config, 1)[0].programs[0]
    one = 3 * 4_096 * 14_336 * 2 // 2
    moved = program.bytes[where(program, "moe_up")[0]] + program.bytes[where(program, "moe_down")[0]]
    assert moved == pytest.approx(2 * one, rel=0.01)  # two of eight


def test_a_large_prefill_is_bound_by_the_matrix_engine() -> None:
    config = ServingConfig(model=CHAT_8B, prompt=Lengths("fixed", 4_096), batch=BatchConfig(8))
    program = plans(config, 1)[0].programs[0]
    kernels = where(program, "mlp_up")
    assert (program.matrix_ns[kernels] > program.hbm_ns[kernels]).all()
    peak = peak_flops_per_s(LARGE, "matrix")
    assert program.flops[kernels].sum() / program.matrix_ns[kernels].sum() * 1e9 == pytest.approx(peak, rel=0.02)
    assert (program.queue[kernels] == COMPUTE).all()
    assert not (program.queue == COLLECTIVE).any()


def test_what_cannot_run_is_refused() -> None:
    with pytest.raises(UsageError, match="pages"):
        ServingPlanner(ServingConfig(model=CHAT_70B), (1,), [Seat(CARD)])
    with pytest.raises(UsageError, match="tensor_parallel"):
        ServingConfig(tensor_parallel=3)
    with pytest.raises(UsageError, match="pipeline_stages"):
        ServingConfig(pipeline_stages=40)
    with pytest.raises(UsageError, match="speculation"):
        ServingConfig(pipeline_stages=2, speculation=Speculation(CHAT_1B))
    with pytest.raises(UsageError, match="seats"):
        ServingPlanner(ServingConfig(tensor_parallel=2), (1,), seats(1))
    with pytest.raises(UsageError, match="acceptance"):
        Speculation(CHAT_1B, acceptance=1.5)
