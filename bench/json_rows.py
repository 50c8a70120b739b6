"""Span events as JSON and back, and busy time in windows: the pure part of the pipeline people write first.

The source converts ticks to ns and sends one object an event; the reader adds one offset per clock, collects columns
and sums busy time in a dict. No error bounds, no identities of its own (partition and offset stand in), and overlap on
a device is only recognised in order of arrival. That is what such a pipeline knows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa

from fleetscope.contracts import Contract
from fleetscope.contracts.batch import Batch
from fleetscope.contracts.derived import ALIGNED_SPANS, WINDOWS

WINDOW_NS: Final = 1_000_000_000
_NS: Final = 1_000_000_000
_SOURCE_TIMES: Final = {"start_ticks": "start_ns", "duration_ticks": "duration_ns"}
_HOST_TRACKS: Final = frozenset(("host_api", "driver", "cpu_thread"))


def _plain(contract: Contract, **more: pa.DataType) -> pa.Schema:
    """The contract's columns with symbols as plain text, then ``more``."""
    fields = [(c.name, pa.string() if pa.types.is_dictionary(c.type) else c.type) for c in contract.columns]
    return pa.schema([*fields, *more.items()])


SPANS_TABLE: Final = _plain(
    ALIGNED_SPANS, host=pa.string(), producer=pa.string(), epoch=pa.int64(), sequence=pa.int64(), row=pa.int64(),
    clock=pa.string(), late=pa.bool_(), input_partition=pa.int32(), input_offset=pa.int64(),
)
WINDOWS_TABLE: Final = _plain(WINDOWS, input_partition=pa.int32(), input_offset=pa.int64())
_SPAN_CONSTANTS: Final = {"producer": "json", "row": 0, "late": False, "err_ns": None, "utc_err_ns": None,
                          "alignment": "gap"}
_KNOWN: Final = ("window_start_ns", "revision", "kernel_unattributed_ns", "no_demand_ns")
_NOT_KNOWN: Final = {c.name: 0 for c in WINDOWS.columns
                     if not c.nullable and pa.types.is_integer(c.type) and c.name not in _KNOWN}


def messages(batch: Batch, hz: int = _NS) -> Iterator[bytes]:
    """One JSON object for each span of ``batch``, times in ns of its clock (``hz`` ticks a second), nulls left out."""
    host, clock = batch.header.host, batch.header.clock
    columns = {_SOURCE_TIMES.get(name, name): array.to_pylist()
               for name, array in zip(batch.rows.schema.names, batch.rows.columns, strict=True)
               if array.null_count < len(batch)}
    if hz != _NS:
        for name in _SOURCE_TIMES.values():
            columns[name] = [ticks * _NS // hz for ticks in columns[name]]
    names = tuple(columns)
    for values in zip(*columns.values(), strict=True):
        event = {name: value for name, value in zip(names, values, strict=True) if value is not None}
        event["host"], event["clock"] = host, clock
        if "attributes" in event:
            event["attributes"] = dict(event["attributes"])
        yield orjson.dumps(event)


@dataclass(slots=True)
class Aligner:
    """One offset a clock: the broker's time of the first event of the clock, minus that event's end."""

    offsets: dict[tuple[str, str], int] = field(default_factory=dict)

    def align(self, event: dict[str, Any], time_ms: int) -> int:
        """Start of ``event`` in ns since 1970. Raises KeyError where it lacks host, clock or a time."""
        clock = event["host"], event["clock"]
        offset = self.offsets.get(clock)
        if offset is None:
            end = event["start_ns"] + event["duration_ns"]
            offset = self.offsets[clock] = time_ms * 1_000_000 - end
        return int(event["start_ns"] + offset)


class Busy(NamedTuple):
    """Busy time of one device in the window from ``start_ns``; ``offset`` is of the last message that added to it."""

    host: str
    device: str
    start_ns: int
    busy_ns: int
    partition: int
    offset: int


class BusyWindows:
    """Busy time per device and tumbling window, in a dict. Spans that overlap one that came before count once."""

    def __init__(self, window_ns: int = WINDOW_NS) -> None:
        self._window_ns = window_ns
        self._open: dict[tuple[str, str], dict[int, Busy]] = {}
        self._busy_until: dict[tuple[str, str], int] = {}

    def add(self, host: str, device: str, start_ns: int, duration_ns: int, partition: int, offset: int) -> None:
        """Count ``[start_ns, start_ns + duration_ns)`` where the device was not already known to be busy."""
        key = host, device
        end = start_ns + duration_ns
        start = max(start_ns, self._busy_until.get(key, start_ns))
        if end <= start:
            return
        self._busy_until[key] = end
        windows = self._open.setdefault(key, {})
        while start < end:
            edge = start - start % self._window_ns
            stop = min(end, edge + self._window_ns)
            before = windows.get(edge)
            busy = stop - start + (before.busy_ns if before else 0)
            windows[edge] = Busy(host, device, edge, busy, partition, offset)
            start = stop

    def closed(self) -> list[Busy]:
        """Windows, taken out, that end a whole window or more before what the device was last busy with."""
        done: list[Busy] = []
        for key, windows in self._open.items():
            limit = self._busy_until[key] - 2 * self._window_ns
            done.extend(windows.pop(edge) for edge in sorted(windows) if edge <= limit)
        return done

    def rest(self) -> list[Busy]:
        """All windows still open, taken out."""
        done = [windows[edge] for windows in self._open.values() for edge in sorted(windows)]
        self._open.clear()
        return done


class Rows:
    """Events on their way into columns of the table ``spans``."""

    def __init__(self, aligner: Aligner, busy: BusyWindows) -> None:
        self._aligner = aligner
        self._busy = busy
        self._events: list[dict[str, Any]] = []

    def __len__(self) -> int:
        return len(self._events)

    def add(self, value: bytes | None, partition: int, offset: int, time_ms: int) -> None:
        """Decode, align and count one event. Raises ValueError, KeyError or TypeError and keeps nothing of it."""
        event = orjson.loads(value or b"")
        start = self._aligner.align(event, time_ms)
        event["start_ticks"], event["duration_ticks"] = event["start_ns"], event["duration_ns"]
        event["start_ns"] = start
        event["epoch"] = event["input_partition"] = partition
        event["sequence"] = event["input_offset"] = offset
        device = event.get("device")
        if device is not None and event["track"] not in _HOST_TRACKS:
            self._busy.add(event["host"], device, start, event["duration_ns"], partition, offset)
        self._events.append(event)

    def take(self) -> tuple[pa.Table, list[str]]:
        """The events as one table, taken out, and why others of them do not fit it, one line each."""
        events, self._events = self._events, []
        try:
            return _spans_table(events), []
        except (pa.ArrowException, TypeError, AttributeError, OverflowError):
            return _fitting(events)


def _spans_table(events: list[dict[str, Any]]) -> pa.Table:
    return _table(events, SPANS_TABLE, _SPAN_CONSTANTS)


def _fitting(events: list[dict[str, Any]]) -> tuple[pa.Table, list[str]]:
    fitting, reasons = [], []
    for event in events:
        try:
            _spans_table([event])
        except (pa.ArrowException, TypeError, AttributeError, OverflowError) as error:
            reasons.append(f"[{event['input_partition']}]@{event['input_offset']}: {error}")
        else:
            fitting.append(event)
    return _spans_table(fitting), reasons


def windows_table(windows: list[Busy], window_ns: int = WINDOW_NS) -> pa.Table:
    """Busy windows in the shape of the table ``windows``: busy is unattributed kernel time, the rest no demand."""
    rows = [{"host": w.host, "device": w.device, "window_start_ns": w.start_ns, "revision": w.offset,
             "kernel_unattributed_ns": w.busy_ns, "no_demand_ns": window_ns - w.busy_ns,
             "input_partition": w.partition, "input_offset": w.offset} for w in windows]
    return _table(rows, WINDOWS_TABLE, {**_NOT_KNOWN, "window_ns": window_ns, "coverage": 1.0})


def _table(rows: list[dict[str, Any]], schema: pa.Schema, constants: Mapping[str, object]) -> pa.Table:
    """Rows in columns; ``constants`` are the same in every row, what a row lacks is empty in lists and else null."""
    columns = []
    for name, kind in zip(schema.names, schema.types, strict=True):
        if name in constants:
            columns.append(pa.repeat(pa.scalar(constants[name], kind), len(rows)))
        elif pa.types.is_nested(kind):
            columns.append(pa.array([row.get(name, ()) for row in rows], kind))
        else:
            columns.append(pa.array([row.get(name) for row in rows], kind))
    return pa.Table.from_arrays(columns, schema=schema)
