"""A producer that numbers anew in its epoch is still heard by the fleet clock step."""

from __future__ import annotations

from dataclasses import replace

from fleetscope.contracts.batch import Batch
from fleetscope.step import replay
from processors.clocks.fleet import FleetClockStep
from tests.unit.processors.clocks.fleets import NS, Fleet, TrueHost, maps


def sent(*, anew: bool) -> list[Batch]:
    """Two hosts for 20 s; ``anew``: b begins to number again after 10 s. Batches say when they were sent."""
    made = Fleet({"a": TrueHost("a", 10**15, 31.0), "b": TrueHost("b", 2 * 10**15, -44.0)}, [("b", "a")])
    found: list[Batch] = []
    for second in range(20):
        if anew and second == 10:
            for key in [key for key in made.sequences if key[0] == "b/1"]:
                made.sequences[key] = 0
        made.second(second)
        new, made.batches = made.batches, []
        now = second * NS + NS // 2
        found += [replace(b, header=replace(b.header, flushed_ticks=made.hosts[b.header.host].raw(now))) for b in new]
    return found


def test_samples_and_beats_after_it_are_no_repeats() -> None:
    step = FleetClockStep()
    plain, again = (maps(replay(step, sent(anew=anew), end=False)) for anew in (False, True))
    assert again["b"].segments == plain["b"].segments
    assert len(plain["b"].segments) > 10


def test_a_restart_after_it_changes_nothing() -> None:
    step = FleetClockStep()
    batches = sent(anew=True)
    state, outputs = step.start(), []
    for number, batch in enumerate(batches):
        state, out = step.on_batch(state, batch)
        outputs += out
        if number % 9 == 0:
            state = step.restore(step.snapshot(state))
    assert maps(outputs)["b"].segments == maps(replay(step, batches, end=False))["b"].segments
