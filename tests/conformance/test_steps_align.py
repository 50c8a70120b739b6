"""`fleet_clocks` and `align` over a small simulated fleet."""

from __future__ import annotations

from functools import lru_cache

from fleetscope.contracts.codec import decode
from fleetscope.step import replay
from processors.align.step import AlignStep
from processors.clocks.fleet import FleetClockStep
from simulator.fleet import Fleet, FleetConfig
from simulator.scenario import load_scenario
from tests.conformance.step_suite import Case, Message, StepSuite
from tests.unit.simulator.faults.runs import faulty

START_NS = 1_790_000_000_000_000_000


@lru_cache(maxsize=1)
def published() -> tuple[Message, ...]:
    config = FleetConfig(2, 2, 0.6, 7, START_NS, load_scenario("serving"))
    found: list[Message] = []
    for publication in Fleet(config).publications():
        message = publication.message
        found.append((publication.topic, decode(message.key, message.value, message.headers)))
    return tuple(found)


def links() -> list[Message]:
    return [m for m in published() if m[0] == "raw.clock_links"]


class TestFleetClocks(StepSuite):
    def case(self) -> Case:
        return Case(FleetClockStep(), links())


class TestAlign(StepSuite):
    def case(self) -> Case:
        step = AlignStep()
        segments = replay(FleetClockStep(), [batch for _, batch in links()])
        broadcast = [(o.topic, o.batch) for o in segments if o.topic in step.broadcast]
        return Case(step, [*broadcast, *(m for m in published() if m[0] in step.inputs)])


@lru_cache(maxsize=1)
def begun_anew() -> tuple[Message, ...]:
    """Everything two hosts publish, whose agents number anew in their epoch amid it, for `align`."""
    config = faulty(collection={"events": [{"kind": "sequence_restart", "at_s": 1.1, "for_s": 0.2}]}, seconds=1.4)
    found: list[Message] = []
    for publication in Fleet(config).publications():
        message = publication.message
        found.append((publication.topic, decode(message.key, message.value, message.headers)))
    segments = replay(FleetClockStep(), [batch for topic, batch in found if topic == "raw.clock_links"])
    step = AlignStep()
    return (*((o.topic, o.batch) for o in segments if o.topic in step.broadcast),
            *(m for m in found if m[0] in step.inputs))


class TestAlignOfProducersThatNumberAnew(StepSuite):
    def case(self) -> Case:
        return Case(AlignStep(), begun_anew())

    def test_both_processes_are_in_the_rows(self) -> None:
        _, expected = self._plain()
        assert {str(key[2]).partition("~")[2] for key in expected if key[0] == "aligned.spans"} == {"", "2"}
