"""One simulated host: its processes and devices as worlds drive them, probes and readings, and what it publishes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from fleetscope.contracts.batch import record_batch, symbol_array
from fleetscope.contracts.raw import HEARTBEATS
from fleetscope.contracts.topics import CLOCK_LINKS, RAW_TOPICS
from simulator.clocks import NS, RAW, Clock, HostClocks
from simulator.counters.descriptors import PERIOD_NS
from simulator.counters.device import JITTER_NS
from simulator.counters.host import Demand, RunWait, demand_readings
from simulator.counters.readings import Readings, counter_batch
from simulator.engine.world import DeviceSpans, HostSpans
from simulator.engine.world import Readings as Measured
from simulator.faults.counters import CounterFaults
from simulator.faults.plan import FLUSH_NS, HostPlan, begin_ns
from simulator.faults.settings import Clocks, Collection, Latency
from simulator.inventory import inventory_rows, link_rows, mark_rows
from simulator.meters import DeviceMeter
from simulator.probes import Path, Probe, phase, sample_rows
from simulator.producer import Flush, Producer, Publication
from simulator.scenario import Scenario
from simulator.spans import Seats, device_rows, host_rows, taken
from simulator.topology.hosts import HostSpec
from simulator.truth import Sink, Tally
from simulator.worlds import DrivenWorld

CHUNK_NS: Final = FLUSH_NS
"""True time between flushes."""
_BEATS_EVERY: Final = NS // CHUNK_NS
_MANY: Final = 50_000
"""Spans of a device that may wait for its counters to be read."""


S = TypeVar("S", HostSpans, DeviceSpans)


@dataclass(slots=True)
class Seat:
    """One device: where it sits in which world, and its counters."""

    world: DrivenWorld
    rank: int
    meter: DeviceMeter
    waits: RunWait

    @property
    def spans(self) -> DeviceSpans:
        """What ended in the chunk on the device, in order of ends."""
        return self.world.device_spans(self.rank)

    @property
    def measured(self) -> Measured:
        """What the core measured of it in the chunk."""
        return self.world.measured(self.rank)

    def promises(self) -> tuple[int, int]:
        """Later spans of (its process, the device) start at or after these true times."""
        return self.world.promises(self.rank)

    def demand(self, from_ns: int, to_ns: int) -> Readings:
        """Readings of its process: requests, and time without a processor."""
        rank = int(self.world.seats.rank[self.rank])
        entries = self.world.demand[self.rank]
        columns = np.array([(entry.time_ns, entry.running, entry.waiting) for entry in entries], dtype=np.int64).T
        readings = demand_readings(Demand(*columns), rank, from_ns, to_ns)
        past = [entry for entry in entries if entry.time_ns <= to_ns]
        self.world.demand[self.rank] = [past[-1], *entries[len(past):]]
        waits = self.world.waits[self.rank]
        ended = np.array([at for at, _ in waits], dtype=np.int64)
        readings.extend(self.waits.read(ended, np.array([ns for _, ns in waits], dtype=np.int64), from_ns, to_ns))
        waits.clear()
        return readings


class SimulatedHost:
    """``flush`` publishes what had ended by then, as its seats' worlds say."""

    def __init__(self, name: str, spec: HostSpec, clocks: HostClocks, peers: Mapping[str, Clock], epoch: int,
                 scenario: Scenario, seed: int, end_ns: int, tallies: dict[str, Tally], sink: Sink,
                 plan: HostPlan) -> None:
        index = spec.index
        self.name = name
        self._spec = spec
        self._plan = plan
        self._epoch = epoch
        self._run = -1
        self._counter_faults = CounterFaults(plan)
        self._clocks = clocks
        self._scenario = scenario
        self._sink = sink
        self._end_ns = end_ns
        self._seats: dict[int, Seat] = {}
        self._eager = bool(plan.downs)
        """Counters are read at every flush: which agent reads them, and what their link is, changes in between."""
        self._read_ns = 0
        self._read = [Readings() for _ in range(1 + spec.devices)]
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

    def seat(self, world: DrivenWorld, rank: int, seed: int) -> None:
        """Device of this host at ``rank`` of ``world``."""
        device = world.places[rank][1]
        rng = np.random.default_rng([seed, 4, self._spec.index, device])
        meter = DeviceMeter(self._spec, device, world.incidents, rng)
        world.given[rank] = meter.given
        self._eager = self._eager or not meter.steady
        self._seats[device] = Seat(world, rank, meter, RunWait(int(world.seats.rank[rank])))

    @property
    def busy(self) -> bool:
        """Whether work has not ended, or messages are still on their way."""
        return any(seat.world.busy for seat in self._seats.values()) or self._agent.waiting or self._links.waiting

    def flush(self, flush_ns: int, *, closing: bool) -> Iterator[Publication]:
        """Publications of one chunk: what was held up, then links first, heartbeats last."""
        yield from self._links.due(flush_ns)
        yield from self._agent.due(flush_ns)
        run = self._plan.run(flush_ns)
        begin_ns = max(flush_ns - CHUNK_NS, run.start_ns)
        beat = closing or (flush_ns // CHUNK_NS) % _BEATS_EVERY == 0
        running = self._plan.running(flush_ns)
        for seat in self._seats.values():
            seat.meter.take(seat.spans, seat.measured)
        many = any(seat.meter.waiting > _MANY for seat in self._seats.values())
        if beat or many or self._eager or not running:  # they are published with the beat
            self._read_counters(flush_ns)
        if not running:
            self._forgo(flush_ns)
            return
        fresh = run.number != self._run
        if fresh:
            self._restart(run.epoch)
            self._run = run.number
        flush = Flush(flush_ns, self._clocks.raw.at(flush_ns))
        yield from self._samples(self._links, self._link_probes, begin_ns, flush)
        if beat:
            yield from self._beat(self._links, flush, [("clock_samples", RAW, flush.ticks)], closing)
        yield from self._samples(self._agent, self._device_probes, begin_ns, flush, self._rates)
        if fresh:
            links = {device: seat.meter.link_at(begin_ns) for device, seat in self._devices()}
            rows = inventory_rows(self._scenario, self._spec, self._clocks, begin_ns, links)
            yield from self._agent.publish("inventory", RAW, rows, flush)
        anew = {device: seat.meter.link_at(flush_ns) for device, seat in self._devices()
                if seat.meter.link_at(flush_ns) != seat.meter.link_at(begin_ns)}
        if anew:
            yield from self._agent.publish("inventory", RAW, link_rows(self._spec, self._clocks, flush_ns, anew), flush)
        yield from self._spans(flush)
        if beat:  # counters are quiet: they wait for the beat, spans do not
            yield from self._counters(flush)
        marks = mark_rows(self._scenario, self._spec, self._clocks, begin_ns, flush_ns, fresh=fresh)
        if marks is not None:
            yield from self._agent.publish("marks", RAW, marks, flush)
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
        starts = [part.start for part, _ in self._host_parts()] + [seat.spans.start for _, seat in self._devices()]
        for start_ns in starts:
            self._agent.unrecorded("spans", len(start_ns), start_ns)
        if any(down.forgets and down.from_ns < flush_ns < down.end_ns for down in self._plan.downs):
            for readings in self._read:
                self._agent.unrecorded("counters", len(readings))
            self._read = [Readings() for _ in self._read]

    def _samples(self, producer: Producer, probes: Sequence[Probe], begin_ns: int, flush: Flush,
                 rates: Sequence[tuple[Clock, Clock]] = ()) -> Iterator[Publication]:
        rows = sample_rows(probes, begin_ns, flush.true_ns, rates)
        if rows is not None:
            yield from producer.publish("clock_samples", RAW, rows, flush)

    def _spans(self, flush: Flush) -> Iterator[Publication]:
        """Spans that ended in the chunk: the host's own, then each device's."""
        raw = self._clocks.raw
        parts = [(self._recorded(part, None, flush), seats) for part, seats in self._host_parts()]
        parts = [(part, seats) for part, seats in parts if len(part)]
        if parts:
            starts = np.concatenate([part.start for part, _ in parts])
            yield from self._agent.publish("spans", RAW, host_rows(parts, raw), flush, starts)
        for device, seat in self._devices():
            spans = self._recorded(seat.spans, device, flush)
            if len(spans):
                clock = self._clocks.devices[device]
                rows = device_rows(spans, seat.world.seats, clock, clock.name)
                yield from self._agent.publish("spans", clock.name, rows, flush, spans.start)

    def _devices(self) -> list[tuple[int, Seat]]:
        return sorted(self._seats.items())

    def _host_parts(self) -> list[tuple[HostSpans, Seats]]:
        """Spans of this host's processes, with what the ranks of their worlds are."""
        worlds = list({id(seat.world): seat.world for _, seat in self._devices()}.values())
        return [(world.host_spans(self._spec.index), world.seats) for world in worlds]

    def _recorded(self, spans: S, device: int | None, flush: Flush) -> S:
        """What of the spans the agent has; the rest is counted as unrecorded."""
        recorded = self._plan.recorded(device, spans.start, spans.end, flush.true_ns)
        if recorded.all():
            return spans
        self._agent.unrecorded("spans", int(np.count_nonzero(~recorded)), spans.start[~recorded])
        return taken(spans, recorded)

    def _read_counters(self, flush_ns: int) -> None:
        """Readings since the last time, as far as there is somebody who reads."""
        read = [Readings() for _ in self._read]
        for device, seat in self._devices():
            read[0].extend(seat.demand(self._read_ns, flush_ns))
            read[1 + device] = seat.meter.read(self._read_ns, flush_ns)
        self._read_ns = flush_ns
        for kept, readings in zip(self._read, read, strict=True):
            heard = {at: self._plan.reads(at, flush_ns) for at in dict.fromkeys(readings.time_ns)}
            if not all(heard.values()):
                lost = len(readings)
                readings = _where(readings, [heard[at] for at in readings.time_ns])
                self._agent.unrecorded("counters", lost - len(readings))
            kept.extend(readings)

    def _counters(self, flush: Flush) -> Iterator[Publication]:
        raw, devices = self._clocks.raw, self._clocks.devices
        for number, clock in enumerate((raw, *devices)):
            readings = self._read[number]
            if len(readings):
                batch = counter_batch(readings, clock, clock.name if number else None)
                at_ns = np.array(readings.time_ns, dtype=np.int64)
                batch = self._counter_faults.apply(batch, number - 1 if number else None, at_ns)
                yield from self._agent.publish("counters", clock.name, batch, flush)
                self._read[number] = Readings()

    def _promises(self, flush_ns: int) -> list[tuple[str, str, int]]:
        """(contract, clock, ticks) of the agent: nothing earlier comes later. Spans under way hold theirs back."""
        raw, devices = self._clocks.raw, self._clocks.devices
        promised = [seat.promises() for _, seat in self._devices()]
        promises = [("spans", RAW, raw.at(min([flush_ns, *(host for host, _ in promised)])))]
        promises += [("spans", clock.name, clock.at(min(flush_ns, device)))
                     for clock, (_, device) in zip(devices, promised, strict=True)]
        read_ns = flush_ns - flush_ns % PERIOD_NS - round(JITTER_NS)  # the next reading may come this much early
        promises += [("counters", clock.name, clock.at(read_ns)) for clock in (raw, *devices)]
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


def _where(readings: Readings, keep: Sequence[bool]) -> Readings:
    columns = (getattr(readings, name) for name in Readings.__slots__)
    return Readings(*([value for value, kept in zip(column, keep, strict=True) if kept] for column in columns))


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
