"""The compiled core against the slow literal simulator, over random worlds."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from simulator.causes import CODE
from simulator.engine import World
from tests.unit.simulator.engine.reference import Reference
from tests.unit.simulator.engine.worlds import causes, random_world, rows, run

UNTIL_NS = 400_000
seeds = st.integers(0, 2**32 - 1)


@given(seeds)
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
def test_spans_are_those_of_the_literal_simulator_and_causes_differ_by_rounding_only(seed: int) -> None:
    spec, plans = random_world(np.random.default_rng(seed))
    world = World(spec)
    run(world, plans, UNTIL_NS + 1)
    records = world.take()
    reference = Reference(spec, plans)
    reference.run(UNTIL_NS)
    assert rows(records.host) == sorted(reference.host)
    assert rows(records.device) == sorted(reference.device)
    expected = {(slot * spec.slot_ns, device, CODE[cause]): ns
                for (slot, device, cause), ns in reference.charged.items()}
    found = causes(records)
    assert all(abs(found.get(key, 0) - expected.get(key, 0.0)) < 1.1 for key in found.keys() | expected.keys())


@given(seeds, st.integers(1, 50_000))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_many_small_steps_give_the_records_of_one_run(seed: int, every_ns: int) -> None:
    spec, plans = random_world(np.random.default_rng(seed))
    once, often = World(spec), World(spec)
    run(once, plans, UNTIL_NS)
    run(often, plans, UNTIL_NS, max(every_ns, 700))
    a, b = once.take(), often.take()
    assert rows(a.host) == rows(b.host)
    assert rows(a.device) == rows(b.device)
    assert np.array_equal(a.slots.ns, b.slots.ns)
    assert np.array_equal(a.readings.values, b.readings.values)


@given(seeds)
@settings(max_examples=20, deadline=None, derandomize=True)
def test_the_causes_of_every_slot_sum_to_its_length_exactly(seed: int) -> None:
    spec, plans = random_world(np.random.default_rng(seed))
    world = World(spec)
    run(world, plans, UNTIL_NS + 1)
    slots = world.take().slots
    assert len(slots.start) == len(spec.devices) * UNTIL_NS // spec.slot_ns
    assert (slots.ns.sum(axis=1) == spec.slot_ns).all()
    assert (slots.ns >= 0).all()
