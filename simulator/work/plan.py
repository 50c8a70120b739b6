"""What a planner hands to the fleet: the next step of every rank of a replica, and what was asked of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from simulator.engine.program import Program
from simulator.machine import Machine
from simulator.work.hosts import HostCosts

WARM_UP_NS: Final = 50_000_000
"""No work before this: collection is up first."""


@dataclass(frozen=True, slots=True)
class Seat:
    """What one rank runs on. Factors stretch times: 1.1 is a rank 10 % slower than its peers."""

    machine: Machine
    host: HostCosts = HostCosts()
    host_factor: float = 1.0
    device_factor: float = 1.0
    remote_numa: bool = False
    """Copies cross to the other socket."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What holds for one rank now: faults and deployments of the moment."""

    contention: float = 1.0
    """Wall time over processor time of the host's thread, at least 1; the rest is charged to host_contention."""
    host_factor: float = 1.0
    """Host code takes so many times its usual time (a deployment that makes it slower)."""
    device_factor: float = 1.0
    """Device work takes so many times its usual time."""


IDEAL: Final = Conditions()


@dataclass(frozen=True, slots=True)
class Gauges:
    """State of a replica as a step begins. Shares are 0..1; NaN: the workload has none."""

    requests_running: int = 0
    requests_waiting: int = 0
    batch_size: int = 0
    kv_used_share: float = float("nan")


@dataclass(frozen=True, slots=True)
class Plan:
    """The next step. Without programs nothing is to run before ``at_ns``: ask again then (NEVER: not at all)."""

    step: int
    at_ns: int
    """Not before this time of truth, on every rank."""
    demand_ns: int
    """A request is pending from this time on, at most ``at_ns``; until then the devices idle without demand. No later
    than the call's time: demand did not stop."""
    programs: tuple[Program, ...]
    """One a rank, in order of the replica's ranks."""
    gauges: Gauges
    """As of ``at_ns`` with programs, as of the call without."""


class Planner(Protocol):
    """Plans the steps of one replica. Same configuration, seed and calls: same plans."""

    ranks: int
    """Ranks of the replica."""
    groups: tuple[tuple[int, ...], ...]
    """Members (ranks of the replica, from 0) of each communicator; ``Program.communicator`` is the index here plus
    ``first_group``."""

    def plan(self, now_ns: int, conditions: tuple[Conditions, ...] = ()) -> Plan:
        """The step after the last. ``now_ns``: all ranks have ended their last; ``conditions``: one a rank, or none.

        Ranks that share a step end it together: its last collective has all of them.
        """
