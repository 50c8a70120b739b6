"""The simulated fleet: every host's publications in order of true time, 200 ms at a time, with bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np

from fleetscope.errors import UsageError
from simulator.clocks import NS, HostClocks, host_clocks
from simulator.faults.plan import HostPlan, host_plan, impossible, refuse
from simulator.faults.truth import planned_truth
from simulator.host import CHUNK_NS, SimulatedHost
from simulator.producer import Publication
from simulator.scenario import Scenario
from simulator.truth import NoSink, Sink, Tally

MAX_SECONDS: Final = 86_400.0 * 30


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """What to simulate; everything follows from it. UsageError for an empty fleet or an empty time."""

    hosts: int
    devices: int
    seconds: float
    seed: int
    start_unix_ns: int
    scenario: Scenario
    drain_seconds: float = 6.0

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
        scenario = self.scenario
        refuse(impossible(scenario.clocks, scenario.collection, self.hosts, self.devices, self.seconds), scenario.name)

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
        return host_plan(scenario.clocks, scenario.collection, host, self.devices, self.seconds, self.seed)

    def clocks(self, host: int) -> HostClocks:
        """The clocks of one host, the same every time."""
        return host_clocks(self.seed, host, self.devices, self.start_unix_ns, self.scenario.device.tick_hz,
                           self.scenario.clocks, self.plan(host))

    def plain(self) -> dict[str, object]:
        """The configuration as plain data."""
        fields = asdict(self)
        return {**fields, "scenario": self.scenario.model_dump()}


class Fleet:
    """One run of a fleet. ``publications`` may be taken once; ``tallies`` hold the true counts so far."""

    def __init__(self, config: FleetConfig, sink: Sink | None = None) -> None:
        self.config = config
        self.tallies: dict[str, Tally] = {}
        self._sink: Sink = sink or NoSink()

    def publications(self) -> Iterator[Publication]:
        """All messages of the fleet; with them the truth goes to the sink, which is finished at the end."""
        config = self.config
        clocks = [config.clocks(index) for index in range(config.hosts)]
        hosts = [self._host(index, clocks) for index in range(config.hosts)]
        for index, name in enumerate(config.host_names):
            planned_truth(name, clocks[index], config.plan(index), self._sink)
        end_ns = round((config.seconds + config.drain_seconds) * NS)
        flush_ns = 0
        while True:
            flush_ns += CHUNK_NS
            for host in hosts:
                host.advance(flush_ns)
            last = flush_ns >= end_ns and not any(host.busy for host in hosts)
            for host in hosts:
                yield from host.flush(flush_ns, closing=last)
            if last:
                break
        self._sink.finish(self.tallies, config.plain())

    def _host(self, index: int, clocks: list[HostClocks]) -> SimulatedHost:
        config = self.config
        names = config.host_names
        peers = sorted({(index + 1) % config.hosts, 0} - {index})  # the ring, and everyone to the first
        return SimulatedHost(names[index], index, clocks[index], {names[peer]: clocks[peer].raw for peer in peers},
                             config.epochs[index], config.scenario, config.seed, round(config.seconds * NS),
                             self.tallies, self._sink, config.plan(index))
