"""The simulated fleet: every host's publications in order of true time, 200 ms at a time, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fleetscope.errors import UsageError
from simulator.clocks import NS, HostClocks, host_clocks
from simulator.faults.plan import HostPlan, host_plan
from simulator.faults.truth import planned_truth
from simulator.host import CHUNK_NS, SimulatedHost
from simulator.producer import Publication
from simulator.scenario import Scenario
from simulator.scenario.faults import CpuContention
from simulator.topology.changes import INCIDENT
from simulator.topology.hosts import HostSpec, host_specs
from simulator.topology.jobs import placements, worlds
from simulator.truth import NoSink, Sink, Tally
from simulator.worlds import DrivenWorld

MAX_SECONDS: Final = 86_400.0 * 30


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """What to simulate; everything follows from it. UsageError for an empty fleet or time, or a scenario it cannot be.

    ``devices`` are those of each host, unless the scenario's groups say otherwise.
    """

    hosts: int
    devices: int
    seconds: float
    seed: int
    start_unix_ns: int
    scenario: Scenario
    drain_seconds: float = 6.0
    specs: tuple[HostSpec, ...] = field(init=False, repr=False, compare=False)
    """The hosts as they are, in order."""

    def __post_init__(self) -> None:
        for name in ("hosts", "devices"):
            if not 1 <= getattr(self, name) <= 10_000:
                raise UsageError(f"an empty fleet cannot run: {name} is {getattr(self, name)}, must be 1 to 10000"
                                 if getattr(self, name) < 1 else f"{name} is {getattr(self, name)}, at most 10000")
        if not 0 < self.seconds <= MAX_SECONDS:
            raise UsageError(f"nothing to simulate: seconds is {self.seconds:g}, must be above 0 and at most 30 days")
        if not 0 <= self.drain_seconds <= 3_600:
            raise UsageError(f"drain seconds is {self.drain_seconds:g}, must be 0 to 3600")
        if self.seed < 0:
            raise UsageError(f"seed is {self.seed}, must not be negative")
        if not 0 <= self.start_unix_ns < 7_000_000_000 * NS:
            raise UsageError(f"start is {self.start_unix_ns} ns since 1970, must be before the year 2190")
        self.scenario.check_run(self.hosts, self.devices, self.seconds)
        object.__setattr__(self, "specs", tuple(host_specs(self.scenario, self.hosts, self.devices)))

    @property
    def run_ns(self) -> int:
        """Length of the workload."""
        return round(self.seconds * NS)

    @property
    def host_names(self) -> list[str]:
        """Names of the hosts, in order."""
        return [f"sim{index:02d}" for index in range(self.hosts)]

    @property
    def epochs(self) -> list[int]:
        """Epoch of each host's producers, in order."""
        return [int(np.random.default_rng([self.seed, 3, index]).integers(1, 1 << 40)) for index in range(self.hosts)]

    def plan(self, host: int) -> HostPlan:
        """What is planned for one host, the same every time."""
        scenario = self.scenario
        return host_plan(scenario.clocks, scenario.collection, host, self.specs[host].devices, self.seconds, self.seed)

    def clocks(self, host: int) -> HostClocks:
        """The clocks of one host, the same every time."""
        spec = self.specs[host]
        return host_clocks(self.seed, host, spec.devices, self.start_unix_ns, spec.machine.tick_hz,
                           self.scenario.clocks, self.plan(host))

    def plain(self) -> dict[str, object]:
        """The configuration as plain data."""
        return {"hosts": self.hosts, "devices": self.devices, "seconds": self.seconds, "seed": self.seed,
                "start_unix_ns": self.start_unix_ns, "drain_seconds": self.drain_seconds,
                "scenario": self.scenario.model_dump(mode="json")}


class Fleet:
    """One run of a fleet. ``publications`` may be taken once; ``tallies`` hold the true counts so far.

    UsageError where a job's work does not fit on its devices.
    """

    def __init__(self, config: FleetConfig, sink: Sink | None = None) -> None:
        self.config = config
        self.tallies: dict[str, Tally] = {}
        self._sink: Sink = sink or NoSink()
        self._names = config.host_names
        replicas = placements(config.scenario, config.specs)
        self._worlds = [
            DrivenWorld(config.scenario, config.specs, places, replicas, config.seed, config.run_ns, number)
            for number, places in enumerate(worlds(config.specs, replicas))]

    def publications(self) -> Iterator[Publication]:
        """All messages of the fleet; with them the truth goes to the sink, which is finished at the end."""
        config = self.config
        clocks = [config.clocks(index) for index in range(config.hosts)]
        hosts = [self._host(index, clocks) for index in range(config.hosts)]
        for world in self._worlds:
            for rank, (host, _) in enumerate(world.places):
                hosts[host].seat(world, rank, config.seed)
        self._planned_truth(clocks)
        end_ns = round((config.seconds + config.drain_seconds) * NS)
        flush_ns = 0
        while True:
            flush_ns += CHUNK_NS
            self._advance(flush_ns)
            last = flush_ns >= end_ns and not any(host.busy for host in hosts)
            for simulated in hosts:
                yield from simulated.flush(flush_ns, closing=last)
            if last:
                break
        self._sink.finish(self.tallies, config.plain())

    def run_causes(self, until_s: float | None = None) -> None:
        """The work of the run (or of its beginning) alone: true causes go to the sink, nothing is published.

        Instead of `publications`.
        """
        until_ns = self.config.run_ns if until_s is None else round(until_s * NS)
        for flush_ns in range(CHUNK_NS, until_ns + CHUNK_NS, CHUNK_NS):
            self._advance(flush_ns)

    def _advance(self, flush_ns: int) -> None:
        for world in self._worlds:
            world.advance(flush_ns)
            world.take()
            self._causes(world)

    def _host(self, index: int, clocks: list[HostClocks]) -> SimulatedHost:
        config = self.config
        peers = sorted({(index + 1) % config.hosts, 0} - {index})  # the ring, and everyone to the first
        return SimulatedHost(self._names[index], config.specs[index], clocks[index],
                             {self._names[peer]: clocks[peer].raw for peer in peers}, config.epochs[index],
                             config.scenario, config.seed, config.run_ns, self.tallies, self._sink, config.plan(index))

    def _planned_truth(self, clocks: list[HostClocks]) -> None:
        """What is known before the run begins: faults and deployments."""
        config = self.config
        for index, name in enumerate(self._names):
            planned_truth(name, clocks[index], config.plan(index), self._sink)
        whole: set[tuple[str, str, int, int]] = set()
        for world in self._worlds:
            for one in world.incidents:
                kind, host = INCIDENT[type(one.fault)], self._names[one.host]
                if isinstance(one.fault, CpuContention) and one.fault.device is None:
                    whole.add((kind, host, one.start_ns, one.end_ns))
                else:
                    self._sink.incident(kind, host, f"dev{one.device}", one.start_ns, one.end_ns)
        for kind, host, start_ns, end_ns in sorted(whole):
            self._sink.incident(kind, host, None, start_ns, end_ns)
        for deployment in config.scenario.deployments:
            effect = deployment.kernels if deployment.kernels != 1 else deployment.host_calls
            scope = "" if deployment.host is None else self._names[deployment.host]
            self._sink.change(round(deployment.at_s * NS), deployment.subject, deployment.version, effect - 1, scope)

    def _causes(self, world: DrivenWorld) -> None:
        slots = world.slots()
        for start_ns, rank, causes in zip(slots.start.tolist(), slots.device.tolist(), slots.ns, strict=True):
            host, device = world.places[rank]
            self._sink.causes(self._names[host], f"dev{device}", start_ns, int(causes.sum()), causes)
