"""Fleet time: who is the reference, and that every host's map is within its bound."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from fleetscope.contracts.raw import CLOCK_SAMPLES
from fleetscope.step import replay
from processors.clocks.fleet import FleetClockStep
from processors.clocks.segments import END_OF_TIME
from tests.unit.processors.clocks.fleets import NS, Fleet, TrueHost, maps, piece_at, references, shifted

STEP = FleetClockStep()


def fleet(names: str, links: list[tuple[str, str]]) -> Fleet:
    """Hosts with offsets, rates and errors against UTC of their own."""
    return Fleet({name: TrueHost(name, 10**15 * (i + 1), [31.0, -44.0, 12.5, 70.0, -3.0][i], 40_000 * i)
                  for i, name in enumerate(names)}, links)


RING = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "a")]


def assert_agree(made: Fleet, found: dict[str, Any], names: str, start_s: int, stop_s: int) -> None:
    """Two hosts' fleet times of one moment differ by no more than their bounds."""
    for at in range(start_s * NS, stop_s * NS, NS // 7):
        pieces = {n: piece_at(found[n], made.hosts[n].raw(at)) for n in names}
        times = {n: p.at(made.hosts[n].raw(at)) for n, p in pieces.items()}
        for one, other in pairwise(names):
            first, second = pieces[one].err_ns, pieces[other].err_ns
            if first is not None and second is not None:
                assert abs(times[one] - times[other]) <= first + second


def test_the_lowest_host_is_the_reference_whoever_speaks_first() -> None:
    made = fleet("abc", [("b", "a"), ("c", "a")])
    made.hosts = dict(reversed(made.hosts.items()))
    for second in range(8):
        made.second(second)
    assert references(replay(STEP, made.batches)) == {"a": {"a"}, "b": {"a"}, "c": {"a"}}


@pytest.mark.parametrize("links", [[("b", "a"), ("c", "a"), ("d", "a")], RING, [("a", "b"), ("b", "c"), ("c", "d")]],
                         ids=["star", "ring", "chain"])
def test_hosts_agree_within_their_bounds(links: list[tuple[str, str]]) -> None:
    made = fleet("abcd", links)
    for second in range(14):
        made.second(second)
    outputs = replay(STEP, made.batches, end=False)
    found = maps(outputs)
    assert_agree(made, found, "abcd", 1, 9)
    settled = [s for n in "bcd" for s in found[n].segments if s.state == "settled"]
    assert len(settled) > 12
    assert max(s.err_ns or 10**9 for s in settled) < 60_000
    assert references(outputs) == {n: {"a"} for n in "abcd"}


def test_fleet_time_stays_within_its_bound_of_the_reference_s_utc() -> None:
    made = fleet("ab", [("b", "a")])
    for second in range(14):
        made.second(second)
    found = maps(replay(STEP, made.batches, end=False))
    for at in range(NS, 9 * NS, NS // 3):
        for name in "ab":
            piece = piece_at(found[name], made.hosts[name].raw(at))
            assert piece.utc_err_ns is not None
            assert abs(piece.at(made.hosts[name].raw(at)) - made.hosts["a"].utc(at)) <= piece.utc_err_ns


def test_hosts_without_a_way_between_them_have_references_of_their_own() -> None:
    made = fleet("abcde", [("b", "a"), ("d", "c")])
    for second in range(8):
        made.second(second)
    assert references(replay(STEP, made.batches)) == {
        "a": {"a"}, "b": {"a"}, "c": {"c"}, "d": {"c"}, "e": {"e"}}


def test_a_host_without_utc_is_mapped_through_its_neighbour() -> None:
    made = fleet("ab", [("b", "a")])
    for second in range(8):
        made.second(second, no_utc="a")
    assert references(replay(STEP, made.batches)) == {"a": {"b"}, "b": {"b"}}


def test_a_host_that_joins_later_keeps_the_reference_even_with_a_lower_id() -> None:
    made = fleet("abc", [("a", "b"), ("c", "b")])
    for second in range(14):
        made.second(second, silent="a" if second < 6 else "")
    outputs = replay(STEP, made.batches, end=False)
    assert references(outputs) == {n: {"b"} for n in "abc"}
    assert_agree(made, maps(outputs), "abc", 7, 10)


def test_nothing_is_said_before_the_election() -> None:
    made = fleet("ab", [("b", "a")])
    made.second(0)
    made.second(1)
    assert replay(STEP, made.batches, end=False) == []


def test_every_host_s_map_is_without_holes() -> None:
    made = fleet("abcd", RING)
    for second in range(14):
        made.second(second)
    for segments in maps(replay(STEP, made.batches)).values():
        assert all(a.valid_to == b.valid_from for a, b in pairwise(segments.segments))


def test_a_silent_host_s_map_goes_on_so_that_those_behind_it_do_not_wait_for_ever() -> None:
    step = FleetClockStep(silent_s=20)
    made = fleet("abc", [("b", "a"), ("c", "b")])
    for second in range(60):
        made.second(second, silent="b" if second >= 10 else "")
    found = maps(replay(step, made.batches, end=False))
    assert (found["c"].through or 0) > made.hosts["c"].raw(24 * NS)
    assert_agree(made, found, "ac", 5, 24)
    late = piece_at(found["c"], made.hosts["c"].raw(22 * NS))
    assert late.state == "provisional"
    assert late.err_ns is not None


def test_a_silent_reference_does_not_stop_the_fleet() -> None:
    step = FleetClockStep(silent_s=20)
    made = fleet("abc", [("b", "a"), ("c", "b")])
    for second in range(60):
        made.second(second, silent="a" if second >= 10 else "")
    found = maps(replay(step, made.batches, end=False))
    assert all((found[n].through or 0) > made.hosts[n].raw(25 * NS) for n in "abc")
    assert_agree(made, found, "abc", 1, 25)


def test_a_host_that_closed_is_decided_for_ever_without_a_bound() -> None:
    made = fleet("ab", [("b", "a")])
    for second in range(10):
        made.second(second)
    made.beat("b", 10 * NS, closed=True)
    for second in range(11, 40):
        made.second(second, silent="b")
    found = maps(replay(STEP, made.batches, end=False))
    assert found["b"].through == END_OF_TIME
    assert found["b"].segments[-1].err_ns is None
    assert (found["a"].through or 0) < END_OF_TIME


def test_after_the_reference_closed_another_one_is_elected_and_bounds_go_on() -> None:
    made = fleet("abc", [("b", "a"), ("c", "b")])
    for second in range(10):
        made.second(second)
    made.beat("a", 10 * NS, closed=True)
    for second in range(11, 60):
        made.second(second, silent="a")
    outputs = replay(STEP, made.batches, end=False)
    found = maps(outputs)
    assert_agree(made, found, "bc", 1, 55)
    piece = piece_at(found["c"], made.hosts["c"].raw(50 * NS))
    assert (piece.state, piece_at(found["b"], made.hosts["b"].raw(50 * NS)).state) == ("settled", "settled")
    assert references(outputs)["c"] == {"a", "b"}


def test_a_host_that_comes_back_after_closing_gets_bounds_again() -> None:
    made = fleet("ab", [("b", "a")])
    for second in range(10):
        made.second(second)
    made.beat("b", 9 * NS, closed=True)
    for second in range(40, 54):
        made.second(second)
    found = maps(replay(STEP, made.batches, end=False))
    assert_agree(made, found, "ab", 41, 49)
    assert piece_at(found["b"], made.hosts["b"].raw(45 * NS)).state == "settled"


@pytest.mark.parametrize("ppm", [500.0, -500.0])
def test_utc_slewed_by_500_ppm_costs_the_bound_against_utc_and_nothing_else(ppm: float) -> None:
    made = fleet("ab", [("b", "a")])
    made.hosts["a"].utc_rate_ppm = ppm
    for second in range(14):
        made.second(second)
    found = maps(replay(STEP, made.batches, end=False))
    assert_agree(made, found, "ab", 1, 9)
    pieces = [piece_at(found[n], made.hosts[n].raw(at * NS // 4)) for n in "ab" for at in range(6, 36)]
    assert {p.utc_err_ns for p in pieces} == {None}
    assert all(p.err_ns is not None and p.err_ns < 60_000 for p in pieces)


def test_utc_that_steps_back_an_hour_is_followed_by_a_wide_bound_and_no_step_of_fleet_time() -> None:
    made = fleet("ab", [("b", "a")])
    for second in range(20):
        made.hosts["a"].utc_error = -3_600 * NS if second >= 10 else 0
        made.second(second)
    found = maps(replay(STEP, made.batches, end=False))
    pieces = found["a"].segments
    assert all(abs(a.at(a.valid_to) - b.dst0) <= 1 for a, b in pairwise(pieces))
    piece = piece_at(found["a"], made.hosts["a"].raw(15 * NS))
    assert piece.utc_err_ns is not None
    assert piece.utc_err_ns >= 3_599 * NS
    assert piece.err_ns == 1


@pytest.mark.parametrize("cut", [3, 11, 20, 37])
def test_a_restart_from_the_snapshot_changes_nothing(cut: int) -> None:
    made = fleet("abcd", RING)
    for second in range(9):
        made.second(second)
    state, outputs = STEP.start(), []
    for number, batch in enumerate(made.batches):
        if number == cut:
            state = STEP.restore(STEP.snapshot(state))
        state, out = STEP.on_batch(state, batch)
        outputs += out
    outputs += STEP.on_end(state)
    assert [(o.batch.header, o.batch.rows) for o in outputs] == [
        (o.batch.header, o.batch.rows) for o in replay(STEP, made.batches)]


def test_state_does_not_grow_with_time() -> None:
    made = fleet("abc", [("b", "a"), ("c", "b"), ("c", "a")])
    state, sizes = STEP.start(), []
    for second in range(120):
        before = len(made.batches)
        made.second(second)
        for batch in made.batches[before:]:
            state, _ = STEP.on_batch(state, batch)
        if second in (59, 119):
            kept = [len(h.utc_segments) + len(h.pieces) for h in state.hosts.values()]
            pairs = [len(e.pair.nodes) + len(e.pair.segments) + sum(len(s.pieces) for s in e.stretches)
                     for e in state.edges.values()]
            sizes.append(sum(kept) + sum(pairs))
    assert sizes[1] <= sizes[0] + 40


def test_repeated_batches_change_nothing() -> None:
    made = fleet("ab", [("b", "a")])
    for second in range(8):
        made.second(second)
    twice = [b for batch in made.batches for b in (batch, batch)]
    assert [o.batch.rows for o in replay(STEP, twice)] == [o.batch.rows for o in replay(STEP, made.batches)]


def test_samples_of_clocks_that_have_no_place_here_are_counted() -> None:
    made = fleet("ab", [("b", "a")])
    made.second(0)
    rows = made.batches[0].rows.to_pylist()
    for change in ({"local_clock": "tsc"}, {"remote_clock": "dev0"}, {"remote_first_ticks": 0}):
        made.send("a", CLOCK_SAMPLES, [{**rows[0], **change}])
    state = STEP.start()
    for batch in made.batches:
        state, _ = STEP.on_batch(state, batch)
    assert state.bad_samples == 3


def test_kinds_that_are_no_samples_are_let_pass() -> None:
    made = fleet("a", [])
    made.second(0)
    state, out = STEP.on_batch(STEP.start(), shifted(made.batches[-1], contract="marks"))
    assert out == []
    assert state.hosts == {}
