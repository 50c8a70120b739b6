"""Bounds over all paths, the estimate, and links that contradict each other."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.clocks.loops import FAR, Links, bounds, least_squares, solve


def links(count: int, rows: list[tuple[int, int, int, int]]) -> Links:
    """(a, b, lo, hi) each; clock 0 is the root."""
    return Links(count, 0, *np.array(rows, np.int64).reshape(-1, 4).T.copy())


def measured(rng: np.random.Generator, true: np.ndarray, ends: list[tuple[int, int]],
             lies: Mapping[int, int] | None = None) -> Links:
    """Links whose intervals hold the truth by uneven margins, but for those that lie."""
    rows = []
    for number, (a, b) in enumerate(ends):
        d = int(true[b] - true[a]) + (lies or {}).get(number, 0)
        rows.append((a, b, d - int(rng.integers(5, 9_000)), d + int(rng.integers(5, 9_000))))
    return links(len(true), rows)


def literal(one: Links) -> tuple[list[int], list[int]]:
    """Bounds by trying every path (of few clocks)."""
    step: dict[tuple[int, int], int] = {}
    for a, b, lo, hi in zip(one.a.tolist(), one.b.tolist(), one.lo.tolist(), one.hi.tolist(), strict=True):
        step[a, b] = min(hi, step.get((a, b), FAR))
        step[b, a] = min(-lo, step.get((b, a), FAR))

    def least(start: int, stop: int) -> int:
        best = 0 if start == stop else FAR
        others = [n for n in range(one.count) if n not in (start, stop)]
        for size in range(len(others) + 1):
            for middle in permutations(others, size):
                path = [start, *middle, stop]
                if start != stop and all(p in step for p in pairwise(path)):
                    best = min(best, sum(step[p] for p in pairwise(path)))
        return best

    return [-least(n, 0) for n in range(one.count)], [least(0, n) for n in range(one.count)]


GRAPH = st.tuples(st.integers(2, 6), st.integers(0, 2**32), st.integers(0, 8))


@given(GRAPH)
@settings(max_examples=80, deadline=None)
def test_bounds_are_those_of_the_best_path_in_both_directions(of: tuple[int, int, int]) -> None:
    count, seed, more = of
    rng = np.random.default_rng(seed)
    true = rng.integers(-10**6, 10**6, count)
    true[0] = 0
    ends = [(int(rng.integers(0, n)), n) for n in range(1, count)]
    ends += [(int(a), int(b)) for a, b in rng.integers(0, count, (more, 2)) if a != b]
    one = measured(rng, true, ends)
    found = solve(one)
    low, high = literal(one)
    assert found.bounds.low.tolist() == low
    assert found.bounds.high.tolist() == high
    assert (found.bounds.low <= true).all()
    assert (true <= found.bounds.high).all()
    assert (found.bounds.low <= found.value).all()
    assert (found.value <= found.bounds.high).all()
    assert not found.lying
    assert not found.suspects


@given(st.integers(0, 2**32), st.sampled_from([30_000, -40_000, 10**9]))
@settings(max_examples=60, deadline=None)
def test_a_lying_link_of_a_well_linked_graph_is_the_one_that_is_left_out(seed: int, lie: int) -> None:
    rng = np.random.default_rng(seed)
    true = rng.integers(-10**6, 10**6, 7)
    true[0] = 0
    ends = [(a, b) for a in range(7) for b in range(a + 1, 7)]
    liar = int(rng.integers(0, len(ends)))
    found = solve(measured(rng, true, ends, {liar: lie}))
    assert found.lying == {liar}
    assert (found.bounds.low <= true).all()
    assert (true <= found.bounds.high).all()


@given(st.integers(0, 2**32), st.integers(0, 3), st.sampled_from([60_000, -60_000]))
@settings(max_examples=60, deadline=None)
def test_of_a_ring_nobody_can_tell_who_lies_and_the_bounds_hold_for_each(seed: int, liar: int, lie: int) -> None:
    rng = np.random.default_rng(seed)
    true = rng.integers(-10**6, 10**6, 4)
    true[0] = 0
    found = solve(measured(rng, true, [(0, 1), (1, 2), (2, 3), (3, 0)], {liar: lie}))
    assert found.suspects == {0, 1, 2, 3}
    assert not found.lying
    assert (found.bounds.low <= true).all()
    assert (true <= found.bounds.high).all()


def test_several_liars_are_found() -> None:
    rng = np.random.default_rng(4)
    true = np.r_[0, rng.integers(-10**5, 10**5, 31)]
    ends = [(i, (i + 1) % 32) for i in range(32)] + [(i, 0) for i in range(1, 32)]
    lies = {5: 200_000, 40: -300_000, 51: 900_000}
    found = solve(measured(rng, true, ends, lies))
    assert found.lying == set(lies)


def test_suspects_stay_so_until_one_of_them_alone_explains_the_links() -> None:
    ring = [(0, 1, -10, 10), (1, 2, -10, 10), (2, 0, -10, 10)]
    quiet = solve(links(3, ring), suspects=(0, 1, 2))
    assert quiet.suspects == {0, 1, 2}
    assert quiet.bounds.high.tolist() == [0, 20, 20]  # as wide as by the way round
    told = solve(links(3, [(0, 1, 190, 210), *ring[1:], (0, 1, -10, 10)]), suspects=(0, 1, 2))
    assert told.lying == {0}
    assert told.suspects == frozenset()


def test_a_suspect_is_not_condemned_because_the_others_are_away() -> None:
    alone = links(3, [(0, 1, -10, 10), (1, 2, -10, 10), (2, 0, -50, 50)])
    found = solve(alone, suspects=(0,), elsewhere=True)
    assert found.lying == frozenset()
    assert found.suspects == {0}
    assert found.bounds.high.tolist() == [0, 60, 50]  # link 0 may lie: round by the others


def test_clocks_that_no_link_reaches_have_no_bounds() -> None:
    found = solve(links(4, [(0, 1, -5, 5), (2, 3, -5, 5)]))
    assert found.bounds.reached.tolist() == [True, True, False, False]


def test_a_contradiction_is_told_as_its_loop() -> None:
    one = links(4, [(0, 1, -5, 5), (1, 2, -5, 5), (2, 0, 90, 100), (2, 3, -5, 5)])
    found = bounds(one, one.without(()))
    assert isinstance(found, list)
    assert sorted(found) == [0, 1, 2]


@pytest.mark.parametrize("seed", range(4))
def test_least_squares_is_the_solution_of_the_normal_equations(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, ends = 12, [(i, (i + 1) % 12) for i in range(12)] + [(0, 5), (3, 9), (2, 7)]
    a, b = np.array(ends, np.int64).T.copy()
    middle, weight = rng.normal(0, 1e5, len(a)), rng.uniform(0.1, 3, len(a))
    matrix = np.zeros((len(a), count))
    matrix[np.arange(len(a)), b], matrix[np.arange(len(a)), a] = 1, -1
    root = np.sqrt(weight)
    exact = np.linalg.lstsq((matrix * root[:, None])[:, 1:], middle * root, rcond=None)[0]
    found = least_squares(count, 0, a, b, middle, weight, np.zeros(count))
    assert np.abs(found[1:] - exact).max() < 1


def test_a_link_that_is_off_inside_its_bounds_does_not_pull_the_others() -> None:
    rng = np.random.default_rng(9)
    true = np.r_[0, rng.integers(-1_000, 1_000, 15)]
    rows = []
    for a in range(16):
        for b in range(a + 1, 16):
            off = 7_000 if (a, b) == (2, 3) else int(rng.integers(-200, 200))
            d = int(true[b] - true[a]) + off
            rows.append((a, b, d - 8_500, d + 8_500))
    found = solve(links(16, rows))
    assert not found.lying
    assert np.abs(found.value - true).max() < 200
