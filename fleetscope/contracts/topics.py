"""The topics, what they carry and how they are kept. Names get the prefix of the settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from fleetscope.contracts.derived import (
    ALIGNED,
    CAUSALITY_VIOLATIONS,
    COVERAGE,
    DEAD_LETTERS,
    INCIDENTS,
    JOB_SHARES,
    JOB_WINDOWS,
    LATE_WINDOWS,
    SEGMENTS,
    SILENCES,
    TELEMETRY,
    VERDICTS,
    WINDOWS,
)
from fleetscope.contracts.jobs import COLLECTIVE_WAITS, JOB_ARRIVALS, JOB_KERNELS, OPERATORS
from fleetscope.contracts.raw import CLOCK_SAMPLES, HEARTBEATS, RAW

Cleanup = Literal["delete", "compact"]


@dataclass(frozen=True, slots=True)
class Topic:
    """``partitions`` 0 means: as many as the settings say (keyed by host), else exactly that many."""

    name: str
    contracts: tuple[str, ...]
    partitions: int = 0
    retention_hours: int = 24
    cleanup: Cleanup = "delete"
    max_message_bytes: int = 1024 * 1024
    doc: str = ""


_BESIDE: Final = {HEARTBEATS.name: (SILENCES.name,)}
"""What steps say in a log of producers."""
RAW_TOPICS: Final = {c.name: Topic(f"raw.{c.name}", (c.name, *_BESIDE.get(c.name, ())), doc=c.doc) for c in RAW}
CLOCK_LINKS: Final = Topic("raw.clock_links", (CLOCK_SAMPLES.name, HEARTBEATS.name), partitions=1,
                           doc="Host-to-host exchanges and each host's reading of UTC, for the one fleet clock step.")
ALIGNED_TOPICS: Final = {
    c.name: Topic(c.name.replace("aligned_", "aligned."), (c.name,), retention_hours=48, doc=c.doc) for c in ALIGNED
}
SEGMENTS_TOPIC: Final = Topic("segments", (SEGMENTS.name,), doc="Host-local clock segments.")
FLEET_SEGMENTS: Final = Topic("fleet_segments", (SEGMENTS.name,), partitions=1,
                              doc="Host clocks to fleet time; every align worker reads all of it.")
WINDOWS_TOPIC: Final = Topic("windows", (WINDOWS.name,), retention_hours=72, doc=WINDOWS.doc)
LATE_WINDOWS_TOPIC: Final = Topic("late_windows", (LATE_WINDOWS.name,), retention_hours=72, doc=LATE_WINDOWS.doc)
VERDICTS_TOPIC: Final = Topic("verdicts", (VERDICTS.name,), retention_hours=72, doc=VERDICTS.doc)
INCIDENTS_TOPIC: Final = Topic("incidents", (INCIDENTS.name,), retention_hours=72, doc=INCIDENTS.doc)
CAUSALITY_TOPIC: Final = Topic(CAUSALITY_VIOLATIONS.name, (CAUSALITY_VIOLATIONS.name,), retention_hours=72,
                               doc=CAUSALITY_VIOLATIONS.doc)
JOB_SHARES_TOPIC: Final = Topic(JOB_SHARES.name, (JOB_SHARES.name,), doc=JOB_SHARES.doc)
JOB_RANKS_TOPIC: Final = Topic("job_ranks", (JOB_ARRIVALS.name, JOB_KERNELS.name),
                               doc="When devices enter the collectives of a job, and how long their kernels take; the "
                                   "key is the job.")
JOB_WINDOWS_TOPIC: Final = Topic(JOB_WINDOWS.name, (JOB_WINDOWS.name,), retention_hours=72, doc=JOB_WINDOWS.doc)
COLLECTIVE_WAITS_TOPIC: Final = Topic(COLLECTIVE_WAITS.name, (COLLECTIVE_WAITS.name,), retention_hours=72,
                                      doc=COLLECTIVE_WAITS.doc)
OPERATORS_TOPIC: Final = Topic(OPERATORS.name, (OPERATORS.name,), retention_hours=72, doc=OPERATORS.doc)
COVERAGE_TOPIC: Final = Topic("coverage", (COVERAGE.name,), retention_hours=48, doc=COVERAGE.doc)
DEAD_LETTERS_TOPIC: Final = Topic("dead_letters", (DEAD_LETTERS.name,), partitions=1, retention_hours=168,
                                  doc=DEAD_LETTERS.doc)
TELEMETRY_TOPIC: Final = Topic("telemetry", (TELEMETRY.name,), partitions=1, doc=TELEMETRY.doc)
SNAPSHOTS: Final = Topic("snapshots", (), cleanup="compact", max_message_bytes=16 * 1024 * 1024,
                         doc="State of every step, keyed step/partition.")

TOPICS: Final = (*RAW_TOPICS.values(), CLOCK_LINKS, *ALIGNED_TOPICS.values(), SEGMENTS_TOPIC, FLEET_SEGMENTS,
                 WINDOWS_TOPIC, LATE_WINDOWS_TOPIC, VERDICTS_TOPIC, INCIDENTS_TOPIC, CAUSALITY_TOPIC,
                 COVERAGE_TOPIC, DEAD_LETTERS_TOPIC, TELEMETRY_TOPIC, JOB_SHARES_TOPIC, JOB_RANKS_TOPIC,
                 JOB_WINDOWS_TOPIC, COLLECTIVE_WAITS_TOPIC, OPERATORS_TOPIC, SNAPSHOTS)
BY_NAME: Final = {t.name: t for t in TOPICS}
