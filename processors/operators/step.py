"""The step that adds up operators: aligned spans and inventory in, `operators` out.

Rows are added as they come, each once by its identity; nothing waits but sums. A window is published when spans and
inventory of its host have passed it, and again, with a higher revision, when late rows of it come while it is kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final

import numpy as np

from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.jobs import OPERATORS
from fleetscope.contracts.topics import ALIGNED_TOPICS, OPERATORS_TOPIC
from fleetscope.ledger import Ledger
from fleetscope.snapshots import dump, load
from fleetscope.step import Output, TopicPartition
from processors.operators.buckets import Bucket, Sum, reach, row
from processors.operators.devices import Devices
from processors.operators.histogram import duration_bins, intensity_bins
from processors.operators.intake import CLOSED, NEVER, advanced, grouped, integers, is_engine, summed, unseen, words

VERSION: Final = 1
_SPANS: Final = ALIGNED_TOPICS["aligned_spans"].name
_INVENTORY: Final = ALIGNED_TOPICS["aligned_inventory"].name


@dataclass(slots=True)
class Host:
    """One host. ``closed_ns``: windows that end at or before it were published; ``dropped``: rows older than what is
    kept; ``buckets`` by start."""

    marks: dict[str, int] = field(default_factory=dict)
    closed_ns: int = NEVER
    dropped: int = 0
    sequence: int = 0
    buckets: dict[int, Bucket] = field(default_factory=dict)
    devices: Devices = field(default_factory=Devices)
    ledger: Ledger = field(default_factory=Ledger)


State = dict[str, Host]


@dataclass(frozen=True)
class OperatorsStep:
    """``window_ns``: length of its windows; ``max_names``: operators of a device in a window that are told apart, in
    the order they are first seen; ``kept``: published windows that late rows still change."""

    window_ns: int = 60_000_000_000
    max_names: int = 256
    kept: int = 2

    name: ClassVar[str] = "operators"
    inputs: ClassVar[tuple[str, ...]] = (_SPANS, _INVENTORY)
    broadcast: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.window_ns <= 0 or self.max_names <= 0 or self.kept < 0:
            raise ValueError(f"window_ns {self.window_ns}, max_names {self.max_names}, kept {self.kept}")

    def start(self) -> State:
        """No host yet."""
        return {}

    def on_batch(self, state: State, batch: Batch) -> tuple[State, list[Output]]:
        """Add a batch of one host; publish what its watermark has passed. KeyError for another contract."""
        topic = {"aligned_spans": _SPANS, "aligned_inventory": _INVENTORY}[batch.header.contract]
        host = state.setdefault(batch.header.host, Host())
        if len(batch) and topic == _INVENTORY:
            host.devices.take(batch)
        elif len(batch):
            self._add(host, batch)
        if batch.header.watermark_ns is None:
            return state, []
        host.marks[topic] = advanced(host.marks.get(topic, NEVER), batch.header.watermark_ns)
        return state, self._publish(batch.header.host, host)

    def on_end(self, state: State) -> list[Output]:
        """Publish every window that is open."""
        outputs = []
        for name, host in sorted(state.items()):
            host.marks = dict.fromkeys(self.inputs, CLOSED)
            outputs += self._publish(name, host)
        return outputs

    def held(self, state: State) -> Mapping[TopicPartition, int]:
        """No row waits."""
        return {}

    def snapshot(self, state: State) -> bytes:
        """Sums, positions and what was seen."""
        return dump(self.name, VERSION, {"window_ns": self.window_ns, "hosts": {name: _plain(host) for name, host
                                                                                in state.items()}})

    def restore(self, data: bytes) -> State:
        """ValueError for bytes of another step, version or window length."""
        found = load(data, self.name, VERSION)
        if found["window_ns"] != self.window_ns:
            raise ValueError(f"operators: the snapshot is of windows of {found['window_ns']} ns, not {self.window_ns}")
        return {name: _host(plain) for name, plain in found["hosts"].items()}

    def _add(self, host: Host, batch: Batch) -> None:
        rows = batch.rows
        start = integers(rows.column("start_ns"))
        device, track = words(rows.column("device")), words(rows.column("track"))
        kept = host.closed_ns - self.kept * self.window_ns if host.closed_ns != NEVER else NEVER
        work = unseen(host.ledger, batch) & is_engine(track) & (device.codes >= 0)
        taken = work & (start >= kept)
        host.dropped += int(work.sum() - taken.sum())
        index = np.flatnonzero(taken)
        if not len(index):
            return
        job, team, name = (words(rows.column(column)) for column in ("job", "team", "name"))
        bucket = start[index] // self.window_ns
        first, group = grouped([bucket, *(w.codes[index] for w in (device, job, team, name, track))])
        order = np.argsort(np.asarray(first), kind="stable")
        amounts = _Amounts(integers(rows.column("duration_ns"))[index], integers(rows.column("flops"))[index],
                           integers(rows.column("bytes"))[index], group, len(first))
        for place in order.tolist():
            at = int(index[first[place]])
            found = host.buckets.setdefault(int(bucket[first[place]]) * self.window_ns, Bucket())
            key = (str(device.word(int(device.codes[at]))), job.word(int(job.codes[at])),
                   team.word(int(team.codes[at])), str(name.word(int(name.codes[at]))),
                   str(track.word(int(track.codes[at]))))
            found.rows += int(amounts.calls[place])
            amounts.add(found.sum(key, self.max_names), place)

    def _publish(self, name: str, host: Host) -> list[Output]:
        limit = min(host.marks.get(topic, NEVER) for topic in self.inputs)
        rows: list[dict[str, Any]] = []
        for start in sorted(host.buckets):
            bucket = host.buckets[start]
            if start + self.window_ns <= limit and bucket.rows != bucket.told:
                rows += self._rows(name, host, start, bucket)
        if limit > host.closed_ns and limit < CLOSED:
            host.closed_ns = limit // self.window_ns * self.window_ns
            old = host.closed_ns - self.kept * self.window_ns
            host.buckets = {start: bucket for start, bucket in host.buckets.items() if start >= old}
        if not rows:
            return []
        times = [int(row["window_start_ns"]) for row in rows]
        header = Header(OPERATORS.name, OPERATORS.version, name, self.name, 0, host.sequence, len(rows),
                        min_time=min(times), max_time=max(times))
        host.sequence += 1
        return [Output(OPERATORS_TOPIC.name, Batch(header, from_rows(OPERATORS, rows)))]

    def _rows(self, name: str, host: Host, start: int, bucket: Bucket) -> list[dict[str, Any]]:
        end = start + self.window_ns
        bucket.told = bucket.rows
        inventory = host.devices.inventory(end)
        window = {"window_start_ns": start, "window_ns": self.window_ns, "revision": bucket.rows}
        return [row(name, key, total, reach(inventory, key[0], key[4]), host.devices.kind(key[0], end)) | window
                for key, total in sorted(bucket.sums.items(), key=lambda item: repr(item[0]))]


class _Amounts:
    """Sums of a batch by group."""

    def __init__(self, duration: Any, flops: Any, bytes_: Any, group: Any, count: int) -> None:
        self.calls = summed(np.ones_like(duration), group, count)
        self.total = summed(duration, group, count)
        self.flops, self.bytes = (summed(np.maximum(v, 0), group, count) for v in (flops, bytes_))
        self.has_flops, self.has_bytes = (summed((v >= 0).astype(np.int64), group, count) for v in (flops, bytes_))
        self.lengths: list[list[tuple[int, int]]] = [[] for _ in range(count)]
        bins = duration_bins(duration)
        first, cell = grouped([group, bins])
        for at, calls in zip(first.tolist(), np.bincount(cell).tolist(), strict=True):
            self.lengths[int(group[at])].append((int(bins[at]), calls))
        self.work: list[list[tuple[int, int, int, int]]] = [[] for _ in range(count)]
        bins = intensity_bins(flops, bytes_)
        first, cell = grouped([group, bins])
        sums = (summed(v, cell, len(first)).tolist() for v in (duration, np.maximum(flops, 0), np.maximum(bytes_, 0)))
        for at, time_ns, flop, byte in zip(first.tolist(), *sums, strict=True):
            self.work[int(group[at])].append((int(bins[at]), time_ns, flop, byte))

    def add(self, total: Sum, place: int) -> None:
        """Add a group to an operator."""
        total.calls += int(self.calls[place])
        total.total_ns += int(self.total[place])
        if self.has_flops[place]:
            total.flops = (total.flops or 0) + int(self.flops[place])
        if self.has_bytes[place]:
            total.bytes = (total.bytes or 0) + int(self.bytes[place])
        for length, calls in self.lengths[place]:
            total.lengths[length] = total.lengths.get(length, 0) + calls
        for intensity, *amounts in self.work[place]:
            before = total.work.setdefault(intensity, [0, 0, 0])
            total.work[intensity] = [a + b for a, b in zip(before, amounts, strict=True)]


def _plain(host: Host) -> list[Any]:
    buckets = [[start, bucket.rows, bucket.told, [[list(key), total.plain()] for key, total in bucket.sums.items()]]
               for start, bucket in sorted(host.buckets.items())]
    return [host.marks, host.closed_ns, host.dropped, host.sequence, buckets, host.devices.plain(),
            host.ledger.to_plain()]


def _host(plain: list[Any]) -> Host:
    marks, closed, dropped, sequence, buckets, devices, ledger = plain
    made = {start: Bucket({(k[0], k[1], k[2], k[3], k[4]): Sum.of(total) for k, total in sums}, rows, told)
            for start, rows, told, sums in buckets}
    return Host(marks, closed, dropped, sequence, made, Devices.of(devices), Ledger.from_plain(ledger))
