"""What goes wrong with clocks and probes: each recognised, named and counted, and no bound that does not hold."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.clocks.hull import OPEN, Assumptions, Node
from processors.clocks.pair import (
    EPOCH_REASONS,
    REFUSALS,
    Pair,
    PairRules,
    Rate,
    add_probes,
    advance,
    change_frequency,
    finish,
    restart,
)
from processors.clocks.probes import assumptions_for
from processors.clocks.segments import NO_BOUND, SegmentMap
from tests.unit.processors.clocks.models import HOST_START, NS, Model, fitted, free_running, holding, probes

RULES = PairRules()


def host(seconds: float) -> int:
    return HOST_START + round(seconds * NS)


def test_every_reason_that_is_counted_is_documented() -> None:
    assert not set(EPOCH_REASONS) & set(REFUSALS)
    assert all(text and text[0].islower() for text in (*EPOCH_REASONS.values(), *REFUSALS.values()))


def test_what_happens_is_an_event_until_it_is_taken() -> None:
    clock = Model(steps=[(round(10.5 * NS), 5_000_000)])
    pair = fitted(clock, probes(clock, random.Random(1), 0, 14), RULES)
    (event,) = pair.take_events()
    assert (event.reason, event.x) == ("step", pair.nodes[0].x)
    assert pair.take_events() == []
    assert pair.counts == {"step": 1}


@pytest.mark.parametrize("typical_ns", [700, 20_000])
@pytest.mark.parametrize("jump", [200_000, -200_000, 40 * NS, -40 * NS])
def test_a_step_shown_by_single_probes_is_found_at_the_second_of_them(jump: int, typical_ns: int) -> None:
    rng = random.Random(2)
    clock = Model(start_ns=100 * NS, ppm=12.0, steps=[(round(10.5 * NS), jump)])
    stream = probes(clock, rng, 0, 30, burst=1, typical_ns=typical_ns)
    pair = fitted(clock, stream[:11], RULES)
    assert pair.steps == 0
    add_probes(pair, stream[11:14], RULES)
    assert pair.steps == 1
    add_probes(pair, stream[14:], RULES)
    finish(pair, RULES)
    assert pair.steps == 1
    assert {s.epoch for s in pair.segments} == {0, 1}


def test_a_single_wrong_probe_is_an_outlier_and_no_step() -> None:
    clock = Model(ppm=-30.0)
    stream = probes(clock, random.Random(3), 0, 20, burst=1)
    right = fitted(clock, stream[:9] + stream[10:], RULES)
    for wrong in (stream[9]._replace(x=1), stream[9]._replace(x=1 << 61), stream[9]._replace(x=stream[9].x + 90_000)):
        pair = fitted(clock, [*stream[:9], wrong, *stream[10:]], RULES)
        assert pair.counts == {"outlier": 1}
        assert [s for s in pair.segments if s.valid_to <= stream[8].x] == \
            [s for s in right.segments if s.valid_to <= stream[8].x]


def test_a_suspect_that_nothing_follows_is_believed() -> None:
    clock = Model(steps=[(round(9.5 * NS), NS)])
    stream = probes(clock, random.Random(4), 0, 11, burst=1)
    pair = fitted(clock, stream, RULES)
    advance(pair, host(30), RULES)
    assert pair.counts == {"step": 1}


def test_a_host_that_reboots_is_recognised_by_where_its_probes_go_on() -> None:
    rng, rules = random.Random(5), PairRules()
    clock = Model(100_000_000, ppm=8.0)
    before = probes(clock, rng, 0, 12)
    after = [n._replace(lo=n.lo - HOST_START, hi=n.hi - HOST_START, local=n.local - HOST_START, x=n.x - 8_000_000_000)
             for n in probes(clock, rng, 20, 34)]
    alone = fitted(clock, [*before, *after], rules)
    told = fitted(clock, before, rules)
    restart(told, rules)
    add_probes(told, after, rules)
    for pair in (alone, told):
        finish(pair, rules)
        assert pair.counts == {"reboot": 1}
        newer = [s for s in pair.segments if s.epoch == 1]
        assert {s.state for s in newer} == {"settled", "provisional"}
        assert all(abs(s.at(s.valid_from) + HOST_START - host(20)) < 30 * NS for s in newer)
    assert alone.segments == told.segments


def test_old_probes_that_come_again_are_no_reboot() -> None:
    clock = Model()
    stream = probes(clock, random.Random(6), 0, 20)
    late = [n._replace(lo=n.lo - 1, hi=n.hi + 1, local=n.local + 1) for n in stream[8:16]]
    pair = fitted(clock, [*stream[:60], *late, *stream[60:]], RULES)
    assert pair.counts == {"disordered": 8}


@pytest.mark.parametrize("seed", range(4))
def test_probes_of_a_burst_in_any_order_make_the_same_map(seed: int) -> None:
    rng = random.Random(seed)
    clock = free_running(rng, NS)
    stream = probes(clock, rng, 0, 15, burst=8)
    mixed = [n for at in range(0, len(stream), 8) for n in rng.sample(stream[at:at + 8], 8)]
    pairs = [fitted(clock, given, RULES) for given in (stream, mixed)]
    for pair in pairs:
        finish(pair, RULES)
    assert pairs[0].segments == pairs[1].segments
    assert pairs[1].counts == {}


def test_known_changes_of_rate_are_no_steps_and_the_bound_holds_across_them() -> None:
    rng = random.Random(7)
    factors = {8.3: 0.4, 12.71: 1.0, 20.2: 0.6}

    class Scaled(Model):
        def read(self, at: int) -> int:
            shown, then, factor = self.start_ns, 0.0, 1.0
            for when, following in [*factors.items(), (1e9, 1.0)]:
                until = min(when, (at - HOST_START) / NS)
                shown += round((until - then) * NS * factor)
                if until < when:
                    break
                then, factor = when, following
            return shown

    clock = Scaled()
    stream: list[Node | Rate] = [*probes(clock, rng, 0, 30, burst=8)]
    rates = [Rate(clock.read(host(at)), round((f - 1) * NS), host(at)) for at, f in factors.items()]
    pair = Pair(NS)
    add_probes(pair, sorted([*stream, *rates], key=lambda a: a.local), RULES)
    finish(pair, RULES)
    assert pair.counts == {}
    errors = []
    for at in range(host(0.1), host(27), NS // 37):
        piece = holding(pair.segments, clock.read(at))
        assert piece is not None
        assert piece.err_ns is not None
        assert abs(piece.at(clock.read(at)) - at) <= piece.err_ns
        errors.append(piece.err_ns)
    assert np.median(errors) < 1_000
    untold = fitted(clock, [n for n in stream if isinstance(n, Node)], RULES)
    assert untold.steps >= 3


def test_a_change_of_rate_that_comes_late_begins_an_epoch() -> None:
    clock = Model()
    stream = probes(clock, random.Random(8), 0, 20)
    pair = fitted(clock, stream[:40], RULES)
    add_probes(pair, [Rate(stream[30].x, 100, stream[40].local - 1), *stream[40:]], RULES)
    assert pair.counts == {"late_rate": 1}


@pytest.mark.parametrize("ppb", [-NS, -999_999_999, 1 << 40])
def test_a_rate_that_cannot_be_is_absurd(ppb: int) -> None:
    clock = Model()
    stream = probes(clock, random.Random(9), 0, 6)
    pair = fitted(clock, stream, RULES)
    add_probes(pair, [Rate(stream[-1].x + 5, ppb, stream[-1].local + 5)], RULES)
    finish(pair, RULES)
    assert pair.counts == {"absurd": 1}


def test_another_frequency_begins_an_epoch() -> None:
    rng = random.Random(10)
    slow, fast = Model(100_000_000, ppm=5.0), Model(NS, ppm=5.0)
    pair = fitted(slow, probes(slow, rng, 0, 12), RULES)
    change_frequency(pair, NS, RULES)
    add_probes(pair, probes(fast, rng, 12, 25), RULES)
    finish(pair, RULES)
    assert pair.counts == {"hz_changed": 1}
    piece = holding([s for s in pair.segments if s.epoch == 1], fast.read(host(15.3)))
    assert piece is not None
    assert piece.err_ns is not None
    assert abs(piece.at(fast.read(host(15.3))) - host(15.3)) <= piece.err_ns


def test_one_sided_constraints_tighten_the_bound_and_never_break_it() -> None:
    rng = random.Random(11)
    clock = free_running(rng, NS)
    stream: list[Node | Rate] = list(probes(clock, rng, 0, 20, typical_ns=20_000))
    plain = fitted(clock, [n for n in stream if isinstance(n, Node)], RULES)
    for _ in range(400):
        at = host(rng.uniform(0.5, 19.5))
        near = rng.randrange(50, 2_000)
        stream.append(Node(clock.read(at), at - near, OPEN, at - near) if rng.random() < 0.5
                      else Node(clock.read(at), -OPEN, at + near, at + near))
    both = Pair(NS)
    add_probes(both, sorted(stream, key=lambda n: n.local), RULES)
    widths = []
    for pair in (plain, both):
        settled = [s for s in pair.segments if s.state == "settled"]
        widths.append(np.median([s.err_ns for s in settled]))
        for at in range(host(1), host(15), NS // 23):
            piece = holding(pair.segments, clock.read(at))
            assert piece is not None
            assert piece.err_ns is not None
            assert abs(piece.at(clock.read(at)) - at) <= piece.err_ns
    assert widths[1] < 0.5 * widths[0]
    assert both.counts == {}


def test_an_order_of_events_that_cannot_be_is_named_and_changes_nothing() -> None:
    clock = Model()
    stream = probes(clock, random.Random(12), 0, 20)
    late = Node(clock.read(host(10.5)), host(10.5) + 60_000, OPEN, host(10.5))
    plain = fitted(clock, stream, RULES)
    broken = Pair(NS)
    add_probes(broken, sorted([*stream, late], key=lambda n: n.local), RULES)
    assert broken.counts == {"causality": 1}
    assert broken.segments == plain.segments


def test_warm_up_and_temperature_within_what_is_assumed_are_no_steps() -> None:
    rng = random.Random(13)
    assumed = Assumptions()
    assert assumed.curvature_per_s is not None
    period = 30.0
    wander = 0.95 * assumed.curvature_per_s * NS / (2 * np.pi / period) ** 2
    clock = Model(NS, ppm=20.0, wander_ns=wander, period_s=period)
    pair = fitted(clock, probes(clock, rng, 0, 90, burst=8), RULES)
    assert pair.counts == {}


def test_a_disciplined_clock_may_change_its_rate_at_any_time_within_rho() -> None:
    rules = PairRules(assumptions_for("realtime"), steady_source=True)
    pair, shown = Pair(NS), HOST_START
    rng = random.Random(14)
    for second in range(60):
        at = second * NS
        shown += NS + round(rng.uniform(-95, 95) * 1_000) if second else 0
        add_probes(pair, [Node(at, shown - 60, shown + 60, shown)], rules)
    assert pair.counts == {}


def test_two_devices_with_one_epoch_have_maps_of_their_own() -> None:
    rng = random.Random(15)
    clocks = [Model(NS, 77 * NS, ppm) for ppm in (30.0, -30.0)]
    pairs = [fitted(clock, probes(clock, rng, 0, 20), RULES) for clock in clocks]
    maps = [SegmentMap(pair.take()) for pair in pairs]
    at = host(12.3)
    for clock, found in zip(clocks, maps, strict=True):
        tick = np.array([clock.read(at)])
        mapped = found.apply(tick, tick)
        assert abs(int(mapped.time[0]) - at) <= mapped.err_ns[0] != NO_BOUND


@settings(max_examples=40, deadline=None)
@given(st.sampled_from([0, (1 << 62) - 2 * 3_600 * NS]), st.sampled_from([1, (1 << 62) - 2 * 3_600 * NS]),
       st.floats(-90, 90), st.lists(st.integers(1, 1_200), min_size=2, max_size=5))
def test_hours_of_silence_and_times_near_2_to_the_62_overflow_nowhere(
        source: int, target: int, ppm: float, waits_s: list[int]) -> None:
    pair, seconds = Pair(NS), 0
    for wait in [1, 1, 1, *waits_s, 1, 1, 1]:
        seconds += wait
        passed = seconds * NS
        x = source + passed + round(passed * ppm * 1e-6)
        add_probes(pair, [Node(x, target + passed - 500, target + passed + 500, target + passed + 500)], RULES)
    finish(pair, RULES)
    assert pair.counts == {}
    found = SegmentMap(pair.take())
    passed = np.arange(0, seconds, max(seconds // 300, 1), dtype=np.int64) * NS + 5 * NS // 7
    ticks = source + passed + np.rint(passed * (ppm * 1e-6)).astype(np.int64)
    mapped = found.apply(ticks, ticks + 3_600 * NS)
    assert (mapped.err_ns >= 0).all()
    assert (np.abs(mapped.time - (target + passed)) <= mapped.err_ns + 2).all()
    # Where a long silence ends the map turns to what is known again, which bends it.
    assert (np.abs(mapped.end - mapped.time - 3_600 * NS) < 360 * NS).all()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(-(1 << 62), 1 << 62), st.integers(-(1 << 62), 1 << 62),
                          st.integers(0, 1 << 40)), min_size=1, max_size=12), st.sampled_from([32, 64]))
def test_any_stamps_whatever_end_with_a_map_or_without_one(
        stamps: list[tuple[int, int, int]], bits: int) -> None:
    pair = Pair(NS, bits)
    for x, lo, width in stamps:
        add_probes(pair, [Node(x, lo, lo + width, lo + width)], RULES)
    finish(pair, RULES)
    assert len(pair.take()) < 5_000
    again = Pair.of_plain(pair.plain())
    assert again.plain() == pair.plain()


def test_a_clock_that_stood_gets_no_bound_from_when_it_stood_however_little_it_lost() -> None:
    stood = HOST_START + 10 * NS
    stream = [n for n in probes(Model(), random.Random(16), 0, 10, burst=8) if n.local < stood]
    still = [stream[-1]._replace(lo=at, hi=at + 900, local=at + 900, at=at + 900)
             for at in range(stood, stood + 40_000, 5_000)]
    lost = still[-1].local - (HOST_START + stream[-1].x - Model().start_ns) + 60_000
    after = [n._replace(x=n.x - lost) for n in probes(Model(), random.Random(17), 11, 20, burst=8)]
    pair = fitted(Model(), [*stream, *still, *after], RULES)
    assert pair.counts == {"stuck": 1, "step": 1}
    bounded = [s for s in pair.segments if s.err_ns is not None and s.valid_to > still[-1].x]
    assert min(s.valid_from for s in bounded) >= after[0].x
