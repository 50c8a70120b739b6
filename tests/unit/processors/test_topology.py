"""The pipeline's table is consistent in itself."""

from __future__ import annotations

from collections import Counter

from fleetscope.contracts.topics import ALIGNED_TOPICS, CLOCK_LINKS, DEAD_LETTERS_TOPIC, FLEET_SEGMENTS, RAW_TOPICS
from fleetscope.settings import PipelineSettings
from processors.align.step import AlignStep
from processors.clocks.fleet import FleetClockStep
from processors.topology import STEPS, UNITS, WRITES

MADE = {spec.name: spec.make(PipelineSettings()) for spec in STEPS}


def test_every_step_is_called_as_the_table_says() -> None:
    assert {name: step.name for name, step in MADE.items()} == {name: name for name in MADE}
    assert all(spec.doc for spec in STEPS)


def test_no_table_has_two_writers() -> None:
    writers: dict[str, set[str]] = {}
    for spec in WRITES:
        for target in spec.targets.values():
            writers.setdefault(target.table, set()).add(spec.name)
    assert {table: names for table, names in writers.items() if len(names) > 1} == {}


def test_no_topic_is_stored_twice_and_topics_of_one_table_are_told_apart() -> None:
    topics = Counter(topic for spec in WRITES for topic in spec.targets)
    assert {topic for topic, count in topics.items() if count > 1} == set()
    places = Counter((target.table, target.condition) for spec in WRITES for target in spec.targets.values())
    assert {place for place, count in places.items() if count > 1} == set()


def test_every_raw_topic_has_a_step_that_reads_it() -> None:
    read = {topic for step in MADE.values() for topic in step.inputs}
    assert {t.name for t in RAW_TOPICS.values()} | {CLOCK_LINKS.name} <= read


def test_every_aligned_topic_and_every_dead_letter_is_stored() -> None:
    stored = {topic for spec in WRITES for topic in spec.targets}
    assert {t.name for t in ALIGNED_TOPICS.values()} | {DEAD_LETTERS_TOPIC.name, FLEET_SEGMENTS.name} <= stored


def test_steps_and_writers_are_units_in_the_order_of_the_flow() -> None:
    known = [*(s.name for s in STEPS), *(w.name for w in WRITES)]
    assert [unit for unit in UNITS if unit in known] == known
    assert len(set(UNITS)) == len(UNITS)


def test_settings_reach_the_steps() -> None:
    settings = PipelineSettings(settle_limit_s=7.5, allowed_lateness_s=33.0)
    made = {spec.name: spec.make(settings) for spec in STEPS}
    align, fleet = made["align"], made["fleet_clocks"]
    assert isinstance(align, AlignStep)
    assert isinstance(fleet, FleetClockStep)
    assert (align.rules.limit_s, align.lateness_s, fleet.rules.limit_s) == (7.5, 33.0, 7.5)
