"""Writes the truth to a folder, with memory that does not grow with the run."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa

from fleetscope.errors import UsageError
from simulator.causes import NAMES
from simulator.truth.records import Change, ClockStep, Fate, Incident, Ints, SpanStarts, Tally

COUNTS_FILE: Final = "truth.json"
STARTS_FILE: Final = "starts.arrow"
PUBLISHED_FILE: Final = "published.arrow"
MISSED_FILE: Final = "missed.arrow"
CAUSES_FILE: Final = "causes.arrow"
INCIDENTS_FILE: Final = "incidents.json"
CLOCK_STEPS_FILE: Final = "clock_steps.json"
CHANGES_FILE: Final = "changes.json"

_STARTS: Final = pa.schema([
    pa.field("host", pa.string(), False), pa.field("producer", pa.string(), False),
    pa.field("epoch", pa.int64(), False), pa.field("sequence", pa.int64(), False),
    pa.field("clock", pa.string(), False), pa.field("start_true_ns", pa.list_(pa.int64()), False),
])
_PUBLISHED: Final = pa.schema([
    pa.field("host", pa.string(), False), pa.field("contract", pa.string(), False),
    pa.field("true_ns", pa.int64(), False), pa.field("rows", pa.int64(), False),
])
_MISSED: Final = pa.schema([
    pa.field("host", pa.string(), False), pa.field("fate", pa.string(), False),
    pa.field("start_true_ns", pa.list_(pa.int64()), False),
])
_CAUSES: Final = pa.schema([
    pa.field("host", pa.dictionary(pa.int32(), pa.string()), False),
    pa.field("device", pa.dictionary(pa.int32(), pa.string()), False),
    pa.field("slot_start_true_ns", pa.int64(), False), pa.field("slot_ns", pa.int64(), False),
    *(pa.field(name, pa.int64(), False) for name in NAMES),
])
_KEPT_ROWS: Final = 4_096
"""Rows of causes and of what was published that are kept in memory before they are written."""


class TruthSink:
    """Appends to a folder with bounded memory. UsageError where the folder cannot be written."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._slots: list[tuple[str, str, int, int, Ints]] = []
        self._rows: list[tuple[str, str, int, int]] = []
        try:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / COUNTS_FILE).unlink(missing_ok=True)
            self._starts, self._published, self._missed, self._causes = (
                _ArrowFile(folder / name, schema) for name, schema in (
                    (STARTS_FILE, _STARTS), (PUBLISHED_FILE, _PUBLISHED), (MISSED_FILE, _MISSED),
                    (CAUSES_FILE, _CAUSES)))
            self._incidents, self._steps, self._changes = (
                _JsonArray(folder / name) for name in (INCIDENTS_FILE, CLOCK_STEPS_FILE, CHANGES_FILE))
        except OSError as error:
            raise UsageError(f"cannot write the truth to {folder}: {error.strerror}") from error

    def starts(self, starts: SpanStarts) -> None:
        """Append the true starts of one batch."""
        self._starts.write_one((starts.host, starts.producer, starts.epoch, starts.sequence, starts.clock),
                               starts.start_ns)

    def published(self, host: str, contract: str, true_ns: int, rows: int) -> None:
        """Append rows of another contract than spans."""
        self._rows.append((host, contract, true_ns, rows))
        if len(self._rows) >= _KEPT_ROWS:
            self._flush_rows()

    def missed(self, host: str, fate: Fate, start_ns: Ints) -> None:
        """Append the true times of rows that were missed."""
        if len(start_ns):
            self._missed.write_one((host, fate), start_ns)

    def causes(self, host: str, device: str, slot_start_true_ns: int, slot_ns: int, ns: Ints) -> None:
        """Append a slot. ValueError unless its causes sum to its length."""
        total = int(ns.sum())
        if len(ns) != len(NAMES) or total != slot_ns:
            raise ValueError(f"{host}/{device}: {len(ns)} causes of the slot at {slot_start_true_ns} ns sum to {total} "
                             f"ns, must be {len(NAMES)} and {slot_ns} ns")
        self._slots.append((host, device, slot_start_true_ns, slot_ns, np.array(ns, dtype=np.int64)))
        if len(self._slots) >= _KEPT_ROWS:
            self._flush_causes()

    def incident(self, kind: str, host: str, device: str | None, start_true_ns: int, end_true_ns: int,
                 severity: str = "warning") -> None:
        """Append an incident."""
        self._incidents.append(asdict(Incident(kind, host, device, start_true_ns, end_true_ns, severity)))

    def clock_step(self, host: str, clock: str, true_ns: int, size_ns: int, kind: str) -> None:
        """Append a step."""
        self._steps.append(asdict(ClockStep(host, clock, true_ns, size_ns, kind)))

    def change(self, true_ns: int, subject: str, version: str, effect: float, scope: str = "") -> None:
        """Append a deployment."""
        self._changes.append(asdict(Change(true_ns, subject, version, effect, scope)))

    def finish(self, tallies: dict[str, Tally], config: dict[str, object]) -> None:
        """Close the files and write the counts; a truth without counts is an interrupted run."""
        self.close()
        document = {"rows_by_contract": {name: asdict(tally) for name, tally in tallies.items()}, "config": config}
        (self._folder / COUNTS_FILE).write_text(json.dumps(document, indent=2), encoding="utf-8")

    def close(self) -> None:
        """Close the files; safe to call twice."""
        self._flush_causes()
        self._flush_rows()
        for file in (self._starts, self._published, self._missed, self._causes, self._incidents, self._steps,
                     self._changes):
            file.close()

    def _flush_rows(self) -> None:
        if self._rows:
            columns = [pa.array(column, kind.type) for column, kind in zip(zip(*self._rows, strict=True), _PUBLISHED,
                                                                           strict=True)]
            self._published.write(pa.RecordBatch.from_arrays(columns, schema=_PUBLISHED))
            self._rows.clear()

    def _flush_causes(self) -> None:
        if not self._slots:
            return
        hosts, devices, starts, lengths, ns = zip(*self._slots, strict=True)
        table = np.stack(ns)
        columns = [pa.array(hosts).dictionary_encode(), pa.array(devices).dictionary_encode(),
                   pa.array(starts, pa.int64()), pa.array(lengths, pa.int64()),
                   *(pa.array(np.ascontiguousarray(table[:, i])) for i in range(len(NAMES)))]
        self._causes.write(pa.RecordBatch.from_arrays(columns, schema=_CAUSES))
        self._slots.clear()


class _ArrowFile:
    """An Arrow IPC stream that grows."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self._file: IO[bytes] = path.open("wb")
        self._schema = schema
        # Dictionaries may differ from batch to batch: a stream allows it.
        self._writer = pa.ipc.new_stream(self._file, schema, options=pa.ipc.IpcWriteOptions(compression="zstd"))

    def write(self, batch: pa.RecordBatch) -> None:
        self._writer.write_batch(batch)

    def write_one(self, values: tuple[str | int, ...], times_ns: Ints) -> None:
        """One row whose last column is a list of times."""
        offsets = pa.array([0, len(times_ns)], pa.int32())
        columns = [pa.array([value], column.type) for value, column in zip(values, self._schema, strict=False)]
        columns.append(pa.ListArray.from_arrays(offsets, pa.array(times_ns, pa.int64())))
        self.write(pa.RecordBatch.from_arrays(columns, schema=self._schema))

    def close(self) -> None:
        if not self._file.closed:
            self._writer.close()
            self._file.close()


class _JsonArray:
    """A JSON array that grows, one object a line."""

    def __init__(self, path: Path) -> None:
        self._file: IO[str] = path.open("w", encoding="utf-8")
        self._file.write("[")
        self._before = "\n"

    def append(self, item: dict[str, Any]) -> None:
        self._file.write(self._before + json.dumps(item))
        self._before = ",\n"

    def close(self) -> None:
        if not self._file.closed:
            self._file.write("\n]\n")
            self._file.close()
