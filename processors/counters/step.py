"""The step that watches counters: aligned counters, inventory and windows in, incidents out.

Readings are taken in the order of event time, once counters, inventory and windows have all passed them, so that what
is found does not depend on who was read first. Readings that wait are read again after a restart. Thresholds are in
`series` and `device` and in docs/operations.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, ClassVar, Final

from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.counters import KNOWN, UNIT_LIMITS
from fleetscope.contracts.derived import INCIDENTS, STATE_NAMES
from fleetscope.contracts.topics import ALIGNED_TOPICS, INCIDENTS_TOPIC, WINDOWS_TOPIC
from fleetscope.snapshots import dump, load
from fleetscope.step import Output, TopicPartition
from processors.counters.device import Device, Reading, Row

VERSION: Final = 1
NS: Final = 1_000_000_000
CLOSED: Final = 1 << 62
NEVER: Final = -(1 << 62)
MAX_LOSSY: Final = 64
IDLE: Final = ("host", "host_input", "host_contention", "host_pageable", "launch_overhead", "dependency", "no_demand",
               "unresolved", "unknown")
_BUSY: Final = tuple(f"{name}_ns" for name in STATE_NAMES if name not in IDLE)
_COUNTERS: Final = ALIGNED_TOPICS["aligned_counters"].name
_INVENTORY: Final = ALIGNED_TOPICS["aligned_inventory"].name
_COLUMNS: Final = ("time_ns", "device", "counter", "instance", "status", "raw", "value", "err_ns")

Key = tuple[str, int, int, int]
"""Identity of a row: producer, epoch, sequence, row."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A row of the contract aligned_counters that waits, with its identity and where its message stood."""

    key: Key
    values: tuple[Any, ...]
    at: TopicPartition | None
    offset: int


@dataclass(slots=True)
class Host:
    """``marks`` by topic; ``looked_ns``: readings before it were taken; ``windows``: [end, busy share, revision] by
    (start, device), of those not passed; ``lossy``: [start, end) of the newest windows in which rows were lost;
    ``bits``: (width, kind) of counters by the inventory."""

    marks: dict[str, int] = field(default_factory=dict)
    looked_ns: int = NEVER
    windows: dict[tuple[int, str], list[Any]] = field(default_factory=dict)
    bits: dict[str, list[Any]] = field(default_factory=dict)
    lossy: list[list[int]] = field(default_factory=list)
    devices: dict[str, Device] = field(default_factory=dict)
    sequence: int = 0
    waiting: dict[Key, Waiting] = field(default_factory=dict)


State = dict[str, Host]


@dataclass(frozen=True, slots=True)
class CountersStep:
    """``busy_share``: a device that worked so much of a window was busy in it. ``missed``: a device of which so many
    usual intervals bring no reading has vanished, where others of its host are read and nothing of it was lost.
    ``batch_s``: a batch may hold so much, so one that could not be read explains a shorter absence. ``alone_s``: so
    long readings wait for the first window of their host."""

    busy_share: float = 0.5
    missed: int = 3
    batch_s: float = 5.0
    alone_s: float = 600.0

    name: ClassVar[str] = "counters"
    inputs: ClassVar[tuple[str, ...]] = (_COUNTERS, _INVENTORY, WINDOWS_TOPIC.name)
    broadcast: ClassVar[tuple[str, ...]] = ()

    def start(self) -> State:
        """No host yet."""
        return {}

    def on_batch(self, state: State, batch: Batch) -> tuple[State, list[Output]]:
        """Take a batch of one host. Raises KeyError for a contract that is not an input."""
        header = batch.header
        host = state.setdefault(header.host, Host())
        take, topic = {"aligned_counters": (_take_counters, _COUNTERS), "aligned_inventory": (_take_widths, _INVENTORY),
                       "windows": (_take_windows, WINDOWS_TOPIC.name)}[header.contract]
        if len(batch):
            take(host, batch)
        if header.watermark_ns is not None:
            host.marks[topic] = max(host.marks.get(topic, NEVER), header.watermark_ns)
        return state, self._look(header.host, host)

    def on_end(self, state: State) -> list[Output]:
        """Take what waits."""
        outputs = []
        for name, host in sorted(state.items()):
            host.marks = dict.fromkeys(self.inputs, CLOSED)
            outputs += self._look(name, host)
        return outputs

    def held(self, state: State) -> Mapping[TopicPartition, int]:
        """Where the oldest readings that wait stand."""
        held: dict[TopicPartition, int] = {}
        for host in state.values():
            for row in host.waiting.values():
                if row.at is not None:
                    held[row.at] = min(row.offset, held.get(row.at, row.offset))
        return held

    def snapshot(self, state: State) -> bytes:
        """All but the readings that wait and the mark of their topic: they must be there again before it counts, and
        their messages say it again."""
        return dump(self.name, VERSION, {name: [
            {topic: mark for topic, mark in h.marks.items() if topic != _COUNTERS}, h.looked_ns,
            [[*key, *values] for key, values in sorted(h.windows.items())], h.bits, h.lossy,
            {device: d.plain() for device, d in sorted(h.devices.items())}, h.sequence] for name, h in state.items()})

    def restore(self, data: bytes) -> State:
        """Raises ValueError for bytes of another step or version."""
        state: State = {}
        for name, (marks, looked, windows, bits, lossy, devices, sequence) in load(data, self.name, VERSION).items():
            state[name] = Host(marks, looked, {(start, device): values for start, device, *values in windows}, bits,
                               lossy, {device: Device.of_plain(plain) for device, plain in devices.items()}, sequence)
        return state

    def _look(self, name: str, host: Host) -> list[Output]:
        """Take the readings that every topic has passed."""
        limit = min(host.marks.get(topic, NEVER) for topic in self.inputs)
        if WINDOWS_TOPIC.name not in host.marks:
            newest = max((row.values[0] for row in host.waiting.values()), default=NEVER)
            limit = min(host.marks.get(_COUNTERS, NEVER), newest - round(self.alone_s * NS))
        if limit <= host.looked_ns:
            return []
        due = sorted((row for row in host.waiting.values() if row.values[0] < limit),
                     key=lambda row: (row.values[0], row.values[1], row.values[2], row.values[3] or "", row.key))
        for row in due:
            del host.waiting[row.key]
        rows = list(self._judged(host, due))
        host.looked_ns = limit
        host.windows = {key: values for key, values in host.windows.items() if values[0] > limit}
        return [_output(name, host, rows)] if rows else []

    def _judged(self, host: Host, due: list[Waiting]) -> Iterator[Row]:
        for time_ns, moment in groupby(due, key=lambda row: row.values[0]):
            read = set()
            for name, group in groupby(moment, key=lambda row: row.values[1]):
                read.add(name)
                device = host.devices.setdefault(name, Device())
                window = _window(host, name, time_ns)
                busy = window is not None and window[1] >= self.busy_share
                found = device.take([_reading(host, row.values) for row in group], busy=busy)
                yield from ({"device": name, **row} for row in found)
            yield from self._absent(host, read, time_ns)

    def _absent(self, host: Host, read: set[str], time_ns: int) -> Iterator[Row]:
        """Devices that bring no readings any more, at a time when others are ``read``."""
        for name, device in sorted(host.devices.items()):
            if name in read:
                continue
            device.skipped += 1
            usual = device.usual_ns()
            if device.skipped < self.missed or usual is None:
                continue
            if time_ns - device.read_ns <= max(self.missed * usual, round(self.batch_s * NS)):
                continue
            if not any(start < time_ns and device.read_ns < end for start, end in host.lossy):
                yield from ({"device": name, **row} for row in device.vanish(device.read_ns, time_ns))


def _window(host: Host, device: str, time_ns: int) -> list[Any] | None:
    for (start, name), values in host.windows.items():
        if name == device and start <= time_ns < values[0]:
            return values
    return None


def _reading(host: Host, values: tuple[Any, ...]) -> Reading:
    time_ns, _, counter, instance, status, raw, value, err_ns = values
    if err_ns is None:  # whether it came before or after others is not known
        status, raw, value = "unplaced", None, None
    known = KNOWN.get(counter)
    width, kind = host.bits.get(counter) or ((known.width_bits, known.kind) if known else (64, None))
    top = None if raw is None else (1 << min(int(width or 64), 63)) - 1
    if status == "ok" and kind == "saturating" and raw is not None and raw == top:
        status = "saturated"
    limits = UNIT_LIMITS.get(known.unit) if known is not None and raw is None else None
    name = f"{counter}/{instance}" if instance else counter
    return Reading(time_ns, name, status, value if raw is None else raw, top, limits)


def _take_counters(host: Host, batch: Batch) -> None:
    columns = zip(*(batch.rows.column(name).to_pylist() for name in _COLUMNS), strict=True)
    keys = ((part.producer, part.epoch, part.sequence, part.row0 + index)
            for part in batch.parts for index in range(part.rows))
    origin = batch.origin
    at = None if origin is None else TopicPartition(origin.topic, origin.partition)
    for key, values in zip(keys, columns, strict=True):
        if values[1] is not None and values[0] >= host.looked_ns:
            host.waiting[key] = Waiting(key, values, at, 0 if origin is None else origin.offset)


def _take_widths(host: Host, batch: Batch) -> None:
    names = ("kind", "component", "attribute", "number", "text")
    for kind, component, attribute, number, text in zip(*(batch.rows.column(n).to_pylist() for n in names),
                                                        strict=True):
        if kind == "counter" and attribute == "width_bits" and number is not None and 1 <= number <= 64:
            host.bits.setdefault(component, [64, None])[0] = int(number)
        elif kind == "counter" and attribute == "kind":
            host.bits.setdefault(component, [64, None])[1] = text


def _take_windows(host: Host, batch: Batch) -> None:
    for row in batch.rows.to_pylist():
        start, end = row["window_start_ns"], row["window_start_ns"] + row["window_ns"]
        if row["lost_rows"] + row["dropped_rows"] and [start, end] not in host.lossy:
            host.lossy = [*host.lossy, [start, end]][-MAX_LOSSY:]
        if end <= host.looked_ns:
            continue
        before = host.windows.get((start, row["device"]))
        if before is None or before[2] <= row["revision"]:
            known = max(row["window_ns"] - row["unknown_ns"], 1)
            host.windows[start, row["device"]] = [end, sum(row[name] or 0 for name in _BUSY) / known, row["revision"]]


def _output(name: str, host: Host, rows: list[Row]) -> Output:
    times = [int(row["start_ns"]) for row in rows]
    header = Header(INCIDENTS.name, INCIDENTS.version, name, "counters", 0, host.sequence, len(rows),
                    min_time=min(times), max_time=max(times))
    host.sequence += 1
    return Output(INCIDENTS_TOPIC.name, Batch(header, from_rows(INCIDENTS, [{"host": name, **row} for row in rows])))
