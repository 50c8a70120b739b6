"""Fleets whose link probes the simulator makes, without any work on them: ring and hub, or any graph."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.raw import CLOCK_SAMPLES, HEARTBEATS
from processors.clocks.segments import SegmentMap
from simulator.clocks import HostClocks, host_clocks
from simulator.faults.settings import Probing
from simulator.probes import Path, Probe, phase, sample_rows

NS = 1_000_000_000
START = 1_790_000_000 * NS
Link = tuple[int, int]


def ring_and_hub(hosts: int) -> list[Link]:
    """Every host probes the next one and the first one."""
    return sorted({(i, peer) for i in range(hosts) for peer in ((i + 1) % hosts, 0) if peer != i})


@dataclass
class Network:
    """``hosts`` simulated hosts, a burst a second on every link. ``lies``: ns that the remote stamps of a link are off
    by from a second on. ``cut(link, second)``: no exchange then. ``silent(host, second)``: it publishes nothing."""

    hosts: int
    links: list[Link]
    seed: int = 1
    lies: Mapping[Link, tuple[int, int]] = field(default_factory=dict)
    cut: Callable[[Link, int], bool] = lambda link, second: False
    silent: Callable[[int, int], bool] = lambda host, second: False
    utc_ahead: Mapping[int, int] = field(default_factory=dict)
    no_utc: Iterable[int] = ()
    exchanges: int = 8
    clocks: list[HostClocks] = field(init=False)
    batches: list[Batch] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clocks = [host_clocks(self.seed, i, 0, START, [NS]) for i in range(self.hosts)]
        settings, rng = Probing(link_exchanges=self.exchanges), np.random.default_rng([self.seed, 77])
        net = Path(settings.network_out), Path(settings.network_back), Path(settings.turnaround)
        near = Path(settings.syscall)
        count = 3
        self._probes: dict[int, list[tuple[Link | None, Probe]]] = {i: [] for i in range(self.hosts)}
        for number, (local, remote) in enumerate(self.links):
            self._probes[local].append(((local, remote), Probe(
                self.clocks[local].raw, self.clocks[remote].raw, self.name(remote), *net, settings.link_exchanges,
                phase(number % count, count), settings, rng.spawn(1)[0])))
        for i in range(self.hosts):
            self._probes[i].append((None, Probe(
                self.clocks[i].raw, self.clocks[i].realtime, None, near, near, None, settings.realtime_exchanges,
                phase(2, count), settings, rng.spawn(1)[0])))
        self._numbers: dict[tuple[int, str], int] = {}

    def name(self, host: int) -> str:
        """Id of a host."""
        return f"h{host:05d}"

    def reboot(self, host: int, at_s: int) -> None:
        """MONOTONIC_RAW of the host began again near 0 at that second."""
        old = self.clocks[host]
        raw = replace(old.raw, offset_ns=-at_s * NS)
        self.clocks[host] = replace(old, raw=raw)
        for probes in self._probes.values():
            for number, (link, probe) in enumerate(probes):
                local, remote = (raw if probe.local is old.raw else probe.local,
                                 raw if probe.remote is old.raw else probe.remote)
                probes[number] = link, replace(probe, local=local, remote=remote)

    def run(self, from_s: int, to_s: int) -> list[Batch]:
        """Batches of whole seconds, in the order of their publication; they are kept, too."""
        made: list[Batch] = []
        for second in range(from_s, to_s):
            for host in range(self.hosts):
                made += self._second(host, second)
        self.batches += made
        return made

    def _second(self, host: int, second: int) -> list[Batch]:
        found: dict[int, list[Probe]] = {}
        for link, probe in self._probes[host]:
            if not ((link is None and host in self.no_utc) or (link is not None and self.cut(link, second))):
                found.setdefault(self._off(link, host, second), []).append(probe)
        made = [_shifted(rows, off) for off, probes in found.items()
                if (rows := sample_rows(probes, second * NS, (second + 1) * NS)) is not None]
        if self.silent(host, second):
            return []
        sent = self.clocks[host].raw.at((second + 1) * NS)
        beat: dict[str, Any] = {
            "time_ticks": sent, "contract": "clock_samples", "clock": "monotonic_raw", "batches_total": 0,
            "rows_total": 0, "dropped_rows_total": 0, "through_ticks": sent, "closed": False}
        batches = []
        if made:
            table = pa.Table.from_batches(made).unify_dictionaries().combine_chunks()
            batches.append(self._batch(host, CLOCK_SAMPLES.name, table.to_batches()[0], sent))
        return [*batches, self._batch(host, HEARTBEATS.name, from_rows(HEARTBEATS, [beat]), sent)]

    def _off(self, link: Link | None, host: int, second: int) -> int:
        if link is None:
            return self.utc_ahead.get(host, 0)
        by, since = self.lies.get(link, (0, 0))
        return by if second >= since else 0

    def _batch(self, host: int, contract: str, rows: pa.RecordBatch, sent: int) -> Batch:
        number = self._numbers.get((host, contract), 0)
        self._numbers[host, contract] = number + 1
        name = self.name(host)
        return Batch(Header(contract, 1, name, f"{name}/links", 1, number, rows.num_rows, "monotonic_raw",
                            flushed_ticks=sent), rows)

    def errors(self, maps: Mapping[str, SegmentMap], hosts: Iterable[int], from_s: float, to_s: float,
               step_s: float = 0.25) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
        """(hosts, times) fleet time of each host less that of the first of ``hosts``, and bounds (−1: none)."""
        tau = np.arange(from_s, to_s, step_s)
        at = (tau * NS).astype(np.int64)
        mapped = []
        for host in hosts:
            raw = self.clocks[host].raw.read(at)
            found = maps[self.name(host)]
            # Of a clock that began again only the newest run is asked.
            run = [i for i, (a, b) in enumerate(pairwise(found.segments), 1) if b.valid_from < a.valid_from]
            mapped.append(SegmentMap(found.segments[run[-1]:] if run else found.segments).apply(raw, raw))
        return (np.array([m.time - mapped[0].time for m in mapped]), np.array([m.err_ns for m in mapped]))


def _shifted(rows: pa.RecordBatch, by: int) -> pa.RecordBatch:
    if not by:
        return rows
    columns = {name: rows.column(name) for name in rows.schema.names}
    for name in ("remote_first_ticks", "remote_last_ticks"):
        columns[name] = pc.add(columns[name], by)
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)
