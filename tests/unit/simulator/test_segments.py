from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from simulator.segments import UNBOUNDED, FleetMap, scale_q32

COLUMNS = ("epoch", "version", "valid_from_ticks", "valid_to_ticks", "src0_ticks", "dst0_ticks", "rate_q32", "err_ns")
ONE = 1 << 32


def fleet(*pieces: tuple[int | None, ...]) -> FleetMap:
    return FleetMap(pa.table({name: pa.array([piece[i] for piece in pieces], pa.int64())
                              for i, name in enumerate(COLUMNS)}))


@given(st.integers(-(1 << 46), 1 << 46), st.integers(1, 1 << 15), st.integers(0, ONE - 1))
def test_scaling_equals_exact_integer_arithmetic(ticks: int, whole: int, fraction: int) -> None:
    rate = whole * ONE + fraction if abs(ticks) < 1 << 40 else ONE + fraction
    scaled = scale_q32(np.array([ticks], dtype=np.int64), np.array([rate], dtype=np.int64))
    assert int(scaled[0]) == ticks * rate >> 32


def test_a_later_version_covers_an_earlier_one_only_where_it_is_valid() -> None:
    pieces = fleet((1, 2, 10, 20, 10, 500, ONE, 7), (1, 1, 0, 30, 0, 100, 2 * ONE, 50))
    mapped = pieces.apply(np.array([25, 5, 10, 19, 20, 30, -1], dtype=np.int64))
    assert mapped.fleet_ns[mapped.known].tolist() == [150, 110, 500, 509, 140]
    assert mapped.err_ns[mapped.known].tolist() == [50, 50, 7, 7, 50]
    assert mapped.known.tolist() == [True, True, True, True, True, False, False]


def test_a_gap_has_no_bound() -> None:
    mapped = fleet((1, 1, 0, 10, 0, 0, ONE, None)).apply(np.array([3], dtype=np.int64))
    assert mapped.err_ns.tolist() == [UNBOUNDED]


def test_without_pieces_nothing_is_known() -> None:
    assert not fleet().apply(np.arange(5, dtype=np.int64)).known.any()


@given(st.integers(0, 99), st.integers(ONE // 2, 2 * ONE))
def test_backwards_through_a_map_gives_the_tick_again(tick: int, rate: int) -> None:
    pieces = fleet((1, 1, 0, 50, 0, 1_000, rate, 7), (1, 2, 50, 100, 50, 1_000 + (50 * rate >> 32), rate, 7))
    at = pieces.apply(np.array([tick], dtype=np.int64)).fleet_ns
    back, known = pieces.inverse(at)
    assert known.all() or rate < ONE  # a slow map shows some fleet times at the end of a piece only
    if known.all():
        assert abs(int(back[0]) - tick) <= 2


def test_a_map_that_jumps_does_not_close_and_one_that_shows_a_time_never_says_so() -> None:
    overlapping = fleet((1, 1, 0, 50, 0, 1_000, ONE, 7), (1, 1, 50, 100, 50, 1_040, ONE, 7))
    back, known = overlapping.inverse(np.array([1_045, 2_000], dtype=np.int64))
    assert known.tolist() == [True, False]
    assert back[0] == 55  # the later piece; the first one showed 1 045 at tick 45
