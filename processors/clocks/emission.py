"""Decided pieces of the hosts' maps as messages: those of many hosts stand in one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa

from fleetscope.contracts.batch import Batch, Header, constant_symbol, from_rows, record_batch, symbol_array
from fleetscope.contracts.derived import INCIDENTS, SEGMENTS
from fleetscope.contracts.topics import FLEET_SEGMENTS, INCIDENTS_TOPIC
from fleetscope.step import Output
from processors.clocks.fleet_state import FleetState, Group, Incident
from processors.clocks.segments import Segment, segments_of

RAW_CLOCK: Final = "monotonic_raw"
FLEET_CLOCK: Final = "fleet"
PRODUCER: Final = "fleet_clocks"
MAX_ROWS: Final = 8_192
SEVERITY: Final = {"clock_contradiction": "warning", "clock_partition": "warning", "clock_utc_outvoted": "warning",
                   "clock_utc_disputed": "warning", "clock_without_utc": "warning", "clock_reference_changed": "info"}


@dataclass(slots=True)
class Sink:
    """What is decided while a message is handled: (host, reference, piece), and rows of incidents by host."""

    pieces: list[tuple[str, str, Segment]] = field(default_factory=list)
    incidents: list[tuple[Incident, bool]] = field(default_factory=list)

    def outputs(self, state: FleetState) -> list[Output]:
        """Everything as messages, numbered on."""
        found = [_segments(state, self.pieces[at:at + MAX_ROWS]) for at in range(0, len(self.pieces), MAX_ROWS)]
        found += [_incident(state, incident, over) for incident, over in self.incidents]
        self.pieces, self.incidents = [], []
        return found

    def begin(self, group: Group, incident: Incident) -> None:
        """An incident of the group has begun."""
        group.incidents.append(incident)
        self.incidents.append((incident, False))

    def over(self, group: Group, incident: Incident) -> None:
        """It is over."""
        group.incidents.remove(incident)
        self.incidents.append((incident, True))


def _next(state: FleetState, contract: str) -> int:
    number = state.sequences.get(contract, 0)
    state.sequences[contract] = number + 1
    return number


def _segments(state: FleetState, found: list[tuple[str, str, Segment]]) -> Output:
    count = len(found)
    segments = [s for _, _, s in found]

    def ints(name: str) -> pa.Array:
        return pa.array([getattr(s, name) for s in segments], pa.int64())

    rows = record_batch(SEGMENTS, {
        "host": symbol_array([h for h, _, _ in found]), "clock": constant_symbol(RAW_CLOCK, count),
        "target_host": symbol_array([r for _, r, _ in found]), "target_clock": constant_symbol(FLEET_CLOCK, count),
        "epoch": ints("epoch"), "version": pa.array([0] * count, pa.int64()),
        "valid_from_ticks": ints("valid_from"), "valid_to_ticks": ints("valid_to"), "src0_ticks": ints("src0"),
        "dst0_ticks": ints("dst0"), "rate_q32": ints("rate_q32"), "err_ns": ints("err_ns"),
        "utc_err_ns": ints("utc_err_ns"), "state": symbol_array([s.state for s in segments]),
        "settled_at_ticks": ints("decided_at"),
    }, count)
    header = Header("segments", 1, found[0][1], PRODUCER, 0, _next(state, "segments"), count, clock=RAW_CLOCK)
    return Output(FLEET_SEGMENTS.name, Batch(header, rows))


def segments_by_host(rows: pa.RecordBatch) -> Iterator[tuple[str, list[Segment]]]:
    """Rows of the contract `segments` as pieces of each host, both in their order."""
    found: dict[str, list[Segment]] = {}
    for host, segment in zip(rows.column("host").to_pylist(), segments_of(rows), strict=True):
        found.setdefault(host, []).append(segment)
    yield from found.items()


def _incident(state: FleetState, incident: Incident, over: bool) -> Output:
    row: dict[str, object] = {
        "host": incident.host, "device": None, "kind": incident.kind, "start_ns": incident.start_ns,
        "end_ns": incident.last_ns if over else None, "revision": 1 if over else 0,
        "severity": SEVERITY[incident.kind], "evidence": json.dumps(incident.evidence, sort_keys=True)}
    header = Header("incidents", 1, incident.host, f"{PRODUCER}/{incident.host}", 0,
                    _next(state, f"incidents/{incident.host}"), 1, min_time=incident.start_ns,
                    max_time=incident.start_ns)
    return Output(INCIDENTS_TOPIC.name, Batch(header, from_rows(INCIDENTS, [row])))
