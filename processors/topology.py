"""The pipeline as one table. Read this first.

    raw.*, raw.clock_links ──▶ steps ──▶ topics ──▶ writers ──▶ tables

A step consumes its inputs by partition (all topics keyed by host, so partition p of each belongs to one worker), reads
its broadcast topics whole, and publishes to topics. Writers fill one table each; no table has two writers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from fleetscope.contracts.topics import (
    ALIGNED_TOPICS,
    COVERAGE_TOPIC,
    DEAD_LETTERS_TOPIC,
    FLEET_SEGMENTS,
    INCIDENTS_TOPIC,
    SEGMENTS_TOPIC,
    TELEMETRY_TOPIC,
    VERDICTS_TOPIC,
    WINDOWS_TOPIC,
)
from fleetscope.settings import PipelineSettings
from fleetscope.step import Step
from processors.align.step import AlignStep
from processors.bottleneck.step import BottleneckStep
from processors.clocks.fleet import FleetClockStep
from processors.clocks.pair import PairRules
from processors.windows.step import WindowsStep


@dataclass(frozen=True, slots=True)
class StepSpec:
    """A step by name, how it is made of the settings, and one line for people."""

    name: str
    make: Callable[[PipelineSettings], Step[Any]]
    doc: str


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """A table and the topics that fill it, each with the condition its rows fulfil in the table."""

    table: str
    topics: dict[str, str]
    heavy: bool = False


def _rules(settings: PipelineSettings) -> PairRules:
    return PairRules(limit_s=settings.settle_limit_s)


STEPS: Final = (
    StepSpec("fleet_clocks", lambda s: FleetClockStep(rules=_rules(s)),
             "host clocks to fleet time: election, slewed UTC map, host-to-host bounds"),
    StepSpec("align", lambda s: AlignStep(rules=_rules(s), lateness_s=s.allowed_lateness_s),
             "every row gets its fleet time and an error bound, once"),
    StepSpec("windows", lambda s: WindowsStep(window_ns=s.window_ms * 1_000_000),
             "every nanosecond of a device's window in exactly one state"),
    StepSpec("bottleneck", lambda s: BottleneckStep(), "what limits each window, with its share and limits"),
)

_ANY: Final = "1"

WRITES: Final = (
    *(WriteSpec(t.name.removeprefix("aligned."), {t.name: _ANY}, heavy=t.name == "aligned.spans")
      for t in ALIGNED_TOPICS.values()),
    WriteSpec("segments", {SEGMENTS_TOPIC.name: "target_clock != 'fleet'",
                           FLEET_SEGMENTS.name: "target_clock = 'fleet'"}),
    WriteSpec("windows", {WINDOWS_TOPIC.name: _ANY}),
    WriteSpec("verdicts", {VERDICTS_TOPIC.name: _ANY}),
    WriteSpec("incidents", {INCIDENTS_TOPIC.name: _ANY}),
    WriteSpec("coverage", {COVERAGE_TOPIC.name: _ANY}),
    WriteSpec("dead_letters", {DEAD_LETTERS_TOPIC.name: _ANY}),
    WriteSpec("telemetry", {TELEMETRY_TOPIC.name: _ANY}),
)

UNITS: Final = (*(s.name for s in STEPS), *(f"write-{w.table}" for w in WRITES))
"""Names that `fleetscope process` takes, in the order of the flow."""
