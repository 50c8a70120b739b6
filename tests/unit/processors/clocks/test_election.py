"""Whose UTC the others confirm, and who is linked with whom."""

from __future__ import annotations

import random

from processors.clocks.election import camp, has_majority, parts

S = 1_000_000_000


def test_the_largest_set_that_agrees_is_the_camp() -> None:
    assert camp({"a": 10 * S, "b": 0, "c": S // 2, "d": 9 * S, "e": -S // 4}, S) == {"b", "c", "e"}


def test_of_equally_large_sets_that_around_the_median_wins() -> None:
    assert camp({"a": 0, "b": 100 * S, "c": 900 * S}, S) == {"b"}
    assert camp({"a": 5 * S, "b": 0}, S) == {"b"}
    assert camp({}, S) == set()


def test_a_camp_is_never_wider_than_the_tolerance_and_no_other_is_larger() -> None:
    rng = random.Random(3)
    for _ in range(200):
        offsets = {f"h{i}": rng.randrange(-3 * S, 3 * S) for i in range(rng.randrange(1, 12))}
        found = camp(offsets, S)
        spread = [offsets[h] for h in found]
        assert max(spread) - min(spread) <= S
        assert len(found) == max(sum(0 <= o - first <= S for o in offsets.values()) for first in offsets.values())


def test_half_is_no_majority() -> None:
    assert not has_majority(1, 2)
    assert has_majority(2, 3)


def test_parts_are_what_links_connect_the_largest_first() -> None:
    links = [("a", "b"), ("d", "c"), ("c", "e"), ("x", "a")]
    assert parts("abcdef", links) == [["c", "d", "e"], ["a", "b"], ["f"]]
