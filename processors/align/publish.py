"""What `align` publishes, as batches with headers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, Header, Part, StreamKey, from_rows, record_batch
from fleetscope.contracts.derived import (
    ALIGNED_COUNTERS,
    ALIGNED_INVENTORY,
    ALIGNED_SPANS,
    COVERAGE,
    DEAD_LETTERS,
    INCIDENTS,
)
from fleetscope.contracts.topics import (
    ALIGNED_TOPICS,
    COVERAGE_TOPIC,
    DEAD_LETTERS_TOPIC,
    INCIDENTS_TOPIC,
    SEGMENTS_TOPIC,
)
from fleetscope.incarnations import base_of
from fleetscope.step import Output
from processors.align.host import Host
from processors.align.progress import Beat, LaneKey, Restart, Tally
from processors.clocks.segments import Segment, segment_rows

MARKED: Final = (ALIGNED_SPANS, ALIGNED_COUNTERS, ALIGNED_INVENTORY, COVERAGE)
"""Kinds whose topics carry the host's watermark also while no rows come."""


def release_output(host: Host, batches: Sequence[Batch], rows: pa.RecordBatch, late_before_ns: int | None) -> Output:
    """Aligned rows of raw batches, one after the other: each keeps its identity as a part; the host's watermark."""
    first = batches[0].header
    name = f"aligned_{first.contract}"
    parts = tuple(_part(batch) for batch in batches)
    header = replace(first, contract=name, version=CONTRACTS[name].version, rows=rows.num_rows, row0=0, min_time=None,
                     max_time=None, dropped_rows=0, flushed_ticks=None, watermark_ns=host.progress.watermark,
                     late_before_ns=late_before_ns, parts=parts)
    return Output(ALIGNED_TOPICS[name].name, Batch(header, rows))


def _part(batch: Batch) -> Part:
    header = batch.header
    total = header.rows if header.row0 + len(batch) <= header.rows else None
    return Part(header.producer, header.epoch, header.clock, header.sequence, header.row0, len(batch), total)


def segment_output(host: Host, clock: str, segments: list[Segment]) -> Output:
    """Segments of a host-local clock."""
    rows = segment_rows(host.name, clock, host.name, "monotonic_raw", segments)
    header = _header(host, "segments", SEGMENTS_TOPIC.name, len(segments), clock)
    return Output(SEGMENTS_TOPIC.name, Batch(header, rows))


def coverage_row(host: Host, stream: StreamKey, tally: Tally, beat: Beat, at_ns: int) -> dict[str, object]:
    """What came of what one beat counts."""
    produced, received, dropped, lost = tally.account(beat)
    row: dict[str, object] = {
        "host": host.name, "source": stream.producer, "source_epoch": stream.epoch, "contract": stream.contract,
        "from_ns": at_ns if tally.counted_ns is None else tally.counted_ns, "to_ns": at_ns,
        "produced_rows": produced, "received_rows": received, "late_rows": tally.late,
        "redelivered_rows": tally.redelivered, "dropped_rows": dropped, "lost_rows": lost,
    }
    tally.late = tally.redelivered = 0
    tally.counted_ns = at_ns
    return row


def coverage_output(host: Host, rows: list[dict[str, object]]) -> Output:
    """Rows of the contract `coverage`."""
    header = replace(_header(host, "coverage", COVERAGE_TOPIC.name, len(rows)), watermark_ns=host.progress.watermark)
    return Output(COVERAGE_TOPIC.name, Batch(header, from_rows(COVERAGE, rows)))


def watermarks(host: Host, watermark_ns: int) -> list[Output]:
    """Empty batches that say how far the host has come."""
    return marked(host, [], watermark_ns)


def marked(host: Host, outputs: list[Output], watermark_ns: int) -> list[Output]:
    """``outputs`` and how far the host has come with them: said by the last one of each topic, which holds the rows
    before the watermark itself, or by an empty batch."""
    last = {output.topic: index for index, output in enumerate(outputs)}
    found = list(outputs)
    for contract in MARKED:
        topic = COVERAGE_TOPIC.name if contract is COVERAGE else ALIGNED_TOPICS[contract.name].name
        index = last.get(topic)
        if index is None:
            header = replace(_header(host, contract.name, f"{topic}#mark", 0), watermark_ns=watermark_ns)
            found.append(Output(topic, Batch(header, record_batch(contract, {}, 0))))
        else:
            batch = outputs[index].batch
            found[index] = Output(topic, replace(batch, header=replace(batch.header, watermark_ns=watermark_ns)))
    return found


def unplaced_output(host: Host, key: LaneKey, batch: Batch, reason: str) -> Output:
    """A batch that cannot be given a time."""
    origin = batch.origin
    row: dict[str, object] = {
        "topic": origin.topic if origin else f"raw.{key.contract}", "partition": origin.partition if origin else -1,
        "offset": origin.offset if origin else -1, "step": "align", "code": "no_fleet_time",
        "reason": f"{reason} for clock {key.clock} of {host.name}: no reading of UTC by any host it exchanges with",
        "rows": len(batch), "host": host.name, "size_bytes": int(batch.rows.nbytes), "time_ms": 0, "head": "",
    }
    header = _header(host, "dead_letters", DEAD_LETTERS_TOPIC.name, 1)
    return Output(DEAD_LETTERS_TOPIC.name, Batch(header, from_rows(DEAD_LETTERS, [row])))


def incident_output(host: Host, kind: str, start_ns: int, end_ns: int | None, severity: str, evidence: str, *,
                    revision: int = 0, device: str | None = None) -> Output:
    """An incident of the host itself, or of one of its devices."""
    row: dict[str, object] = {"host": host.name, "device": device, "kind": kind, "start_ns": start_ns, "end_ns": end_ns,
                              "revision": revision, "severity": severity, "evidence": evidence}
    header = _header(host, "incidents", INCIDENTS_TOPIC.name, 1)
    return Output(INCIDENTS_TOPIC.name, Batch(header, from_rows(INCIDENTS, [row])))


def restart_output(host: Host, restart: Restart, start_ns: int, end_ns: int) -> Output:
    """The incident of a producer that numbers anew in an epoch: between its last beat before and its first after."""
    evidence = {"producer": base_of(restart.producer), "epoch": restart.epoch, "stored_as": restart.producer,
                "detected_ns": end_ns}
    return incident_output(host, "sequence_restart", start_ns, end_ns, "warning", json.dumps(evidence, sort_keys=True))


def _header(host: Host, contract: str, numbered: str, rows: int, clock: str = "") -> Header:
    producer = f"align/{numbered}" if numbered.endswith("#mark") else "align"
    return Header(contract, CONTRACTS[contract].version, host.name, f"{producer}/{host.name}", 0,
                  host.next_sequence(numbered), rows, clock=clock)
