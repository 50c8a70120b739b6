"""Readings, facts and exchanges as rows of their contracts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from fleetscope.contracts.batch import from_rows, record_batch, symbol_array
from fleetscope.contracts.counters import CounterDescriptor, attributes
from fleetscope.contracts.raw import CLOCK_SAMPLES, COUNTERS, INVENTORY
from ingest.clocks import HZ, REFERENCE, Exchange
from ingest.reading import Fact, Reading


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


def sample_rows(exchanges: Sequence[tuple[str, Exchange]]) -> pa.RecordBatch:
    """(other clock, exchange) pairs as clock_samples rows of three stamps."""
    return from_rows(CLOCK_SAMPLES, [
        {"kind": "exchange", "local_clock": REFERENCE, "remote_clock": clock, "local_before_ticks": e.before,
         "remote_first_ticks": e.other, "local_after_ticks": e.after, "local_hz": HZ, "remote_hz": HZ}
        for clock, e in exchanges])


def descriptor_facts(descriptors: Sequence[CounterDescriptor], period_s: float) -> list[Fact]:
    """The descriptors as facts, with the period they are really sampled at."""
    return [Fact("counter", d.name, a.name, a.text, a.number, a.unit)
            for d in descriptors for a in attributes(replace(d, period_s=period_s))]
