"""One world of the core with the planners that drive it: devices that touch each other through jobs or links."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np

from fleetscope.errors import UsageError
from simulator.causes import CODE
from simulator.engine.program import COLLECTIVE, COPY_IN, COPY_OUT, Ints, Program
from simulator.engine.spec import Device, Group, WorldSpec
from simulator.engine.world import DeviceSpans, HostSpans, Readings, Slots, World
from simulator.physics.pcie import ROUND_TRIP_NS
from simulator.physics.power import INLET_C, dynamic
from simulator.physics.roofline import peak_hbm_bytes_per_s
from simulator.scenario.schema import Scenario
from simulator.spans import FIRST_PROCESS, Seats, taken
from simulator.topology.changes import NS, Held, contention, device_changes, held, link_changes
from simulator.topology.fabric import (
    REMOTE_NODE_NS,
    collective_path,
    copy_paths,
    fabric,
    tag_cap_bytes_per_ns,
)
from simulator.topology.hosts import HostSpec
from simulator.topology.jobs import Place, Replica
from simulator.work.arrivals import NEVER
from simulator.work.names import NAME
from simulator.work.plan import Conditions, Plan, Planner, Seat

LAUNCH_NOISE: Final = 0.2
"""Spread of the launch latency, as a share of it."""
_STEP: Final = NAME["engine.step"]
_CONTENTION: Final = CODE["host_contention"]
_PLANNER, _WORLD = 30, 31


@dataclass(slots=True)
class _Driven:
    """A replica with its planner, as it stands."""

    replica: Replica
    planner: Planner
    ranks: tuple[int, ...]
    """Ranks of the world, in the order of the replica's."""
    running: int = 0
    """Ranks that have not ended their program."""
    wake_ns: int = 0
    """Without programs: when to ask the planner again."""


@dataclass(frozen=True, slots=True)
class Demand:
    """Requests of a rank from a time on."""

    time_ns: int
    running: int
    waiting: int


class DrivenWorld:
    """``advance`` lets time pass; ``take`` gives what ended. Nothing starts at or after ``end_ns``."""

    def __init__(self, scenario: Scenario, hosts: Sequence[HostSpec], places: tuple[Place, ...],
                 replicas: Sequence[Replica], seed: int, end_ns: int, number: int) -> None:
        self.places = places
        self._scenario = scenario
        self._hosts = hosts
        self._end_ns = end_ns
        self._rank = {place: rank for rank, place in enumerate(places)}
        self._held = held(scenario.faults, places, end_ns)
        self._links = fabric(scenario, hosts, places)
        self._groups: list[tuple[Place, ...]] = []
        self._driven = [self._drive(replica, seed) for replica in replicas if replica.places[0] in self._rank]
        self.seats = self._seats()
        self.demand: list[list[Demand]] = [[Demand(0, 0, 0)] for _ in places]
        """By rank, ascending in time; the reader keeps the last."""
        self.waits: list[list[tuple[int, int]]] = [[] for _ in places]
        """By rank: (end of a step, time its process had no processor in it)."""
        self.given: list[Callable[[Program], None]] = [_unheard for _ in places]
        """By rank: who hears of programs."""
        self._contended_ns = [0] * len(places)
        self._world = World(self._spec(seed, number))
        self._records = self._world.take()
        self._by_rank: list[DeviceSpans] = []
        self._by_host: dict[int, HostSpans] = {}
        self._network_ns = self._latencies()
        self._aspm_ns = np.array([hosts[host].pcie.aspm_exit_us * 1e3 if hosts[host].pcie.aspm else 0.0
                                  for host, _ in places])
        self._owner = {rank: driven for driven in self._driven for rank in driven.ranks}

    @property
    def busy(self) -> bool:
        """Whether anything still runs."""
        return any(driven.running for driven in self._driven)

    @property
    def incidents(self) -> list[Held]:
        """Faults at the devices of this world."""
        return self._held

    def advance(self, until_ns: int) -> None:
        """Everything that happens before ``until_ns``."""
        while True:
            for driven in self._driven:
                if not driven.running and driven.wake_ns <= self._world.now_ns:
                    self._plan(driven)
            wake_ns = min((d.wake_ns for d in self._driven if not d.running), default=NEVER)
            idle = self._world.run(min(until_ns, wake_ns))
            for rank, at_ns in idle:
                owner = self._owner.get(rank)
                if owner is None or not owner.running:
                    continue  # it has had no program yet
                owner.running -= 1
                if self._contended_ns[rank]:
                    self.waits[rank].append((at_ns, self._contended_ns[rank]))
                if not owner.running:
                    owner.wake_ns = at_ns
            if not idle and until_ns <= wake_ns:
                return

    def take(self) -> None:
        """Hold what ended since the last take, for the hosts to read."""
        records = self._world.take()
        self._records = records
        alone = len(self.places) == 1
        self._by_rank = [records.device] if alone else _by_rank(records.device, len(self.places))
        hosts = sorted({host for host, _ in self.places})
        if len(hosts) == 1:
            self._by_host = {hosts[0]: records.host}
        else:
            of_rank = np.array([host for host, _ in self.places])[records.host.rank]
            self._by_host = {host: taken(records.host, of_rank == host) for host in hosts}

    def device_spans(self, rank: int) -> DeviceSpans:
        """What ended on a rank's device, in order of ends."""
        return self._by_rank[rank]

    def host_spans(self, host: int) -> HostSpans:
        """What ended of the processes of a host."""
        return self._by_host[host]

    def measured(self, rank: int) -> Readings:
        """What the core measured of a rank's device."""
        readings = self._records.readings
        mine = readings.device == rank
        return Readings(readings.at[mine], readings.device[mine], readings.values[mine])

    def slots(self) -> Slots:
        """True causes of the slots that closed."""
        return self._records.slots

    def promises(self, rank: int) -> tuple[int, int]:
        """Later spans of (the rank's process, its device) start at or after these true times."""
        return int(self._records.host_promise[rank]), int(self._records.device_promise[rank])

    # Planning

    def _plan(self, driven: _Driven) -> None:
        now_ns = self._world.now_ns
        if now_ns >= self._end_ns:
            self._rest(driven, now_ns)
            return
        plan = driven.planner.plan(now_ns, tuple(self._conditions(driven, rank, now_ns) for rank in driven.ranks))
        if not plan.programs:
            self._note(driven, now_ns, plan)
            driven.wake_ns = max(plan.at_ns, now_ns + 1) if plan.at_ns < self._end_ns else NEVER
            return
        if plan.at_ns >= self._end_ns:
            self._rest(driven, now_ns)
            return
        self._note(driven, plan.at_ns, plan)
        for rank, program in zip(driven.ranks, plan.programs, strict=True):
            self.given[rank](program)
            self._contended_ns[rank] = int(program.call_ns[program.cause == _CONTENTION].sum())
            self._world.load(rank, self._latent(rank, program), plan.at_ns, plan.step, demand_ns=plan.demand_ns,
                             step_name=_STEP, step_request=_request_of(program))
        driven.running = len(driven.ranks)

    def _rest(self, driven: _Driven, now_ns: int) -> None:
        """The run is over for it."""
        driven.wake_ns = NEVER
        for rank in driven.ranks:
            self.demand[rank].append(Demand(now_ns, 0, 0))

    def _note(self, driven: _Driven, at_ns: int, plan: Plan) -> None:
        for rank in driven.ranks:
            if at_ns >= self.demand[rank][-1].time_ns:
                self.demand[rank].append(Demand(at_ns, plan.gauges.requests_running, plan.gauges.requests_waiting))

    def _conditions(self, driven: _Driven, rank: int, now_ns: int) -> Conditions:
        place = self.places[rank]
        kernels = calls = 1.0
        for deployment in self._scenario.deployments:
            if deployment.host in (None, place[0]) and deployment.at_s * NS <= now_ns:
                kernels, calls = kernels * deployment.kernels, calls * deployment.host_calls
        return Conditions(contention(self._held, place, now_ns), calls, kernels)

    def _latent(self, rank: int, program: Program) -> Program:
        """The program with what only the fabric knows: latency across hosts, links that have to wake."""
        network = self._network_ns
        across = (program.queue == COLLECTIVE) & (network[np.maximum(program.communicator, 0)] > 0) \
            if network.any() else None
        if across is None and not self._aspm_ns[rank]:
            return program
        fixed = program.fixed_ns.copy()
        if across is not None:
            fixed[across] += network[program.communicator[across]]
        if self._aspm_ns[rank]:
            for queue in (COPY_IN, COPY_OUT):
                first = np.flatnonzero(program.queue == queue)[:1]
                fixed[first] += self._aspm_ns[rank]
        return replace(program, fixed_ns=fixed)

    # Construction

    def _drive(self, replica: Replica, seed: int) -> _Driven:
        scenario, job = self._scenario, self._scenario.jobs[replica.job]
        seats = [Seat(self._hosts[host].machine, job.costs, remote_numa=self._remote(replica, host, device))
                 for host, device in replica.places]
        try:
            planner = job.planner((seed, _PLANNER, replica.number), seats, len(self._groups))
        except UsageError as error:
            raise scenario.source.error(("jobs", replica.job), str(error)) from error
        self._groups += [tuple(replica.places[member] for member in group) for group in planner.groups]
        return _Driven(replica, planner, tuple(self._rank[place] for place in replica.places))

    def _remote(self, replica: Replica, host: int, device: int) -> bool:
        node = self._scenario.jobs[replica.job].numa_node
        return node is not None and node != self._hosts[host].tree.numa[device]

    def _spec(self, seed: int, number: int) -> WorldSpec:
        devices = tuple(self._device(place) for place in self.places)
        groups = tuple(self._group(members) for members in self._groups)
        changes = [*link_changes(self._held, self._links, self._hosts),
                   *device_changes(self._held, self._rank, self._hosts)]
        stream = int(np.random.default_rng([seed, _WORLD, number]).integers(1 << 62))
        return WorldSpec(devices, tuple(self._links.rates), groups, tuple(changes), seed=stream)

    def _device(self, place: Place) -> Device:
        host, m = self._hosts[place[0]], self._hosts[place[0]].machine
        copy_in, copy_out = copy_paths(self._links, host, place[1], remote=False)
        far_in, far_out = copy_paths(self._links, host, place[1], remote=True)
        power = dynamic(m)
        return Device(
            copy_in=copy_in, copy_out=copy_out, copy_in_remote=far_in, copy_out_remote=far_out,
            copy_in_cap=tag_cap_bytes_per_ns(host, ROUND_TRIP_NS),
            copy_in_remote_cap=tag_cap_bytes_per_ns(host, ROUND_TRIP_NS + REMOTE_NODE_NS),
            launch_latency_ns=round(m.launch_latency_ns), launch_noise_ns=round(m.launch_latency_ns * LAUNCH_NOISE),
            queue_depth=m.queue_depth, hbm_bytes_per_ns=peak_hbm_bytes_per_s(m) / 1e9, full_mhz=round(m.clock_mhz),
            min_mhz=round(m.clock_min_mhz), idle_w=m.idle_w, max_w=m.max_w, matrix_w=power.matrix_w,
            vector_w=power.vector_w, hbm_w=power.hbm_w,
            thermal_c_per_w=m.thermal_c_per_w, thermal_s=m.thermal_s, inlet_c=INLET_C, throttle_c=m.throttle_c)

    def _group(self, members: tuple[Place, ...]) -> Group:
        return Group(tuple(self._rank[place] for place in members),
                     collective_path(self._links, self._hosts, members))

    def _latencies(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        """By group: what crossing hosts adds to each collective."""
        extra = self._scenario.fleet.network_latency_us * 1e3
        return np.array([extra if len({host for host, _ in members}) > 1 else 0.0 for members in self._groups] or [0.0])

    def _seats(self) -> Seats:
        count = len(self.places)
        job, rank, replica = (np.zeros(count, dtype=np.int64) for _ in range(3))
        pairs: list[tuple[str, str]] = []
        for driven in self._driven:
            r = driven.replica
            pair = (r.name, self._scenario.jobs[r.job].team)
            if pair not in pairs:
                pairs.append(pair)
            for place, world_rank in enumerate(driven.ranks):
                job[world_rank] = pairs.index(pair)
                rank[world_rank] = r.first_rank + place
                replica[world_rank] = r.number
        process: Ints = np.array([FIRST_PROCESS + device for _, device in self.places], dtype=np.int64)
        return Seats(process, job, rank, replica, tuple(pairs), self._communicators(),
                     tuple(len(members) for members in self._groups))

    def _communicators(self) -> tuple[str, ...]:
        """Names by index: job, its first rank, and number of the group within the replica."""
        names = []
        for driven in self._driven:
            r = driven.replica
            names += [f"{r.name}/{r.first_rank}.{number}" for number in range(len(driven.planner.groups))]
        return tuple(names)


def _unheard(program: Program) -> None:
    """Nobody listens."""


def _by_rank(spans: DeviceSpans, ranks: int) -> list[DeviceSpans]:
    """The spans of each rank in their order."""
    order = np.argsort(spans.rank, kind="stable")
    edges = np.searchsorted(spans.rank[order], np.arange(ranks + 1))
    return [taken(spans, order[low:high]) for low, high in pairwise(edges.tolist())]


def _request_of(program: Program) -> int:
    """Request that the whole step serves, or none."""
    return int(program.request[0]) if len(program) and (program.request == program.request[0]).all() else -1
