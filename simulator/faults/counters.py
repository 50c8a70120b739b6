"""Readings of a device's counters as a faulty source gives them, on batches of the `counters` contract.

A monotonic counter has ``raw``, a gauge ``value``. Labelled faults say in ``status`` what an agent notices: missing,
sentinel, saturated, reset, wrapped, stuck; others look like readings.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from simulator.faults import settings as s
from simulator.faults.plan import CounterChange, HostPlan
from simulator.faults.timeline import Ints

Mask = NDArray[np.bool_]
Key = tuple[int, int, str, str]
"""Number of the fault, device, counter, instance."""


@dataclass(slots=True)
class _Columns:
    """The changeable columns of a batch; ``missing`` stands for null in raw and value, whichever the row has."""

    names: list[str]
    instances: list[str]
    monotonic: Mask
    raw: Ints
    value: NDArray[np.float64]
    missing: Mask
    status: list[str]


@dataclass(slots=True)
class CounterFaults:
    """The faults of one host's counters. It remembers the readings that stuck counters repeat and others start from."""

    plan: HostPlan
    _kept: dict[Key, float] = field(default_factory=dict)

    def apply(self, rows: pa.RecordBatch, device: int | None, at_ns: Ints) -> pa.RecordBatch:
        """``rows`` of one device, read at true times ``at_ns``, as they come out of the source."""
        if device is None:
            return rows
        changes = [(number, change) for number, change in enumerate(self.plan.counters) if change.device == device]
        gone = ~self.plan.present(device, at_ns)
        touched = any(((at_ns >= change.start_ns) & (at_ns < change.end_ns)).any() for _, change in changes)
        if not (touched or gone.any()):
            return rows
        columns = _columns(rows)
        for number, change in changes:
            active = (at_ns >= change.start_ns) & (at_ns < change.end_ns)
            for row in np.flatnonzero(active & ~columns.missing):
                if change.fault.counter in (None, columns.names[row]):
                    self._change(columns, int(row), number, change)
        for row in np.flatnonzero(gone):
            columns.missing[row], columns.status[row] = True, "missing"
        return _rows(rows, columns)

    def _change(self, columns: _Columns, row: int, number: int, change: CounterChange) -> None:
        key = (number, change.device, columns.names[row], columns.instances[row])
        fault = change.fault
        status = "ok"
        if isinstance(fault, s.CounterStuck):
            kept = self._kept.setdefault(key, float(columns.value[row]) if not columns.monotonic[row]
                                         else int(columns.raw[row]))
            if columns.monotonic[row]:
                columns.raw[row] = kept
            else:
                columns.value[row] = kept
            status = "stuck"
        elif isinstance(fault, s.CounterSentinel):
            self._sentinel(columns, row, fault)
            return
        elif not columns.monotonic[row]:
            return
        elif isinstance(fault, s.CounterSaturated):
            columns.raw[row] = (1 << fault.bits) - 1
            status = "saturated"
        elif isinstance(fault, s.CounterReset):
            status = "ok" if key in self._kept else "reset"
            columns.raw[row] -= int(self._kept.setdefault(key, int(columns.raw[row])))
        elif isinstance(fault, s.CounterWrap):
            columns.raw[row], status = self._wrapped(key, int(columns.raw[row]), fault)
        if fault.labelled:
            columns.status[row] = status

    def _wrapped(self, key: Key, raw: int, fault: s.CounterWrap) -> tuple[int, str]:
        top = 1 << fault.bits
        began = int(self._kept.setdefault(key, raw))
        through = (*key[:3], key[3] + "/wraps")
        wraps, shown = divmod(top - fault.margin + raw - began, top)
        before = self._kept.get(through, 0)
        self._kept[through] = wraps
        return shown, "wrapped" if wraps > before else "ok"

    @staticmethod
    def _sentinel(columns: _Columns, row: int, fault: s.CounterSentinel) -> None:
        if fault.value == "N/A" or fault.labelled:
            columns.missing[row] = True
            columns.status[row] = "missing" if fault.value == "N/A" else "sentinel"
        elif columns.monotonic[row]:
            columns.raw[row] = int(fault.value)
        else:
            columns.value[row] = float(fault.value)


def _columns(rows: pa.RecordBatch) -> _Columns:
    raw, value = rows.column("raw"), rows.column("value")
    monotonic = np.asarray(raw.is_valid())
    return _Columns(rows.column("counter").to_pylist(), [word or "" for word in rows.column("instance").to_pylist()],
                    monotonic, pc.fill_null(raw, 0).to_numpy(zero_copy_only=False).copy(),
                    pc.fill_null(value, 0.0).to_numpy(zero_copy_only=False).copy(),
                    ~monotonic & ~np.asarray(value.is_valid()), rows.column("status").to_pylist())


def _rows(rows: pa.RecordBatch, columns: _Columns) -> pa.RecordBatch:
    made = {
        "raw": pa.array(columns.raw, mask=columns.missing | ~columns.monotonic),
        "value": pa.array(columns.value, mask=columns.missing | columns.monotonic),
        "status": pa.array(columns.status, pa.string()).dictionary_encode(),
    }
    return pa.RecordBatch.from_arrays([made.get(name, rows.column(name)) for name in rows.schema.names],
                                      schema=rows.schema)
