"""Ticks to nominal time, also over known changes of rate."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.clocks.nominal import NS, PPB, Nominal

CHANGES = st.lists(st.tuples(st.integers(1, 10**11), st.integers(-900_000_000, 3 * PPB)), max_size=5)


def made(hz: int, start: int, changes: list[tuple[int, int]]) -> tuple[Nominal, list[tuple[int, int]]]:
    nominal, at, placed = Nominal(hz), start, []
    for step, ppb in changes:
        at += step
        nominal.change(at, ppb)
        placed.append((at, ppb))
    return nominal, placed


@given(st.sampled_from([NS, 100_000_000, 19_200_000, 2_500_000_000]), st.sampled_from([0, 1 << 55]), CHANGES,
       st.integers(0, 10**12))
def test_nominal_time_adds_up_every_piece_at_its_own_rate(
        hz: int, start: int, changes: list[tuple[int, int]], after: int) -> None:
    nominal, placed = made(hz, start, changes)
    x = start + after
    exact, at, ppb = Fraction(start * NS, hz), start, 0
    for when, following in [*placed, (1 << 62, 0)]:
        until = min(max(when, at), x) if x > at else at
        exact += Fraction((until - at) * NS * PPB, hz * (PPB + ppb))
        at, ppb = max(when, at), following
        if at >= x:
            break
    assert abs(nominal.time(x) - exact) <= len(changes) + 1
    assert abs(nominal.tick(nominal.time(x)) - x) <= (len(changes) + 2) * (1 + 4 * hz // NS)


def test_the_next_change_and_the_piece_follow_from_the_tick() -> None:
    nominal, _ = made(NS, 0, [(100, -500_000_000), (50, 0)])
    assert [nominal.next_change(x) for x in (0, 99, 100, 149, 150)] == [100, 100, 150, 150, None]
    assert [nominal.piece(x) for x in (0, 99, 100, 149, 150)] == [0, 0, 1, 1, 2]
    assert nominal.time(150) == 200
    assert nominal.longest_ns(1) == 2


@pytest.mark.parametrize("x", [0, 1 << 61])
def test_forgetting_a_change_that_is_over_moves_nothing_after_it(x: int) -> None:
    nominal, placed = made(NS, x, [(10**9, -250_000_000), (10**9, 500_000_000), (10**9, 0)])
    later = [placed[1][0] + k * 10**8 for k in range(30)]
    before = [nominal.time(t) for t in later]
    nominal.forget_before(placed[1][0])
    assert len(nominal.changes) == 2
    assert [nominal.time(t) for t in later] == before


def test_a_counter_that_was_reset_keeps_its_rate() -> None:
    nominal, _ = made(NS, 10**12, [(5, -500_000_000)])
    nominal.restart(7)
    assert nominal.time(1_007) - nominal.time(7) == 2_000
