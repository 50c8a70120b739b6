"""Which rank of which job runs where: replicas over hosts and devices, no device twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.topology.hosts import HostSpec

if TYPE_CHECKING:
    from simulator.scenario.jobs import AnyJob
    from simulator.scenario.schema import Scenario

Place = tuple[int, int]
"""(host, device)."""


@dataclass(frozen=True, slots=True)
class Replica:
    """Ranks that one planner drives together."""

    job: int
    """Index in ``Scenario.jobs``."""
    name: str
    """Job as spans state it."""
    number: int
    """Number of the replica in the fleet; seeds of its planner follow from it."""
    first_rank: int
    """Rank of its first place within the job; the others follow."""
    places: tuple[Place, ...]


def placements(scenario: Scenario, hosts: Sequence[HostSpec]) -> list[Replica]:
    """The replicas of every job in order. UsageError for ranks that are none, taken twice or do not divide."""
    taken: dict[Place, str] = {}
    replicas: list[Replica] = []
    for index, job in enumerate(scenario.jobs):
        places = _places(scenario, index, hosts, taken)
        taken.update(dict.fromkeys(places, job.name))
        parts = [(f"{job.name}-{h}", [p for p in places if p[0] == h]) for h in sorted({h for h, _ in places})] \
            if job.per_host else [(job.name, places)]
        for name, mine in parts:
            for first, chosen in _split(scenario, index, mine):
                replicas.append(Replica(index, name, len(replicas), first, tuple(chosen)))
    return replicas


def worlds(hosts: Sequence[HostSpec], replicas: Sequence[Replica]) -> list[tuple[Place, ...]]:
    """Sets of devices, in order, that touch each other through a replica or a link."""
    first: dict[Place, Place] = {(host.index, device): (host.index, device) for host in hosts
                                 for device in range(host.devices)}

    def find(place: Place) -> Place:
        while first[place] != place:
            place = first[place]
        return place

    def join(places: Sequence[Place]) -> None:
        roots = sorted({find(place) for place in places})
        for root in roots[1:]:
            first[root] = roots[0]

    for replica in replicas:
        join(replica.places)
    for host in hosts:
        for devices in host.tree.sharing():
            join([(host.index, device) for device in devices])
    members: dict[Place, list[Place]] = {}
    for place in sorted(first):
        members.setdefault(find(place), []).append(place)
    return [tuple(places) for _, places in sorted(members.items())]


def _places(scenario: Scenario, index: int, hosts: Sequence[HostSpec], taken: dict[Place, str]) -> list[Place]:
    job = scenario.jobs[index]
    _known(scenario, index, "hosts", job.hosts, len(hosts))
    chosen = [host for host in hosts if job.hosts is None or host.index in job.hosts]
    _known(scenario, index, "devices", job.devices, max(host.devices for host in chosen))
    asked = [(host.index, device) for host in chosen for device in range(host.devices)
             if job.devices is None or device in job.devices]
    if job.hosts is None and job.devices is None:
        asked = [place for place in asked if place not in taken]
    for host, device in asked:
        if (host, device) in taken:
            raise scenario.source.error(("jobs", index, "devices" if job.devices is not None else "hosts"),
                                        f"device {device} of host {host} belongs to job {taken[host, device]} already")
    if not asked:
        raise scenario.source.error(("jobs", index), "no device is left for it")
    return asked


def _known(scenario: Scenario, index: int, key: str, wanted: tuple[int, ...] | None, count: int) -> None:
    for value in wanted or ():
        if value >= count:
            raise scenario.source.error(("jobs", index, key), f"there is no {key[:-1]} {value}: there are {count}")


def _split(scenario: Scenario, index: int, places: list[Place]) -> list[tuple[int, list[Place]]]:
    """(first rank, places) of each replica."""
    job: AnyJob = scenario.jobs[index]
    size = job.ranks_of_replica(len(places))
    if len(places) % size:
        raise scenario.source.error(("jobs", index),
                                    f"{len(places)} devices do not divide into replicas of {size} ranks")
    return [(first, places[first:first + size]) for first in range(0, len(places), size)]
