"""A group whose every host has closed: nobody's promise moves time on, and what was sent last must not wait for it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from fleetscope.step import replay
from processors.clocks.fleet import FleetClockStep
from tests.unit.processors.clocks.fleets import NS, Fleet, TrueHost, maps, piece_at

STEP = FleetClockStep()


def fleet(names: str) -> Fleet:
    """Hosts in a row, each with an offset and a rate of its own."""
    hosts = {name: TrueHost(name, 10**15 * (i + 1), (31.0, -44.0, 12.5)[i], 40_000 * i) for i, name in enumerate(names)}
    return Fleet(hosts, [(b, a) for a, b in pairwise(names)])


@pytest.mark.parametrize("names", ["a", "ab", "abc"])
def test_the_last_rows_of_hosts_that_all_closed_have_a_place_in_their_maps(names: str) -> None:
    made = fleet(names)
    for second in range(8):
        made.second(second)
    for name in names:
        made.beat(name, 8 * NS, closed=True)
    found = maps(replay(STEP, made.batches, end=False))
    for name in names:
        assert (found[name].through or 0) > made.hosts[name].raw(8 * NS + NS // 2)


def test_hosts_that_all_closed_and_begin_again_get_bounds_again() -> None:
    made = fleet("ab")
    for second in range(8):
        made.second(second)
    for name in "ab":
        made.beat(name, 8 * NS, closed=True)
    for second in range(60, 75):
        made.second(second)
    found = maps(replay(STEP, made.batches, end=False))
    times = {}
    for name in "ab":
        raw = made.hosts[name].raw(66 * NS)
        piece = piece_at(found[name], raw)
        assert piece.err_ns is not None
        times[name] = (piece.at(raw), piece.err_ns)
    assert abs(times["a"][0] - times["b"][0]) <= times["a"][1] + times["b"][1]
