"""The pipeline as one table. Read this first.

    raw.*, raw.clock_links ──▶ steps ──▶ topics ──▶ writers ──▶ tables
                                  ▲  late_windows ──▶ revise ◀──┘
                                  └───── windows ◀──────┘

A step consumes its inputs by partition (all topics keyed by host, so partition p of each belongs to one worker), reads
its broadcast topics whole, and publishes to topics. Writers fill one table each; no table has two writers. `revise`
accounts for closed windows again that something late belongs to, from the store.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from fleetscope.contracts.topics import (
    ALIGNED_TOPICS,
    CAUSALITY_TOPIC,
    COLLECTIVE_WAITS_TOPIC,
    COVERAGE_TOPIC,
    DEAD_LETTERS_TOPIC,
    FLEET_SEGMENTS,
    INCIDENTS_TOPIC,
    JOB_WINDOWS_TOPIC,
    OPERATORS_TOPIC,
    SEGMENTS_TOPIC,
    TELEMETRY_TOPIC,
    VERDICTS_TOPIC,
    WINDOWS_TOPIC,
)
from fleetscope.settings import PipelineSettings
from fleetscope.step import Step
from processors.align.step import AlignStep
from processors.bottleneck.step import BottleneckStep
from processors.causality.step import CausalityStep
from processors.clocks.fleet import FleetClockStep
from processors.clocks.pair import PairRules
from processors.counters.step import CountersStep
from processors.jobs.ranks import JobRanksStep
from processors.jobs.shares import JobSharesStep
from processors.jobs.step import JobsStep
from processors.jobs.stragglers import StragglersStep
from processors.operators.step import OperatorsStep
from processors.silence.step import SilenceStep
from processors.windows.step import WindowsStep
from processors.writer import Target


@dataclass(frozen=True, slots=True)
class StepSpec:
    """A step by name, how it is made of the settings, and one line for people."""

    name: str
    make: Callable[[PipelineSettings], Step[Any]]
    doc: str
    commit_interval_s: float | None = None
    """At most; others wait for what this step says."""


@dataclass(frozen=True, slots=True)
class WriteSpec:
    """A writer: its topics, and where the rows of each go."""

    name: str
    targets: dict[str, Target]


def _rules(settings: PipelineSettings) -> PairRules:
    return PairRules(limit_s=settings.settle_limit_s)


def windows_step(settings: PipelineSettings) -> WindowsStep:
    """The step that closes windows; `revise` closes them again with the same thresholds."""
    return WindowsStep(window_ns=settings.window_ms * 1_000_000)


STEPS: Final = (
    StepSpec("fleet_clocks", lambda s: FleetClockStep(rules=_rules(s)),
             "host clocks to fleet time: election, slewed UTC map, host-to-host bounds", commit_interval_s=0.2),
    StepSpec("silence", lambda s: SilenceStep(),
             "which hosts are silent, by the time of the others", commit_interval_s=0.2),
    StepSpec("align", lambda s: AlignStep(rules=_rules(s), lateness_s=s.allowed_lateness_s),
             "every row gets its fleet time and an error bound, once"),
    StepSpec("windows", windows_step, "every nanosecond of a device's window in exactly one state"),
    StepSpec("bottleneck", lambda s: BottleneckStep(), "what limits each window, with its share and limits"),
    StepSpec("counters", lambda s: CountersStep(), "what counters say of themselves and of their devices"),
    StepSpec("causality", lambda s: CausalityStep(), "what happened in an order that the clocks' bounds exclude"),
    StepSpec("operators", lambda s: OperatorsStep(), "calls, lengths, work and limits of each operator, by device"),
    StepSpec("job_shares", lambda s: JobSharesStep(), "windows of devices, handed on to their jobs"),
    StepSpec("job_ranks", lambda s: JobRanksStep(window_ns=s.window_ms * 1_000_000),
             "arrivals in collectives and lengths of kernels, handed on to their jobs"),
    StepSpec("jobs", lambda s: JobsStep(), "the accounting of a job over all its hosts, and what limits it"),
    StepSpec("stragglers", lambda s: StragglersStep(window_ns=s.window_ms * 1_000_000),
             "ranks that hold up their job, and why"),
)

_SPANS: Final = "aligned.spans"

WRITES: Final = (
    WriteSpec("write-spans", {_SPANS: Target("spans")}),
    WriteSpec("write-readings", {t.name: Target(t.name.removeprefix("aligned.")) for t in ALIGNED_TOPICS.values()
                                 if t.name != _SPANS}),
    WriteSpec("write-results", {
        SEGMENTS_TOPIC.name: Target("segments", "target_clock != 'fleet'"),
        FLEET_SEGMENTS.name: Target("segments", "target_clock = 'fleet'"),
        **{t.name: Target(t.name) for t in (WINDOWS_TOPIC, VERDICTS_TOPIC, INCIDENTS_TOPIC, CAUSALITY_TOPIC,
                                            COVERAGE_TOPIC, DEAD_LETTERS_TOPIC, TELEMETRY_TOPIC, JOB_WINDOWS_TOPIC,
                                            COLLECTIVE_WAITS_TOPIC, OPERATORS_TOPIC)},
    }),
)

REVISE: Final = "revise"

UNITS: Final = (*(s.name for s in STEPS), REVISE, *(w.name for w in WRITES))
"""Names that `fleetscope process` takes, in the order of the flow."""
