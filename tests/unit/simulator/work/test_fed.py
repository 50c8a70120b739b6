"""Models fed in batches: vision, recommendation, and the queue before them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from fleetscope.errors import UsageError
from simulator.causes import CODE
from simulator.engine.program import BLOCKING, COPY_IN, PAGEABLE, WORK
from simulator.work.arrivals import NEVER, ArrivalConfig
from simulator.work.models import RECOMMEND_26, Recommendation
from simulator.work.queue import GatherConfig, RequestQueue
from simulator.work.recommendation import RecommendationConfig, RecommendationPlanner
from simulator.work.vision import VisionConfig, VisionPlanner
from tests.unit.simulator.work.seats import CARD, QUIET, Seat, where, words

CARDS = [Seat(CARD, QUIET)]


def queue(gather: GatherConfig, demand: ArrivalConfig | None) -> RequestQueue:
    return RequestQueue(gather, demand, np.random.default_rng(1), 0)


def test_a_batch_waits_for_more_no_longer_than_allowed() -> None:
    """Arrivals at 1, 2, 3 … s."""
    line = queue(GatherConfig(8, 2_500_000_000), ArrivalConfig("fixed", per_s=1))
    assert line.take(0) == (3, 3_500_000_000, 1_000_000_000)
    assert line.take(3_600_000_000) == (3, 6_500_000_000, 4_000_000_000)


def test_a_full_batch_goes_at_once_and_the_rest_does_not_wait_again() -> None:
    line = queue(GatherConfig(2, 10_000_000_000), ArrivalConfig("fixed", per_s=1))
    assert line.take(0) == (2, 2_000_000_000, 1_000_000_000)
    assert line.take(5_000_000_000) == (2, 5_000_000_000, 5_000_000_000)
    assert line.waiting == 1
    assert line.take(5_500_000_000)[:2] == (1, 5_500_000_000)


def test_a_queue_without_arrivals_rests_and_one_without_end_is_full() -> None:
    assert queue(GatherConfig(4), ArrivalConfig(per_s=0)).take(5) == (0, NEVER, NEVER)
    assert queue(GatherConfig(4), None).take(5) == (4, 5, 5)


def test_users_of_a_closed_loop_never_have_more_requests_than_they_are() -> None:
    line = queue(GatherConfig(8, 0), ArrivalConfig("closed", users=3, think_s=0.01))
    now_ns, total = 0, 0
    for _ in range(200):
        count, at_ns, _ = line.take(now_ns)
        assert 1 <= count + line.waiting <= 3
        now_ns, total = at_ns + 1_000_000, total + count
    assert total > 200


@pytest.mark.parametrize("prefetch", [True, False])
def test_images_are_prepared_by_the_host_and_copied_from_pageable_memory(prefetch: bool) -> None:
    config = VisionConfig(prefetch=prefetch, batch=GatherConfig(16))
    program = VisionPlanner(config, (1,), CARDS).plan(0).programs[0]
    prepare = np.flatnonzero(program.kind == WORK)
    assert program.call_ns[prepare].tolist() == [16 * 1_200_000 // 8, 16 * 400_000 // 8]
    assert set(program.cause[prepare].tolist()) == {CODE["host_input"]}
    [copy] = where(program, "memcpy_h2d")
    assert (prepare[0] > copy) == prefetch
    assert program.flags[copy] == BLOCKING | PAGEABLE
    assert program.cause[copy] == CODE["host_pageable"]
    assert program.link_bytes[copy] == 16 * 224 * 224 * 3 * 4
    assert program.call_ns[copy] == 5_000 + int(16 * 224 * 224 * 3 * 4 / 6e9 * 1e9)
    assert program.wait[where(program, "normalize")] == copy
    assert len(where(program, "conv2d")) == 53


def test_a_recommendation_makes_a_small_copy_and_a_gather_for_each_table() -> None:
    config = RecommendationConfig(batch=GatherConfig(32), arrivals=None)
    program = RecommendationPlanner(config, (1,), CARDS).plan(0).programs[0]
    copies, bags = where(program, "features_h2d"), where(program, "embedding_bag")
    assert (len(copies), len(bags)) == (27, 26)
    assert (program.queue[copies] == COPY_IN).all()
    assert (program.wait[bags] == copies[1:]).all()
    samples = 32 * 16
    assert (program.link_bytes[copies[1:]] == samples * 20 * 8).all()
    useful = samples * 20 * 128 / (CARD.hbm_bytes_per_s * CARD.hbm_achievable) * 1e9
    assert (program.hbm_ns[bags] > 1.2 * useful).all()  # short random reads open a row each
    assert (program.conflict[bags] > 2).all()


def test_sparse_demand_makes_batches_as_large_as_what_came() -> None:
    config = RecommendationConfig(arrivals=ArrivalConfig("fixed", per_s=100), batch=GatherConfig(64, 25_000_000))
    planner = RecommendationPlanner(config, (1,), CARDS, start_ns=0)
    plan = planner.plan(0)
    assert plan.gauges.batch_size == 3
    assert (plan.demand_ns, plan.at_ns) == (10_000_000, 10_000_000)
    [program] = plan.programs
    assert words(program.api[:2]) == ["gather_batch", "build_features"]
    assert program.call_ns[0] == 25_000_000


def test_the_same_seed_makes_the_same_batches() -> None:
    def sizes(seed: int) -> list[tuple[int, int]]:
        planner = RecommendationPlanner(RecommendationConfig(), (seed,), CARDS)
        now_ns, found = 0, []
        for _ in range(50):
            plan = planner.plan(now_ns)
            found.append((plan.at_ns, plan.gauges.batch_size))
            now_ns = plan.at_ns + 2_000_000
        return found

    assert sizes(1) == sizes(1) != sizes(2)


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="tables"):
        RecommendationPlanner(RecommendationConfig(model=replace(RECOMMEND_26, rows=40_000_000)), (1,), CARDS)
    with pytest.raises(UsageError, match="workers"):
        VisionConfig(workers=0)
    with pytest.raises(UsageError, match="one seat"):
        VisionPlanner(VisionConfig(), (1,), CARDS * 2)
    with pytest.raises(UsageError, match="max_batch"):
        GatherConfig(0)
    assert isinstance(RECOMMEND_26, Recommendation)
