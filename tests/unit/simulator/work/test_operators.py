"""Work of operators against counting it out."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.work.models import Convolution
from simulator.work.operators import (
    all_gather_bytes,
    all_reduce_bytes,
    attention,
    causal_pairs,
    conv2d,
    distinct_experts,
    embedding_bag,
    expert_matmul,
    matmul,
    optimizer_step,
)

small = st.integers(1, 7)


@given(small, small, small)
def test_a_product_takes_a_multiplication_and_an_addition_for_each_triple(rows: int, inner: int, columns: int) -> None:
    counted = 0
    for _ in product(range(rows), range(columns), range(inner)):
        counted += 2
    cost = matmul(rows, inner, columns)
    assert cost.flops == counted
    assert cost.read_bytes == 2 * len({*product(range(rows), range(inner))}) + 2 * inner * columns
    assert cost.write_bytes == 2 * rows * columns


def test_quantised_weights_take_fewer_bytes_and_the_same_flops() -> None:
    full, four_bit = matmul(16, 64, 128), matmul(16, 64, 128, 0.5)
    assert full.flops == four_bit.flops
    assert full.read_bytes - four_bit.read_bytes == 64 * 128 * 3 // 2


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=4), st.sampled_from([4, 8]))
def test_attention_counts_every_key_a_query_may_see(sequences: list[tuple[int, int]], hidden: int) -> None:
    flops = 0
    pairs = 0
    for queries, before in sequences:
        for query in range(queries):
            for key in range(before + queries):
                if key <= before + query:  # causal
                    flops += 2 * 2 * hidden  # score and weighted sum, a multiplication and an addition each
                    pairs += 1
    total = sum(q for q, _ in sequences)
    keys = sum(q + b for q, b in sequences)
    assert pairs == sum(causal_pairs(q, q + b) for q, b in sequences)
    cost = attention(pairs, total, keys, hidden, 4, 2)
    assert cost.matrix_flops == flops
    assert cost.read_bytes == 2 * (2 * keys * 4 + total * hidden)
    assert cost.write_bytes == 2 * (total * hidden + 2 * total * 4)


@pytest.mark.parametrize(("side", "stride"), [(6, 1), (6, 2), (7, 2)])
def test_a_convolution_counts_every_weight_at_every_place(side: int, stride: int) -> None:
    layer = Convolution(side, 3, 4, 3, stride)
    places = len(range(0, side, stride))
    counted = 2 * sum(1 for _ in product(range(places), range(places), range(4), range(3), range(9)))
    assert conv2d(2, layer).flops == 2 * counted


def test_experts_read_are_those_some_token_chose() -> None:
    experts, tokens = 4, 3
    chosen = [len(set(choice)) for choice in product(range(experts), repeat=tokens)]
    assert distinct_experts(tokens, experts, 1) == pytest.approx(sum(chosen) / len(chosen))
    assert expert_matmul(1, 64, 64, 8, 2).read_bytes == 2 * 2 * 64 * 64 + 2 * 2 * 64
    assert expert_matmul(1_000, 64, 64, 8, 2).read_bytes == 8 * 2 * 64 * 64 + 2_000 * 2 * 64


@given(st.integers(2, 8), st.integers(1, 40))
def test_rings_send_what_stepping_through_them_sends(ranks: int, pieces: int) -> None:
    payload = ranks * pieces
    sent = 0
    for _ in range(ranks - 1):  # each step passes one piece on: reduce and scatter, then gather
        sent += pieces
    assert all_gather_bytes(payload, ranks) == sent
    assert all_reduce_bytes(payload, ranks) == 2 * sent


def test_gathers_of_a_recommendation_model_read_one_row_at_a_time() -> None:
    cost = embedding_bag(3, 2, 5, 64)
    assert (cost.run_bytes, cost.read_bytes, cost.write_bytes) == (128, 3 * 2 * 5 * 128, 3 * 2 * 64 * 2)
    assert cost.gathers == 1


def test_an_optimizer_step_moves_28_bytes_a_parameter() -> None:
    assert optimizer_step(1_000).bytes == 28_000
