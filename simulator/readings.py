"""Counters of a device and of its replica, read every 100 ms of true time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from fleetscope.contracts.batch import record_batch, symbol_array
from fleetscope.contracts.raw import COUNTERS
from simulator.clocks import Clock, Ints
from simulator.scenario import Device
from simulator.spans import TRACK, Spans

PERIOD_NS: Final = 100_000_000
WIDTH_32: Final = 1 << 32

DESCRIPTORS: Final = (
    # name, unit, width in bits, kind, viewpoint, payload
    ("engine_active", "share", 64, "gauge", "device", "none"),
    ("hbm_bytes", "B", 64, "monotonic", "device", "payload"),
    ("pcie_rx_bytes", "B", 64, "monotonic", "device", "payload"),
    ("pcie_tx_bytes", "B", 64, "monotonic", "device", "payload"),
    ("pcie_rx_bytes_32", "B", 32, "monotonic", "device", "payload"),
    ("power_w", "W", 64, "gauge", "device", "none"),
    ("temperature_c", "degC", 64, "gauge", "device", "none"),
    ("clock_mhz", "MHz", 64, "gauge", "device", "none"),
    ("requests_running", "requests", 64, "gauge", "host", "none"),
    ("requests_waiting", "requests", 64, "gauge", "host", "none"),
)
"""Every counter the fleet publishes; the last two are of the host's serving processes (instance: rank)."""

Row = tuple[str, str | None, int, int | None, float | None]
"""Counter, instance, true time, raw, value."""

_ENGINES: Final = ("matrix", "vector")


class DeviceReadings:
    """Follows the spans of one device; monotonic counters agree with the bytes of those spans at every reading."""

    def __init__(self, device: Device, rng: np.random.Generator) -> None:
        self._device = device
        self._rng = rng
        self._retired = {"hbm_bytes": 0, "pcie_rx_bytes": 0, "pcie_tx_bytes": 0}
        self._celsius = 35.0

    def read(self, spans: Spans, from_ns: int, to_ns: int) -> list[Row]:
        """Readings at the ends of periods in (from, to]; ``spans``: all that end after ``from`` and began by ``to``."""
        rows: list[Row] = []
        for at in range(from_ns + PERIOD_NS, to_ns + 1, PERIOD_NS):
            busy = {engine: _busy(spans, TRACK[f"engine:{engine}"], at) for engine in _ENGINES}
            rows += [("engine_active", engine, at, None, share) for engine, share in busy.items()]
            totals = {name: total + _moved(spans, name, at) for name, total in self._retired.items()}
            rows += [(name, None, at, total, None) for name, total in totals.items()]
            rows.append(("pcie_rx_bytes_32", None, at, totals["pcie_rx_bytes"] % WIDTH_32, None))
            rows += self._gauges(min(sum(busy.values()), 1.0), at)
        over = spans.take(spans.end <= to_ns)
        for name in self._retired:
            self._retired[name] += _moved(over, name, to_ns)
        return rows

    def _gauges(self, busy: float, at: int) -> list[Row]:
        device = self._device
        noise = self._rng.standard_normal(3)
        power = device.idle_w + (device.busy_w - device.idle_w) * busy * (0.9 + 0.02 * float(noise[0]))
        self._celsius += (30.0 + 45.0 * power / device.busy_w - self._celsius) * 0.01 + 0.02 * float(noise[1])
        clock = device.clock_mhz * (1.0 + 0.0005 * float(noise[2]))
        return [("power_w", None, at, None, round(power, 3)),
                ("temperature_c", None, at, None, round(self._celsius, 3)),
                ("clock_mhz", None, at, None, round(clock, 3))]


def _busy(spans: Spans, track: int, at: int) -> float:
    """Share of the period that ends at ``at`` covered by a track; spans of one track do not overlap."""
    mine = spans.track == track
    covered = np.minimum(spans.end[mine], at) - np.maximum(spans.start[mine], at - PERIOD_NS)
    return int(np.maximum(covered, 0).sum()) / PERIOD_NS


def _moved(spans: Spans, counter: str, at: int) -> int:
    """Bytes a counter's spans had moved by ``at``; those under way count by their share of time, rounded down."""
    if counter == "hbm_bytes":
        mine = spans.track >= TRACK["engine:matrix"]
    else:
        mine = spans.track == TRACK["pcie_h2d" if counter == "pcie_rx_bytes" else "pcie_d2h"]
    sizes, length = spans.bytes[mine], spans.end[mine] - spans.start[mine]
    done = np.clip(at - spans.start[mine], 0, length)
    part = np.floor(sizes * (done / np.maximum(length, 1))).astype(np.int64)
    return int(np.where(done == length, sizes, part).sum())


def demand_rows(demand: Sequence[tuple[int, int, int]], rank: int, from_ns: int, to_ns: int) -> list[Row]:
    """Requests running and waiting at the ends of the periods in (from, to], by the last change before each."""
    rows: list[Row] = []
    for at in range(from_ns + PERIOD_NS, to_ns + 1, PERIOD_NS):
        _, running, waiting = [entry for entry in demand if entry[0] <= at][-1]
        rows.append(("requests_running", str(rank), at, None, float(running)))
        rows.append(("requests_waiting", str(rank), at, None, float(waiting)))
    return rows


def counter_rows(rows: Sequence[Row], clock: Clock, device: str | None) -> pa.RecordBatch:
    """The batch of the `counters` contract, read on ``clock``."""
    times: Ints = np.array([row[2] for row in rows], dtype=np.int64)
    columns = {
        "device": symbol_array([device] * len(rows)),
        "counter": symbol_array([row[0] for row in rows]),
        "instance": symbol_array([row[1] for row in rows]),
        "time_ticks": pa.array(clock.read(times)),
        "raw": pa.array([row[3] for row in rows], pa.int64()),
        "value": pa.array([row[4] for row in rows], pa.float64()),
        "status": symbol_array(["ok"] * len(rows)),
    }
    return record_batch(COUNTERS, columns, len(rows))
