"""One simulated host: its replicas, probes and readings, and the two producers that publish them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from fleetscope.contracts.batch import record_batch, symbol_array
from fleetscope.contracts.raw import HEARTBEATS
from fleetscope.contracts.topics import CLOCK_LINKS, RAW_TOPICS
from simulator.clocks import NS, RAW, Clock, HostClocks
from simulator.faults.counters import CounterFaults
from simulator.faults.plan import FLUSH_NS, HostPlan, begin_ns
from simulator.faults.settings import Clocks, Collection, Latency
from simulator.inventory import inventory_rows, mark_rows
from simulator.probes import Path, Probe, phase, sample_rows
from simulator.producer import Flush, Producer, Publication
from simulator.readings import DeviceReadings, Row, counter_rows, demand_rows
from simulator.scenario import Scenario
from simulator.spans import Spans, concat, make, span_rows
from simulator.truth import Sink, Tally
from simulator.workload import Replica

CHUNK_NS: Final = FLUSH_NS
"""True time between flushes."""
_BEATS_EVERY: Final = NS // CHUNK_NS


class SimulatedHost:
    """``advance`` makes the work up to a flush, ``flush`` publishes what had ended by then."""

    def __init__(self, name: str, index: int, clocks: HostClocks, peers: Mapping[str, Clock], epoch: int,
                 scenario: Scenario, seed: int, end_ns: int, tallies: dict[str, Tally], sink: Sink,
                 plan: HostPlan) -> None:
        self.name = name
        self._plan = plan
        self._epoch = epoch
        self._run = -1
        self._counter_faults = CounterFaults(plan)
        self._clocks = clocks
        self._scenario = scenario
        self._job = f"llm-serve-{index}"
        self._replicas = [Replica(scenario, seed, index, rank, end_ns) for rank in range(len(clocks.devices))]
        self._read: list[list[Row]] = [[] for _ in range(1 + len(clocks.devices))]
        self._readings = [DeviceReadings(scenario.device, np.random.default_rng([seed, 4, index, rank]))
                          for rank in range(len(clocks.devices))]
        self._host_spans = [make(0) for _ in clocks.devices]
        self._device_spans = [make(0) for _ in clocks.devices]
        self._pending: list[Spans] = []
        self._device_probes, self._link_probes = _probes(scenario.clocks, clocks, peers, index, end_ns,
                                                         np.random.default_rng([seed, 5, index]))
        dvfs = scenario.clocks.dvfs
        self._rates = [(clocks.raw, clock) for clock in clocks.devices] if dvfs is not None and dvfs.published else []
        topics = {contract: topic.name for contract, topic in RAW_TOPICS.items()}
        self._agent = Producer(name, f"{name}/agent", epoch, topics, scenario.collection,
                               np.random.default_rng([seed, 6, index]), tallies, sink, plan)
        links = {"clock_samples": CLOCK_LINKS.name, "heartbeats": CLOCK_LINKS.name}
        self._links = Producer(name, f"{name}/links", epoch, links, Collection(),
                               np.random.default_rng([seed, 7, index]), tallies, sink, plan)

    @property
    def busy(self) -> bool:
        """Whether spans wait for their end, or messages are still on their way."""
        return any(len(spans) for spans in self._pending) or self._agent.waiting or self._links.waiting

    def advance(self, flush_ns: int) -> None:
        """Make everything that begins before ``flush_ns``; forget what ended before the chunk."""
        begin_ns = flush_ns - CHUNK_NS
        for rank, replica in enumerate(self._replicas):
            made = replica.advance(flush_ns)
            self._host_spans[rank] = concat([_after(self._host_spans[rank], begin_ns), made.host])
            self._device_spans[rank] = concat([_after(self._device_spans[rank], begin_ns), made.device])
        self._pending = [_after(spans, flush_ns) for spans in (*self._host_spans, *self._device_spans)]

    def flush(self, flush_ns: int, *, closing: bool) -> Iterator[Publication]:
        """Publications of one chunk: what was held up, then links first, heartbeats last."""
        yield from self._links.due(flush_ns)
        yield from self._agent.due(flush_ns)
        run = self._plan.run(flush_ns)
        begin_ns = max(flush_ns - CHUNK_NS, run.start_ns)
        self._read_counters(flush_ns)
        if not self._plan.running(flush_ns):
            self._forgo(flush_ns)
            return
        fresh = run.number != self._run
        if fresh:
            self._restart(run.epoch)
            self._run = run.number
        flush = Flush(flush_ns, self._clocks.raw.at(flush_ns))
        beat = closing or (flush_ns // CHUNK_NS) % _BEATS_EVERY == 0
        yield from self._samples(self._links, self._link_probes, begin_ns, flush)
        if beat:
            yield from self._beat(self._links, flush, [("clock_samples", RAW, flush.ticks)], closing)
        yield from self._samples(self._agent, self._device_probes, begin_ns, flush, self._rates)
        if fresh:
            rows = inventory_rows(self._scenario, self._clocks, begin_ns)
            yield from self._agent.publish("inventory", RAW, rows, flush)
        yield from self._spans(flush)
        if beat:  # counters are quiet: they wait for the beat, spans do not
            yield from self._counters(flush)
        if fresh:
            yield from self._agent.publish("marks", RAW, mark_rows(self._scenario, self._clocks, begin_ns), flush)
        if closing:
            yield from self._links.drain(flush_ns)
            yield from self._agent.drain(flush_ns)
        if beat:
            yield from self._beat(self._agent, flush, self._promises(flush_ns), closing)

    def _restart(self, epoch: int) -> None:
        """Another process of the agent begins; what the last one had read and not published is gone."""
        for producer in (self._agent, self._links):
            producer.restart(self._epoch + epoch)

    def _forgo(self, flush_ns: int) -> None:
        """The agent does not run: what ended meanwhile is not recorded; one that forgets loses what it held, too."""
        for spans in (*self._host_spans, *self._device_spans):
            ended = self._ended(spans, flush_ns)
            self._agent.unrecorded("spans", len(ended), ended.start)
        if any(down.forgets and down.from_ns < flush_ns < down.end_ns for down in self._plan.downs):
            for rows in self._read:
                self._agent.unrecorded("counters", len(rows))
                rows.clear()

    def _samples(self, producer: Producer, probes: Sequence[Probe], begin_ns: int, flush: Flush,
                 rates: Sequence[tuple[Clock, Clock]] = ()) -> Iterator[Publication]:
        rows = sample_rows(probes, begin_ns, flush.true_ns, rates)
        if rows is not None:
            yield from producer.publish("clock_samples", RAW, rows, flush)

    def _spans(self, flush: Flush) -> Iterator[Publication]:
        ended = concat([self._ended(spans, flush.true_ns) for spans in self._host_spans])
        yield from self._publish_spans(ended, self._clocks.raw, None, flush)
        for clock, spans in zip(self._clocks.devices, self._device_spans, strict=True):
            yield from self._publish_spans(self._ended(spans, flush.true_ns), clock, clock.name, flush)

    def _publish_spans(self, spans: Spans, clock: Clock, device: str | None, flush: Flush) -> Iterator[Publication]:
        number = None if device is None else self._clocks.devices.index(clock)
        recorded = self._plan.recorded(number, spans.start, spans.end, flush.true_ns)
        if not recorded.all():
            self._agent.unrecorded("spans", int(np.count_nonzero(~recorded)), spans.start[~recorded])
            spans = spans.take(recorded)
        if len(spans):
            rows = span_rows(spans, clock, self._job, self._scenario.team, device)
            yield from self._agent.publish("spans", clock.name, rows, flush, spans.start)

    @staticmethod
    def _ended(spans: Spans, flush_ns: int) -> Spans:
        return spans.take(spans.end <= flush_ns)

    def _read_counters(self, flush_ns: int) -> None:
        """Readings of the chunk, as far as there is somebody who reads."""
        begin_ns = flush_ns - CHUNK_NS
        read: list[list[Row]] = [[] for _ in self._read]
        for rank, replica in enumerate(self._replicas):
            read[0] += demand_rows(replica.demand, rank, begin_ns, flush_ns)
            replica.demand = replica.demand[-1:]
        for rows, readings, spans in zip(read[1:], self._readings, self._device_spans, strict=True):
            rows += readings.read(spans, begin_ns, flush_ns)
        for kept, rows in zip(self._read, read, strict=True):
            taken = [row for row in rows if self._plan.reads(row[2], flush_ns)]
            self._agent.unrecorded("counters", len(rows) - len(taken))
            kept += taken

    def _counters(self, flush: Flush) -> Iterator[Publication]:
        raw, devices = self._clocks.raw, self._clocks.devices
        for number, (clock, rows) in enumerate(zip((raw, *devices), self._read, strict=True)):
            if rows:
                batch = counter_rows(rows, clock, clock.name if number else None)
                at_ns = np.array([row[2] for row in rows], dtype=np.int64)
                batch = self._counter_faults.apply(batch, number - 1 if number else None, at_ns)
                yield from self._agent.publish("counters", clock.name, batch, flush)
                rows.clear()

    def _promises(self, flush_ns: int) -> list[tuple[str, str, int]]:
        """(contract, clock, ticks) of the agent: nothing earlier comes later. Spans under way hold theirs back."""
        raw, devices = self._clocks.raw, self._clocks.devices
        hosts, ours = self._pending[:len(devices)], self._pending[len(devices):]
        first_host = min(_first(spans, flush_ns) for spans in hosts)
        promises = [("spans", RAW, raw.at(first_host))]
        promises += [("spans", c.name, c.at(_first(spans, flush_ns))) for c, spans in zip(devices, ours, strict=True)]
        promises += [("counters", clock.name, clock.at(flush_ns)) for clock in (raw, *devices)]
        return promises + [(contract, RAW, raw.at(flush_ns)) for contract in ("clock_samples", "inventory", "marks")]

    def _beat(self, producer: Producer, flush: Flush, promises: list[tuple[str, str, int]], closed: bool) \
            -> Iterator[Publication]:
        totals = [producer.totals[contract] for contract, _, _ in promises]
        rows = record_batch(HEARTBEATS, {
            "time_ticks": pa.array([flush.ticks] * len(promises), pa.int64()),
            "contract": symbol_array([contract for contract, _, _ in promises]),
            "clock": symbol_array([clock for _, clock, _ in promises]),
            "batches_total": pa.array([t.batches for t in totals], pa.int64()),
            "rows_total": pa.array([t.rows for t in totals], pa.int64()),
            "dropped_rows_total": pa.array([t.dropped for t in totals], pa.int64()),
            "through_ticks": pa.array([ticks for _, _, ticks in promises], pa.int64()),
            "closed": pa.array([closed] * len(promises)),
        }, len(promises))
        yield from producer.publish("heartbeats", RAW, rows, flush)


def _after(spans: Spans, tau_ns: int) -> Spans:
    return spans.take(spans.end > tau_ns) if len(spans) else spans


def _first(spans: Spans, flush_ns: int) -> int:
    return min(int(spans.start.min()), flush_ns) if len(spans) else flush_ns


def _probes(settings: Clocks, clocks: HostClocks, peers: Mapping[str, Clock], host: int, run_ns: int,
            rng: np.random.Generator) -> tuple[list[Probe], list[Probe]]:
    """Probes of the host's devices (and BOOTTIME), and those of its peers and of UTC."""
    probing = settings.probes

    def path(latency: Latency, kind: str = "", direction: str = "") -> Path:
        slower = [(begin_ns(c, run_ns), begin_ns(c, run_ns) + round(c.for_s * NS), c.extra_ns, c.spread_ns)
                  for c in probing.congestion if (c.path, c.direction) == (kind, direction) and c.host in (None, host)]
        return Path(latency, tuple(slower))

    def probe(remote: Clock, remote_host: str | None, out: Path, back: Path, turnaround: Path | None, exchanges: int,
              at: tuple[int, int]) -> Probe:
        return Probe(clocks.raw, remote, remote_host, out, back, turnaround, exchanges, phase(*at), probing,
                     rng.spawn(1)[0])

    pcie, syscall = (path(probing.pcie_out, "pcie", "out"), path(probing.pcie_back, "pcie", "back")), \
        (path(probing.syscall), path(probing.syscall))
    network = path(probing.network_out, "network", "out"), path(probing.network_back, "network", "back")
    count = len(clocks.devices)
    devices = [probe(clock, None, *pcie, None, probing.device_exchanges, (i, count))
               for i, clock in enumerate(clocks.devices)]
    links = [probe(clock, name, *network, path(probing.turnaround), probing.link_exchanges, (i, len(peers) + 1))
             for i, (name, clock) in enumerate(peers.items())]
    at = len(peers), len(peers) + 1
    links.append(probe(clocks.realtime, None, *syscall, None, probing.realtime_exchanges, at))
    if settings.boottime:
        devices.append(probe(clocks.boottime, None, *syscall, None, probing.realtime_exchanges, at))
    return devices, links
