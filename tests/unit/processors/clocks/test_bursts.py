"""Probes of a burst: unwrapped, merged, wrong ones left out, as coarse as the counter."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.clocks.bursts import merged, unwrapped
from processors.clocks.hull import Node
from processors.clocks.pair import Pair, PairRules, add_probes, finish
from tests.unit.processors.clocks.models import HOST_START, NS, Model, probe, probes

RULES = PairRules()


@given(st.sampled_from([16, 32, 48]), st.integers(0, 1 << 55), st.integers(1, 1 << 50), st.floats(-90e-6, 90e-6))
def test_a_tick_is_unwrapped_wherever_half_a_period_is_more_than_the_doubt(
        bits: int, seen: int, passed: int, rate: float) -> None:
    pair = Pair(NS, bits)
    pair.seen = seen, HOST_START
    now = seen + passed + int(passed * rate)
    found = unwrapped(pair, now & ((1 << bits) - 1), HOST_START + passed, RULES)
    assert pair.forced == "wrap" or found == now
    assert pair.forced is None or passed * 100e-6 + NS // 100 >= (1 << bits) // 2 - 1


@pytest.mark.parametrize("face", [-1, 1 << 32, 1 << 61])
def test_a_stamp_that_the_counter_cannot_show_is_absurd(face: int) -> None:
    pair = Pair(NS, 32)
    good = [Node(5 * NS % (1 << 32) + k * 10_000, k * 10_000 - 400, k * 10_000 + 400, k * 10_000) for k in range(4)]
    add_probes(pair, [*good, good[-1]._replace(x=face, local=35_000)], RULES)
    finish(pair, RULES)
    assert pair.counts == {"absurd": 1}


def test_the_larger_group_that_agrees_is_taken_and_the_rest_is_counted() -> None:
    clock = Model(NS)
    good = [probe(clock, HOST_START + k * 5_000, 400, 500) for k in range(5)]
    wrong = [g._replace(x=x) for g, x in zip(good, (1, 1 << 61), strict=False)]
    pair = Pair(NS)
    node, agreeing = merged(pair, [wrong[0], *good, wrong[1]], RULES)
    assert agreeing == 5
    assert node.lo <= HOST_START + (node.x - clock.start_ns) <= node.hi
    assert pair.counts == {"outlier": 2}


def test_of_groups_of_one_size_the_one_that_fits_the_nodes_before_is_taken() -> None:
    clock = Model(NS)
    pair = Pair(NS)
    pair.append(probe(clock, HOST_START, 400, 500))
    later = probe(clock, HOST_START + NS, 400, 500)
    assert merged(pair, [later._replace(x=99), later], RULES) == (later, 1)


def test_a_clock_that_shows_one_tick_throughout_a_burst_stands() -> None:
    clock = Model(NS, stuck_at=0)
    same = [probe(clock, HOST_START + k * 5_000, 400, 500) for k in range(6)]
    assert merged(Pair(NS), same, RULES) == (same[-1], 0)
    assert merged(Pair(NS), [same[0]._replace(x=1), *same], RULES) == (same[-1], 0)


def test_a_counter_that_advances_by_many_ticks_is_as_coarse_as_that() -> None:
    rng, coarse = random.Random(3), 1_000

    class Coarse(Model):
        def read(self, at: int) -> int:
            tick = super().read(at)
            return tick - tick % coarse

    clock = Coarse(NS, ppm=20.0)
    pair = Pair(NS)
    add_probes(pair, probes(clock, rng, 0, 20, burst=8, typical_ns=100), RULES)
    assert (pair.tick_ns, pair.steps) == (coarse, 0)
    for segment in pair.take():
        if segment.state != "settled":
            continue
        for share in (0.1, 0.5, 0.9):
            at = segment.at(segment.valid_from + round(share * (segment.valid_to - segment.valid_from)))
            tick = clock.read(at)
            assert segment.err_ns is not None
            assert abs(segment.at(tick) - at) <= segment.err_ns


def test_regular_probes_do_not_make_a_counter_coarse() -> None:
    pair = Pair(NS)
    add_probes(pair, [Node(k * 5_000, k * 5_000 - 400, k * 5_000 + 400, k * 5_000 + 400) for k in range(1, 12)], RULES)
    finish(pair, RULES)
    assert pair.tick_ns == 1
