from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.model import kernel_names, kernel_work, link_bytes_per_s, transfer_ns
from simulator.scenario import Link, Model
from simulator.workload import serve

TINY = Model(layers=2, hidden=64, kv_width=16, ffn=96, vocab=100, weight_bytes=1, activation_bytes=2)


def by_name(queries: list[int], contexts: list[int]) -> dict[str, tuple[int, int]]:
    work = kernel_work(TINY, queries, contexts)
    return dict(zip(kernel_names(TINY), zip(work.flops.tolist(), work.bytes.tolist(), strict=True), strict=True))


def test_a_decode_of_two_sequences_costs_what_a_hand_calculation_says() -> None:
    work = by_name([1, 1], [10, 30])
    assert work["qkv"] == (2 * 2 * 64 * 96, 64 * 96 * 1 + 2 * (64 + 96) * 2)
    assert work["out_proj"] == (2 * 2 * 64 * 64, 64 * 64 + 2 * 128 * 2)
    assert work["mlp_up"] == (2 * 2 * 64 * 192, 64 * 192 + 2 * (64 + 192) * 2)
    assert work["mlp_down"] == (2 * 2 * 96 * 64, 96 * 64 + 2 * (96 + 64) * 2)
    assert work["attention"] == (4 * 64 * 40, (2 * 40 * 16 + 2 * 2 * 64) * 2)
    assert work["lm_head"] == (2 * 2 * 64 * 100, 64 * 100 + 2 * 164 * 2)
    assert work["activation"] == (5 * 2 * 96, 3 * 2 * 96 * 2)


def test_a_prefill_attends_to_each_earlier_token_once() -> None:
    tokens = 7
    pairs = sum(1 for query in range(tokens) for key in range(tokens) if key <= query)
    assert by_name([tokens], [tokens])["attention"][0] == 4 * 64 * pairs
    assert by_name([tokens], [tokens])["lm_head"][0] == 2 * 64 * 100  # only the last token is sampled


def test_there_is_one_entry_of_work_for_each_kernel() -> None:
    assert len(kernel_work(Model(), [1], [5]).flops) == len(kernel_names(Model())) == 1 + 8 * 32 + 3


@pytest.mark.parametrize(("speed", "lanes", "gigabytes"), [
    (8.0, 16, 13.0), (16.0, 8, 13.2), (16.0, 16, 26.0), (32.0, 8, 26.5), (32.0, 16, 52.0), (64.0, 16, 111.0),
])
def test_links_carry_the_payload_that_published_figures_give(speed: float, lanes: int, gigabytes: float) -> None:
    link = Link(speed_gt_s=speed, width_lanes=lanes)
    assert link_bytes_per_s(link) / 1e9 == pytest.approx(gigabytes, rel=0.03)


def test_a_transfer_takes_its_latency_and_its_bytes_at_the_link_rate() -> None:
    link = Link()
    sizes = np.array([0, 1_000_000], dtype=np.int64)
    zero, megabyte = transfer_ns(sizes, link, np.zeros(2)).tolist()
    assert zero == link.latency_ns
    assert megabyte - zero == pytest.approx(1e15 / link_bytes_per_s(link), abs=1)


@given(st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 200)), min_size=1, max_size=30), st.integers(0, 500))
def test_a_queue_serves_in_order_like_the_literal_loop(work: list[tuple[int, int]], free: int) -> None:
    expected, end = [], free
    for ready, duration in work:
        expected.append(max(ready, end))
        end = expected[-1] + duration
    ready_ns, durations = np.array(work, dtype=np.int64).T
    assert serve(ready_ns, durations, free).tolist() == expected
