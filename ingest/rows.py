"""Readings, facts and exchanges as rows of their contracts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from fleetscope.contracts.batch import from_rows, record_batch, symbol_array
from fleetscope.contracts.counters import CounterDescriptor, attributes
from fleetscope.contracts.raw import CLOCK_SAMPLES, COUNTERS, INVENTORY, MARKS
from ingest.clocks import HZ, REFERENCE
from ingest.reading import Fact, Reading
from ingest.sampling import Sample


def counter_rows(readings: Sequence[tuple[int, Reading]]) -> pa.RecordBatch:
    """(ticks, reading) pairs as counters rows."""
    return record_batch(COUNTERS, {
        "device": symbol_array([r.device for _, r in readings]),
        "counter": symbol_array([r.counter for _, r in readings]),
        "instance": symbol_array([r.instance for _, r in readings]),
        "time_ticks": pa.array([ticks for ticks, _ in readings], pa.int64()),
        "raw": pa.array([r.raw for _, r in readings], pa.int64()),
        "value": pa.array([r.value for _, r in readings], pa.float64()),
        "status": symbol_array([r.status for _, r in readings]),
    }, len(readings))


def inventory_rows(facts: Sequence[Fact], ticks: int) -> pa.RecordBatch:
    """Facts read at ``ticks`` as inventory rows."""
    return from_rows(INVENTORY, [
        {"time_ticks": ticks, "kind": fact.kind, "component": fact.component, "parent": fact.parent,
         "attribute": fact.attribute, "text": fact.text, "number": fact.number, "unit": fact.unit} for fact in facts])


def sample_rows(samples: Sequence[Sample]) -> pa.RecordBatch:
    """Samples as clock_samples rows; all clocks count ns."""
    return from_rows(CLOCK_SAMPLES, [
        {"kind": s.kind, "local_clock": REFERENCE, "remote_host": s.host, "remote_clock": s.clock,
         "local_before_ticks": s.before, "remote_first_ticks": s.first, "remote_last_ticks": s.last,
         "local_after_ticks": s.after, "local_hz": HZ, "remote_hz": HZ, "rate_ppb": s.rate_ppb} for s in samples])


def suspend_rows(slept: Sequence[tuple[int, int]]) -> pa.RecordBatch:
    """(ticks when noticed, ns slept) as marks."""
    return from_rows(MARKS, [
        {"time_ticks": ticks, "kind": "note", "subject": "host", "name": "suspend",
         "detail": f"asleep for {ns / HZ:.3f} s"} for ticks, ns in slept])


def descriptor_facts(descriptors: Sequence[CounterDescriptor], period_s: float) -> list[Fact]:
    """The descriptors as facts, with the period they are really sampled at."""
    return [Fact("counter", d.name, a.name, a.text, a.number, a.unit)
            for d in descriptors for a in attributes(replace(d, period_s=period_s))]
