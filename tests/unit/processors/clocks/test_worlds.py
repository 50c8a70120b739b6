"""Random clocks with random faults: the bound holds, restarts change nothing, no step is invented."""

from __future__ import annotations

import random

import pytest

from processors.clocks.pair import PairRules
from tests.support.clock_worlds import arrivals, fit, judge, world

RULES = PairRules()
WORLDS = 160
PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_no_row_lies_outside_its_bound_and_restarts_change_nothing(part: int) -> None:
    bounded = 0
    for number in range(part, WORLDS, PARTS):
        rng = random.Random(f"worlds/{number}")
        made = world(rng, RULES)
        stream = arrivals(made, rng)
        segments, pair = fit(made, stream, rng, RULES)
        found = judge(made, segments, [a.local for a in stream], rng, rows=60)
        assert found.outside == [], f"world {number}"
        bounded += found.bounded
        again, other = fit(made, stream, rng, RULES, restarts=True)
        assert (again, other.plain()) == (segments, pair.plain()), f"world {number}"
        if not made.broken:
            assert pair.steps == 0, f"world {number}: {pair.counts}"
    assert bounded > 0.6 * 60 * WORLDS / PARTS
