"""Takes batches into a host's state: identities, counts by window, rows that wait, watermarks."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from fleetscope.contracts.batch import Batch, StreamKey
from fleetscope.contracts.counters import NO_NUMBERS
from fleetscope.ledger import Ledger
from fleetscope.step import TopicPartition
from processors.windows import inventory, late, readings
from processors.windows.chunks import OTHER, Chunk, Rows, ints, read_spans
from processors.windows.cover import cover
from processors.windows.intervals import Bools, Ints, counted
from processors.windows.state import Host

CLOSED: Final = 1 << 62
"""The watermark of a host that sends no more."""

SPANS: Final = "aligned_spans"
COUNTERS: Final = "aligned_counters"
COVERAGE: Final = "coverage"
INVENTORY: Final = "aligned_inventory"


def take(host: Host, batch: Batch, topic: str, window_ns: int, max_span_ns: int, lookback_ns: int) -> None:
    """Count a batch that has not been counted before and keep its rows."""
    new = _new_rows(host.ledger, batch)
    fresh = int(new.sum())
    host.repeated += len(batch) - fresh
    if batch.origin is not None:
        host.offset = max(host.offset, batch.origin.offset)
        if len(batch):
            host.seen[topic] = max(host.seen.get(topic, 0), batch.origin.offset)
    newest = None
    if fresh:
        newest = _count(host, batch, new, window_ns, max_span_ns, lookback_ns)
    _advance(host, batch, topic, newest)


def take_again(host: Host, batch: Batch, max_span_ns: int, lookback_ns: int) -> None:
    """Take back rows of a batch that was counted before a restart; only spans wait as rows."""
    if batch.header.contract != SPANS:
        return
    new = _new_rows(host.reread, batch)
    if new.any():
        _keep(host, batch, _read(host, batch, max_span_ns, lookback_ns).take(new))


def _new_rows(ledger: Ledger, batch: Batch) -> Bools:
    """Which rows had not been entered before; enters them. Their parts' totals are used where they are known."""
    new = np.zeros(len(batch), bool)
    at = 0
    for part in batch.parts:
        if part.rows:
            for start, stop in ledger.add(part.stream(batch.header.contract), part.sequence, part.row0, part.rows,
                                          part.total):
                new[at + start - part.row0:at + stop - part.row0] = True
        at += part.rows
    return new


def _count(host: Host, batch: Batch, new: Bools, window_ns: int, max_span_ns: int, lookback_ns: int) -> int:
    """Count new rows by window; returns the time of the newest."""
    contract = batch.header.contract
    if contract == COVERAGE:
        return cover(host, batch, new, window_ns, max_span_ns)
    if contract == SPANS:
        rows = _read(host, batch, max_span_ns, lookback_ns)
        rows = rows if new.all() else rows.take(new)
        times = rows.start
        host.last_end_ns = max(host.last_end_ns, int(np.maximum(rows.stop, rows.start + 1).max()))
        late.note_spans(host, rows, window_ns)
        _keep(host, batch, rows)
    else:
        times = ints(batch.rows.column("time_ns"), 0)[new]
        host.last_end_ns = max(host.last_end_ns, int(times.max()) + 1)
        if contract == COUNTERS:
            _count_no_numbers(host, batch, new, window_ns)
            readings.keep(host.readings, batch, new, None if host.edge_ns is None else host.edge_ns - lookback_ns)
            if host.edge_ns is not None and (times < host.edge_ns).any():
                late.note_readings(host, times[times < host.edge_ns], lookback_ns, window_ns)
        if contract == INVENTORY:
            chosen = batch.rows.filter(pa.array(new)) if not new.all() else batch.rows
            host.announced.extend(inventory.entries(Batch(batch.header, chosen)))
            late.note_facts(host, int(times.min()), window_ns)
    _count_times(host, times, window_ns)
    return int(times.max())


def _count_no_numbers(host: Host, batch: Batch, new: Bools, window_ns: int) -> None:
    """Count readings of devices that are no numbers. Late ones belong to windows that are accounted for again."""
    codes, words = batch.symbols("status")
    poor = np.isin(codes.to_numpy(), [code for code, word in enumerate(words.to_pylist()) if word in NO_NUMBERS]) & new
    if not poor.any():
        return
    rows = batch.rows.filter(pa.array(poor))
    for device, time_ns in zip(rows.column("device").to_pylist(), rows.column("time_ns").to_pylist(), strict=True):
        if device is not None and (host.edge_ns is None or time_ns >= host.edge_ns):
            counts = host.no_numbers.setdefault(time_ns // window_ns * window_ns, {})
            counts[device] = counts.get(device, 0) + 1


def _count_times(host: Host, times: Ints, window_ns: int) -> None:
    if host.edge_ns is None:
        first = int(times.min())
        host.known_from_ns = first if host.known_from_ns is None else min(first, host.known_from_ns)
    else:
        behind = times < host.edge_ns
        if behind.any():
            host.late += int(behind.sum())
            late.note_times(host, times[behind], window_ns)
        times = times[~behind]
    windows, counts = counted(times // window_ns)
    for window, count in zip(windows.tolist(), counts.tolist(), strict=True):
        start = window * window_ns
        host.received[start] = host.received.get(start, 0) + count


def _read(host: Host, batch: Batch, max_span_ns: int, lookback_ns: int) -> Rows:
    return read_spans(batch, host.code, host.process_code, max_span_ns, lookback_ns)


def _keep(host: Host, batch: Batch, rows: Rows) -> None:
    needed = rows.role < OTHER
    if host.edge_ns is not None:
        needed &= rows.keep > host.edge_ns
    if not needed.any():
        return
    kept = rows if needed.all() else rows.take(needed)
    origin = batch.origin
    at = TopicPartition(origin.topic, origin.partition) if origin else None
    host.chunks.append(Chunk(kept, at, origin.offset if origin else 0, _lowest(batch), int(kept.keep.max())))


def _lowest(batch: Batch) -> dict[StreamKey, int]:
    lowest: dict[StreamKey, int] = {}
    for part in batch.parts:
        stream = part.stream(batch.header.contract)
        lowest[stream] = min(part.sequence, lowest.get(stream, part.sequence))
    return lowest


def _advance(host: Host, batch: Batch, topic: str, newest: int | None) -> None:
    """Raise the topic's watermark. A host that had closed is open again when a row of a window still to come arrives
    under an ordinary watermark: its agent was started again."""
    watermark = batch.header.watermark_ns
    if watermark is None:
        return
    if watermark < CLOSED:
        host.alive_ns = max(host.alive_ns, watermark)
    before = host.watermarks.get(topic)
    again = (before is not None and before >= CLOSED > watermark and newest is not None
             and newest >= (host.edge_ns or 0))
    host.watermarks[topic] = watermark if before is None or again else max(before, watermark)

