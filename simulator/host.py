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
from simulator.inventory import inventory_rows, mark_rows
from simulator.probes import (
    NETWORK_BACK,
    NETWORK_OUT,
    PCIE_BACK,
    PCIE_OUT,
    SYSCALL,
    TURNAROUND,
    Probe,
    phase,
    sample_rows,
)
from simulator.producer import Flush, Producer, Publication
from simulator.readings import DeviceReadings, Row, counter_rows, demand_rows
from simulator.scenario import Faults, Scenario
from simulator.spans import Spans, concat, make, span_rows
from simulator.truth import Sink, Tally
from simulator.workload import Replica

CHUNK_NS: Final = 200_000_000
"""True time between flushes."""
_BEATS_EVERY: Final = NS // CHUNK_NS


class SimulatedHost:
    """``advance`` makes the work up to a flush, ``flush`` publishes what had ended by then."""

    def __init__(self, name: str, index: int, clocks: HostClocks, peers: Mapping[str, Clock], epoch: int,
                 scenario: Scenario, seed: int, end_ns: int, tallies: dict[str, Tally], sink: Sink) -> None:
        self.name = name
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
        self._device_probes, self._link_probes = _probes(clocks, peers, np.random.default_rng([seed, 5, index]))
        topics = {contract: topic.name for contract, topic in RAW_TOPICS.items()}
        self._agent = Producer(name, f"{name}/agent", epoch, topics, scenario.faults,
                               np.random.default_rng([seed, 6, index]), tallies, sink)
        links = {"clock_samples": CLOCK_LINKS.name, "heartbeats": CLOCK_LINKS.name}
        self._links = Producer(name, f"{name}/links", epoch, links, Faults(), np.random.default_rng([seed, 7, index]),
                               tallies, sink)

    @property
    def busy(self) -> bool:
        """Whether spans wait for their end."""
        return any(len(spans) for spans in self._pending)

    def advance(self, flush_ns: int) -> None:
        """Make everything that begins before ``flush_ns``; forget what ended before the chunk."""
        begin_ns = flush_ns - CHUNK_NS
        for rank, replica in enumerate(self._replicas):
            made = replica.advance(flush_ns)
            self._host_spans[rank] = concat([_after(self._host_spans[rank], begin_ns), made.host])
            self._device_spans[rank] = concat([_after(self._device_spans[rank], begin_ns), made.device])
        self._pending = [_after(spans, flush_ns) for spans in (*self._host_spans, *self._device_spans)]

    def flush(self, flush_ns: int, *, closing: bool) -> Iterator[Publication]:
        """Publications of one chunk: links first, heartbeats last."""
        begin_ns = flush_ns - CHUNK_NS
        flush = Flush(flush_ns, self._clocks.raw.at(flush_ns))
        beat = closing or (flush_ns // CHUNK_NS) % _BEATS_EVERY == 0
        yield from self._samples(self._links, self._link_probes, begin_ns, flush)
        if beat:
            yield from self._beat(self._links, flush, [("clock_samples", RAW, flush.ticks)], closing)
        yield from self._samples(self._agent, self._device_probes, begin_ns, flush)
        if begin_ns == 0:
            rows = inventory_rows(self._scenario, self._clocks, 0)
            yield from self._agent.publish("inventory", RAW, rows, flush)
        yield from self._spans(flush)
        self._read_counters(begin_ns, flush)
        if beat:  # counters are quiet: they wait for the beat, spans do not
            yield from self._counters(flush)
        if begin_ns == 0:
            yield from self._agent.publish("marks", RAW, mark_rows(self._scenario, self._clocks, 0), flush)
        if closing:
            yield from self._agent.drain()
        if beat:
            yield from self._beat(self._agent, flush, self._promises(flush_ns), closing)

    def _samples(self, producer: Producer, probes: Sequence[Probe], begin_ns: int, flush: Flush) \
            -> Iterator[Publication]:
        rows = sample_rows(probes, begin_ns, flush.true_ns)
        if rows is not None:
            yield from producer.publish("clock_samples", RAW, rows, flush)

    def _spans(self, flush: Flush) -> Iterator[Publication]:
        ended = concat([self._ended(spans, flush.true_ns) for spans in self._host_spans])
        yield from self._publish_spans(ended, self._clocks.raw, None, flush)
        for clock, spans in zip(self._clocks.devices, self._device_spans, strict=True):
            yield from self._publish_spans(self._ended(spans, flush.true_ns), clock, clock.name, flush)

    def _publish_spans(self, spans: Spans, clock: Clock, device: str | None, flush: Flush) -> Iterator[Publication]:
        if len(spans):
            rows = span_rows(spans, clock, self._job, self._scenario.team, device)
            yield from self._agent.publish("spans", clock.name, rows, flush, spans.start)

    @staticmethod
    def _ended(spans: Spans, flush_ns: int) -> Spans:
        return spans.take(spans.end <= flush_ns)

    def _read_counters(self, begin_ns: int, flush: Flush) -> None:
        host, *devices = self._read
        for rank, replica in enumerate(self._replicas):
            host += demand_rows(replica.demand, rank, begin_ns, flush.true_ns)
            replica.demand = replica.demand[-1:]
        for rows, readings, spans in zip(devices, self._readings, self._device_spans, strict=True):
            rows += readings.read(spans, begin_ns, flush.true_ns)

    def _counters(self, flush: Flush) -> Iterator[Publication]:
        raw, devices = self._clocks.raw, self._clocks.devices
        for clock, device, rows in zip((raw, *devices), (None, *(d.name for d in devices)), self._read, strict=True):
            if rows:
                yield from self._agent.publish("counters", clock.name, counter_rows(rows, clock, device), flush)
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


def _probes(clocks: HostClocks, peers: Mapping[str, Clock], rng: np.random.Generator) \
        -> tuple[list[Probe], list[Probe]]:
    """Probes of the host's devices, and those of its peers and of UTC."""
    count = len(clocks.devices)
    devices = [Probe(clocks.raw, clock, None, PCIE_OUT, PCIE_BACK, None, 8, phase(i, count), rng.spawn(1)[0])
               for i, clock in enumerate(clocks.devices)]
    links = [Probe(clocks.raw, clock, host, NETWORK_OUT, NETWORK_BACK, TURNAROUND, 8, phase(i, len(peers) + 1),
                   rng.spawn(1)[0]) for i, (host, clock) in enumerate(peers.items())]
    links.append(Probe(clocks.raw, clocks.realtime, None, SYSCALL, SYSCALL, None, 4, phase(len(peers), len(peers) + 1),
                       rng.spawn(1)[0]))
    return devices, links
