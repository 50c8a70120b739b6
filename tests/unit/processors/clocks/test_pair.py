"""One pair of clocks: the bound holds, steps are found, every tick is decided once."""

from __future__ import annotations

import random
from itertools import groupby, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.clocks.hull import Node
from processors.clocks.pair import Pair, PairRules, add_probes, advance, finish
from processors.clocks.probes import assumptions_for
from processors.clocks.segments import Segment
from tests.unit.processors.clocks.models import (
    HOST_START,
    NS,
    Model,
    fitted,
    free_running,
    holding,
    probe,
    probes,
)

RULES = PairRules()
SPEEDS = [NS, 100_000_000, 19_200_000]


def host(seconds: float) -> int:
    return HOST_START + round(seconds * NS)


def outside(clock: Model, segments: list[Segment], start_s: float, stop_s: float, count: int = 400) -> list[int]:
    """Host times whose tick has a bound that the truth breaks."""
    rng = random.Random(3)
    times = [rng.randrange(host(start_s), host(stop_s)) for _ in range(count)]
    pieces = [(at, tick, holding(segments, tick)) for at in times for tick in (clock.read(at),)]
    return [at for at, tick, piece in pieces
            if piece is not None and piece.err_ns is not None and abs(piece.at(tick) - at) > piece.err_ns]


def states(segments: list[Segment], clock: Model, start_s: float, stop_s: float) -> set[str]:
    """States of the pieces between two host times; 'none' where there is none."""
    found = (holding(segments, clock.read(at)) for at in range(host(start_s), host(stop_s), NS // 10))
    return {"none" if piece is None else piece.state for piece in found}


def assert_decided_once(segments: list[Segment]) -> None:
    for _, pieces in groupby(segments, key=lambda s: s.epoch):
        for before, after in pairwise(pieces):
            assert before.valid_to == after.valid_from
    assert all(s.valid_from < s.valid_to for s in segments)


@pytest.mark.parametrize("hz", SPEEDS)
@pytest.mark.parametrize("seed", range(6))
def test_the_bound_holds_for_every_oscillator(hz: int, seed: int) -> None:
    rng = random.Random(seed * 7 + hz)
    clock = free_running(rng, hz)
    pair = fitted(clock, probes(clock, rng, 0, 40), RULES)
    assert states(pair.segments, clock, 0.1, 36) == {"settled"}
    assert not outside(clock, pair.segments, -4, 37)
    assert pair.steps == 0
    assert pair.disordered == 0
    settled = [s.err_ns for s in pair.segments if s.state == "settled"]
    assert sorted(e for e in settled if e is not None)[len(settled) // 2] <= 1_000 + 2 * NS // hz


@pytest.mark.parametrize("jump", [3_000_000, -3_000_000, 20_000, -20_000, 7 * NS, -7 * NS])
@pytest.mark.parametrize("hz", SPEEDS)
def test_a_step_is_found_by_the_second_burst_after_it_and_none_is_invented(jump: int, hz: int) -> None:
    rng = random.Random(hz + jump)
    clock = free_running(rng, hz)
    clock.steps = [(round(20.5 * NS), jump)]
    given_before = probes(clock, rng, 0, 20.4)
    pair = fitted(clock, given_before, RULES)
    assert pair.steps == 0
    add_probes(pair, probes(clock, rng, 21, 22.5, every_s=1.0), RULES)
    assert pair.steps == 1
    add_probes(pair, probes(clock, rng, 23, 40), RULES)
    finish(pair, RULES)
    assert pair.steps == 1
    assert {s.epoch for s in pair.segments} == {0, 1}
    assert_decided_once(pair.segments)


@pytest.mark.parametrize("jump", [3_000_000, 7 * NS])
def test_bounds_hold_on_both_sides_of_a_step_and_none_is_given_between(jump: int) -> None:
    rng = random.Random(1)
    clock = free_running(rng, NS)
    clock.steps = [(round(20.5 * NS), jump)]
    pair = fitted(clock, probes(clock, rng, 0, 40), RULES)
    assert not outside(clock, pair.segments, 0, 37, 2_000)
    assert states(pair.segments, clock, 20.1, 20.9) == {"gap"}
    assert states(pair.segments, clock, 21.1, 36) == {"settled"}


def test_the_gap_of_a_step_back_reaches_as_far_as_the_old_clock_came() -> None:
    rng = random.Random(2)
    clock = free_running(rng, NS)
    old = Model(clock.hz, clock.start_ns, clock.ppm, clock.wander_ns, clock.period_s)
    clock.steps = [(round(20.9 * NS), -NS // 2)]
    pair = fitted(clock, probes(clock, rng, 0, 40), RULES)
    (gap,) = [s for s in pair.segments if s.state == "gap"]
    assert gap.valid_from <= old.read(host(20.1))
    assert old.read(host(20.9)) < gap.valid_to
    (first,) = [s for s in pair.segments if s.epoch == 1][:1]
    assert first.valid_from < gap.valid_to


def test_a_reset_to_zero_begins_an_epoch_that_settles_again() -> None:
    rng = random.Random(4)
    before = free_running(rng, 100_000_000)
    after = Model(100_000_000, -round(20.4 * NS), 12.0)
    given_probes = [*probes(before, rng, 0, 20), *probes(after, rng, 20.6, 40)]
    pair = fitted(after, given_probes, RULES)
    assert pair.steps == 1
    assert pair.epoch == 1
    newer = [s for s in pair.segments if s.epoch == 1]
    assert newer[0].valid_from < 100_000_000
    assert not outside(after, newer, 20.7, 37)
    assert states(newer, after, 20.7, 36) == {"settled"}


def test_silence_is_bridged_provisionally_with_a_wider_bound_that_holds() -> None:
    rng = random.Random(5)
    clock = free_running(rng, NS)
    pair = fitted(clock, probes(clock, rng, 0, 10), RULES)
    for second in range(11, 100):
        advance(pair, host(second), RULES)
    assert states(pair.segments, clock, 20, 85) == {"provisional"}
    add_probes(pair, probes(clock, rng, 100, 110), RULES)
    assert not outside(clock, pair.segments, 0, 106, 1_500)
    assert pair.steps == 0
    assert_decided_once(pair.segments)
    errors = {at: (holding(pair.segments, clock.read(host(at))) or pair.segments[0]).err_ns or 0 for at in (5, 30, 80)}
    assert errors[5] < errors[30] < errors[80]
    assert states(pair.segments, clock, 101.1, 105.9) == {"settled"}


def test_what_is_left_is_decided_at_the_end_and_the_bound_holds() -> None:
    rng = random.Random(6)
    clock = free_running(rng, 19_200_000)
    pair = fitted(clock, probes(clock, rng, 0, 4), RULES)
    finish(pair, RULES)
    assert states(pair.segments, clock, 3.1, 11.9) == {"provisional"}
    assert not outside(clock, pair.segments, -4, 13, 1_000)
    count = len(pair.segments)
    finish(pair, RULES)
    assert len(pair.segments) == count
    assert_decided_once(pair.segments)


def test_a_single_probe_gives_a_provisional_map_with_a_bound_that_holds() -> None:
    clock = Model(NS, ppm=90.0)
    pair = fitted(clock, [probe(clock, host(0), 500, 900)], RULES)
    finish(pair, RULES)
    assert states(pair.segments, clock, 0.1, 8.9) == {"provisional"}
    assert not outside(clock, pair.segments, -4, 9)


def test_without_probes_nothing_is_decided() -> None:
    pair = Pair(NS)
    advance(pair, host(100), RULES)
    finish(pair, RULES)
    assert pair.segments == []


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 1_000), st.data())
def test_batching_and_the_rhythm_of_promises_change_nothing(seed: int, data: st.DataObject) -> None:
    rng = random.Random(seed)
    clock = free_running(rng, rng.choice(SPEEDS))
    if seed % 3 == 0:
        clock.steps = [(7 * NS, rng.choice([-1, 1]) * 5_000_000)]
    silent = rng.choice([0, 3, 25])
    stream = [*probes(clock, rng, 0, 8), *probes(clock, rng, 8 + silent, 16 + silent)]
    whole = fitted(clock, stream, RULES)
    finish(whole, RULES)
    pieces = Pair(clock.hz)
    while stream:
        size = data.draw(st.integers(1, 12))
        taken, stream = stream[:size], stream[size:]
        add_probes(pieces, taken, RULES)
        if data.draw(st.booleans()):
            pieces = Pair.of_plain(pieces.plain()) if not pieces.segments else pieces
            advance(pieces, stream[0].local if stream else taken[-1].local, RULES)
    finish(pieces, RULES)
    assert pieces.segments == whole.segments
    assert_decided_once(whole.segments)


def test_congestion_widens_the_bound_and_is_no_step() -> None:
    rng = random.Random(8)
    clock = free_running(rng, NS)
    stream = [*probes(clock, rng, 0, 10), *probes(clock, rng, 10, 20, typical_ns=8_000_000),
              *probes(clock, rng, 20, 32)]
    pair = fitted(clock, stream, RULES)
    assert pair.steps == 0
    assert not outside(clock, pair.segments, 0, 29, 1_500)
    calm, busy = (holding(pair.segments, clock.read(host(at))) for at in (6, 15.5))
    assert calm
    assert busy
    assert calm.err_ns
    assert busy.err_ns
    assert busy.err_ns > calm.err_ns


def test_repeated_probes_are_counted_and_change_nothing() -> None:
    rng = random.Random(9)
    clock = free_running(rng, NS)
    stream = probes(clock, rng, 0, 12, burst=1)
    plain, twice = fitted(clock, stream, RULES), Pair(clock.hz)
    for one in stream:
        add_probes(twice, [one, one], RULES)
        advance(twice, one.local + NS // 2, RULES)
        add_probes(twice, [one], RULES)
    for pair in (plain, twice):
        finish(pair, RULES)
    assert twice.segments == plain.segments
    assert (twice.steps, twice.disordered) == (0, 2 * len(stream))


def test_probes_out_of_order_are_counted_and_are_no_steps() -> None:
    rng = random.Random(10)
    clock = free_running(rng, NS)
    stream = probes(clock, rng, 0, 20, burst=1)
    for number in range(0, 20, 4):
        stream[number], stream[number + 1] = stream[number + 1], stream[number]
    pair = fitted(clock, stream, RULES)
    assert (pair.steps, pair.disordered) == (0, 5)
    assert not outside(clock, pair.segments, 0, 16)


def test_a_node_whose_ends_are_crossed_is_refused() -> None:
    clock = Model()
    good = probe(clock, host(0), 500, 500)
    pair = fitted(clock, [good, good._replace(lo=good.hi + 1, local=good.local + 5, x=good.x + 5)], RULES)
    assert pair.disordered == 1


def test_a_stuck_clock_gets_no_bound_while_it_stands() -> None:
    rng = random.Random(11)
    clock = Model(NS, stuck_at=round(10.5 * NS))
    pair = fitted(clock, probes(clock, rng, 0, 25), RULES)
    assert pair.counts == {"stuck": 1}
    later = [s for s in pair.segments if s.epoch > 0]
    assert later
    assert {s.err_ns for s in later} == {None}
    assert not outside(clock, pair.segments, 0, 9.9)


@pytest.mark.parametrize("start_ns", [(1 << 62) - 4_000 * NS, 1])
def test_a_host_clock_near_2_to_the_62_loses_no_precision(start_ns: int) -> None:
    rng = random.Random(12)
    clock = Model(NS, start_ns, 37.0)
    pair = fitted(clock, probes(clock, rng, 0, 20), RULES)
    assert not outside(clock, pair.segments, 0.5, 16, 2_000)
    errors = [s.err_ns for s in pair.segments if s.state == "settled"]
    assert max(e for e in errors if e is not None) < 2_000


def test_a_target_that_steps_back_begins_an_epoch_and_is_no_disorder() -> None:
    clock, rules = Model(), PairRules(assumptions_for("realtime"), steady_source=True)
    pair = Pair(NS)
    for second in range(20):
        real = probe(clock, host(second), 400, 400)
        back = 3_600 * NS if second >= 10 else 0
        add_probes(pair, [real._replace(lo=real.lo - back, hi=real.hi - back, local=real.local - back)], rules)
    assert (pair.steps, pair.disordered) == (1, 0)
    assert_decided_once(pair.segments)
    assert all(a.valid_to == b.valid_from for a, b in pairwise(pair.segments))


def test_state_survives_a_way_through_plain_values() -> None:
    rng = random.Random(13)
    clock = free_running(rng, NS)
    pair = fitted(clock, probes(clock, rng, 0, 6), RULES)
    pair.take()
    again = Pair.of_plain(pair.plain())
    for one in (pair, again):
        add_probes(one, probes(clock, random.Random(14), 6, 12), RULES)
    assert again.segments == pair.segments
    assert again.plain() == pair.plain()


def test_a_silence_of_centuries_takes_few_pieces() -> None:
    pair = Pair(10**9)
    for second in range(4):
        at = second * 10**9
        add_probes(pair, [Node(at, at - 400, at + 400, at + 400)], PairRules())
    advance(pair, 1 << 62, PairRules())
    taken = pair.take()
    assert len(taken) < 2_000
    assert taken[-1].valid_to > 1 << 61
    assert all(a.valid_to == b.valid_from for a, b in pairwise(taken))
