"""Fixed-point products against Python's integers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from processors.clocks.fixed import ONE_Q32, mul_q32, mul_q32_one

RATES = st.integers(1, 1000 * ONE_Q32)
TICKS = st.integers(-(1 << 52), 1 << 52)


def literal(ticks: int, rate: int) -> int:
    """round half up of ticks · rate / 2^32, in integers of any size."""
    whole, rest = divmod(ticks * rate, 1 << 32)
    return whole + (rest >= 1 << 31)


@given(st.lists(TICKS, min_size=1, max_size=20), RATES)
@example([3600 * 10**9, -3600 * 10**9], ONE_Q32 + 429_497)
@example([0, 1, -1, (1 << 30) - 1, 1 << 30, (1 << 32) - 1, 1 << 32], ONE_Q32 // 2)
def test_products_are_those_of_big_integers(ticks: list[int], rate: int) -> None:
    found = mul_q32(np.array(ticks, np.int64), np.int64(rate))
    assert found.tolist() == [literal(t, rate) for t in ticks]


@given(st.lists(st.tuples(st.integers(0, (1 << 30) - 1), RATES), min_size=1, max_size=20))
def test_short_pieces_with_a_rate_each_are_exact(pairs: list[tuple[int, int]]) -> None:
    ticks, rates = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    assert mul_q32(ticks, rates).tolist() == [literal(t, r) for t, r in pairs]


@pytest.mark.parametrize("ticks", [(1 << 62) - 1, -(1 << 62), (1 << 62) - (1 << 31), 1 << 61])
def test_products_up_to_2_to_the_62_do_not_overflow(ticks: int) -> None:
    for rate in (ONE_Q32, ONE_Q32 - 1, ONE_Q32 // 2, 1):
        assert mul_q32(np.array([ticks], np.int64), np.int64(rate)).tolist() == [literal(ticks, rate)]


@given(st.integers(-(1 << 62), 1 << 62), RATES)
def test_the_product_of_one_number_is_the_same(ticks: int, rate: int) -> None:
    assert mul_q32_one(ticks, rate) == literal(ticks, rate)


def test_no_ticks_give_no_products() -> None:
    assert mul_q32(np.array([], np.int64), np.int64(ONE_Q32)).tolist() == []
