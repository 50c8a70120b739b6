"""Chains of maps."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from processors.clocks.compose import END_OF_TIME, beyond, compose, plus, worst
from processors.clocks.segments import Segment, SegmentMap, State

NS = 1_000_000_000
ONE = 1 << 32


def chain(rng: random.Random, start: int, dst: int, count: int, state: State = "settled") -> list[Segment]:
    """Contiguous pieces of uneven lengths and rates within 100 ppm."""
    made: list[Segment] = []
    for _ in range(count):
        stop = start + rng.randrange(NS // 2, 2 * NS)
        rate = ONE + rng.randrange(-400_000, 400_000)
        made.append(Segment(0, start, stop, start, dst, rate, rng.randrange(100, 900), None, state, 0))
        start, dst = stop, made[-1].at(stop)
    return made


def holding(segments: list[Segment], t: int) -> Segment:
    (found,) = [s for s in segments if s.valid_from <= t < s.valid_to]
    return found


@pytest.mark.parametrize("seed", range(8))
def test_a_composed_map_is_the_exact_chain_within_2_ns_and_its_bounds_add(seed: int) -> None:
    rng = random.Random(seed)
    start, middle, target = (rng.randrange(1 << 61) for _ in range(3))
    near = chain(rng, start, middle, 8)
    far = chain(rng, middle - NS, target, 12)
    ready = compose(list(near), SegmentMap(far), final=False)
    assert ready
    assert all(a.valid_to == b.valid_from for a, b in pairwise(ready))
    for _ in range(500):
        t = rng.randrange(ready[0].valid_from, ready[-1].valid_to)
        first, made = holding(near, t), holding(ready, t)
        second = holding(far, first.at(t))
        assert abs(made.at(t) - second.at(first.at(t))) <= 2
        assert made.err_ns is not None
        assert first.err_ns is not None
        assert second.err_ns is not None
        assert first.err_ns + second.err_ns <= made.err_ns <= first.err_ns + second.err_ns + 2


def test_pieces_past_the_parent_wait_until_it_has_come_so_far() -> None:
    rng = random.Random(1)
    near, far = chain(rng, 0, 5 * NS, 6), chain(rng, 5 * NS, 9 * NS, 12)
    pending, parent = list(near), SegmentMap(far[:2])
    ready = compose(pending, parent, final=False)
    assert 0 < len(pending) < len(near)
    parent.extend(far[2:])
    ready += compose(pending, parent, final=False)
    assert pending == []
    assert ready == compose(list(near), SegmentMap(far), final=False)


def test_past_the_end_of_a_parent_that_closed_there_is_no_bound() -> None:
    rng = random.Random(2)
    near = chain(rng, 0, 5 * NS, 6)
    ready = compose(list(near), SegmentMap(chain(rng, 5 * NS, 9 * NS, 2)), final=True)
    assert ready[0].err_ns is not None
    assert (ready[-1].err_ns, ready[-1].state) == (None, "gap")
    assert ready[-1].valid_to == near[-1].valid_to


def test_a_chain_is_as_sure_as_its_least_sure_piece() -> None:
    rng = random.Random(3)
    ready = compose(chain(rng, 0, 5 * NS, 1), SegmentMap(chain(rng, 4 * NS, 9 * NS, 9, "provisional")), final=False)
    assert {s.state for s in ready} == {"provisional"}
    assert worst("settled", "gap") == "gap"
    assert plus(1, None) is None
    assert plus(1, 2, 3) == 6


def test_the_end_of_a_closed_clock_is_a_gap_for_ever() -> None:
    last = chain(random.Random(4), 0, 0, 1)[0]
    end = beyond(last)
    assert (end.valid_from, end.valid_to, end.err_ns, end.state) == (last.valid_to, END_OF_TIME, None, "gap")
    assert end.at(last.valid_to) == last.at(last.valid_to)
