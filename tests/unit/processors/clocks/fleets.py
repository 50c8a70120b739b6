"""Hosts with known clocks that exchange stamps, as batches for the fleet clock step."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.raw import CLOCK_SAMPLES, HEARTBEATS
from fleetscope.step import Output
from processors.clocks.emission import segments_by_host
from processors.clocks.segments import Segment, SegmentMap

NS = 1_000_000_000
UTC_START = 1_790_000_000 * NS


@dataclass
class TrueHost:
    """``raw`` and ``utc`` are readings at true time (ns since the start of the test)."""

    name: str
    offset: int
    ppm: float = 0.0
    utc_error: int = 0
    utc_rate_ppm: float = 0.0

    def raw(self, at: int) -> int:
        return self.offset + at + int(at * self.ppm * 1e-6)

    def utc(self, at: int) -> int:
        return UTC_START + at + self.utc_error + int(at * self.utc_rate_ppm * 1e-6)


@dataclass
class Fleet:
    """Batches in the order they are published; every host's ``links`` producer numbers its own."""

    hosts: dict[str, TrueHost]
    links: list[tuple[str, str]]
    rng: random.Random = field(default_factory=lambda: random.Random(1))
    batches: list[Batch] = field(default_factory=list)
    sequences: defaultdict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def send(self, host: str, contract: Any, rows: list[dict[str, Any]], epoch: int = 1) -> Batch:
        key = (f"{host}/{epoch}", contract.name)
        header = Header(contract.name, 1, host, f"{host}/links", epoch, self.sequences[key], len(rows),
                        "monotonic_raw")
        self.sequences[key] += 1
        self.batches.append(Batch(header, from_rows(contract, rows)))
        return self.batches[-1]

    def second(self, number: float, *, silent: Iterable[str] = (), no_utc: Iterable[str] = ()) -> None:
        """Each host that speaks measures UTC and its links, then promises everything before now."""
        now = round(number * NS)
        for name, host in self.hosts.items():
            if name in silent:
                continue
            rows = [] if name in no_utc else [self._utc(host, now + i * 5_000) for i in range(3)]
            for local, remote in self.links:
                if local == name:
                    rows += [self._exchange(host, self.hosts[remote], now + i * 200_000) for i in range(4)]
            if rows:
                self.send(name, CLOCK_SAMPLES, rows)
            self.beat(name, now)

    def beat(self, name: str, now: int, *, closed: bool = False, epoch: int = 1) -> None:
        raw = self.hosts[name].raw(now + NS // 2)
        self.send(name, HEARTBEATS, [{
            "time_ticks": raw, "contract": "clock_samples", "clock": "monotonic_raw", "batches_total": 0,
            "rows_total": 0, "dropped_rows_total": 0, "through_ticks": raw, "closed": closed}], epoch)

    def _row(self, **values: Any) -> dict[str, Any]:
        return {"kind": "exchange", "local_clock": "monotonic_raw", "local_hz": NS, "remote_hz": NS, **values}

    def _utc(self, host: TrueHost, at: int) -> dict[str, Any]:
        return self._row(remote_clock="realtime", local_before_ticks=host.raw(at),
                         remote_first_ticks=host.utc(at + 60), local_after_ticks=host.raw(at + 120))

    def _exchange(self, host: TrueHost, other: TrueHost, at: int) -> dict[str, Any]:
        out, back = (8_000 + round(self.rng.expovariate(1 / 6_000)) for _ in range(2))
        return self._row(remote_host=other.name, remote_clock="monotonic_raw", local_before_ticks=host.raw(at),
                         remote_first_ticks=other.raw(at + out), remote_last_ticks=other.raw(at + out + 900),
                         local_after_ticks=host.raw(at + out + 900 + back))


def maps(outputs: Iterable[Output]) -> dict[str, SegmentMap]:
    """What the step published, by host."""
    found: dict[str, SegmentMap] = {}
    for output in outputs:
        if output.batch.header.contract == "segments":
            for host, segments in segments_by_host(output.batch.rows):
                found.setdefault(host, SegmentMap()).extend(segments)
    return found


def references(outputs: Iterable[Output]) -> dict[str, set[str]]:
    """Reference hosts by host."""
    found: dict[str, set[str]] = {}
    for output in outputs:
        if output.batch.header.contract == "segments":
            columns = (output.batch.rows.column(name).to_pylist() for name in ("host", "target_host"))
            for host, reference in zip(*columns, strict=True):
                found.setdefault(host, set()).add(reference)
    return found


def incidents(outputs: Iterable[Output]) -> list[dict[str, Any]]:
    """Rows of incidents, evidence decoded."""
    rows = [row for o in outputs if o.batch.header.contract == "incidents" for row in o.batch.rows.to_pylist()]
    return [{**row, "evidence": json.loads(row["evidence"])} for row in rows]


def piece_at(segments: SegmentMap, raw: int) -> Segment:
    """The piece that holds a tick; fails where there is none."""
    piece = segments.find(raw)
    assert piece is not None, raw
    return piece


def shifted(batch: Batch, **changes: Any) -> Batch:
    """The batch with other header fields."""
    return replace(batch, header=replace(batch.header, **changes))
