"""Physical faults as what changes in a world at which time, and as incidents of the truth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from simulator.engine.spec import Change
from simulator.physics.pcie import RETRAIN_NS
from simulator.physics.power import INLET_C
from simulator.scenario.faults import (
    CpuContention,
    LinkDowngrade,
    LinkRetraining,
    NoisyNeighbour,
    PowerCap,
    Replays,
    Straggler,
    ThermalThrottle,
    Timed,
)
from simulator.topology.fabric import Fabric, Port, host_bytes_per_ns
from simulator.topology.hosts import HostSpec
from simulator.topology.jobs import Place

NS: Final = 1_000_000_000
INCIDENT: Final[dict[type[Timed], str]] = {
    LinkDowngrade: "degraded_link", LinkRetraining: "link_retraining", Replays: "pcie_replays",
    ThermalThrottle: "throttling", PowerCap: "throttling", NoisyNeighbour: "noisy_neighbour",
    CpuContention: "cpu_contention", Straggler: "straggler",
}
"""Kind of incident that the truth names."""


@dataclass(frozen=True, slots=True)
class Held:
    """A fault at one device, in [start, end)."""

    fault: Timed
    host: int
    device: int
    start_ns: int
    end_ns: int


def held(faults: Sequence[Timed], places: Sequence[Place], run_ns: int) -> list[Held]:
    """Every fault at every device of ``places`` that it concerns, cut to the run."""
    found = []
    for fault in faults:
        start = round(fault.at_s * NS)
        end = min(run_ns, start + round(fault.for_s * NS)) if fault.for_s is not None else run_ns
        found += [Held(fault, host, device, start, end) for host, device in places
                  if fault.host in (None, host) and fault.device in (None, device)]
    return found


def link_changes(found: Sequence[Held], made: Fabric, hosts: Sequence[HostSpec]) -> list[Change]:
    """Rates of links over time; faults that hold at once multiply."""
    effects: dict[tuple[int, int], list[_Effect]] = defaultdict(list)
    for one in found:
        for where, effect in _effects(one, hosts[one.host]):
            if effect not in effects[where]:  # several devices below one uplink bring the same effect
                effects[where].append(effect)
    changes = []
    for key, mine in sorted(effects.items(), key=lambda item: item[0]):
        port = made.ports[key]
        for at in sorted({time for effect in mine for time in (effect.start_ns, effect.end_ns)}):
            down, up = _rates(port, mine, at)
            changes += [Change(at, "link", port.down, down), Change(at, "link", port.up, up)]
    return changes


def device_changes(found: Sequence[Held], rank: dict[Place, int], hosts: Sequence[HostSpec]) -> list[Change]:
    """Slowness of stragglers, air and power limits; of faults that hold at once at one device the last one counts."""
    changes = []
    for one in found:
        index, fault = rank[one.host, one.device], one.fault
        if isinstance(fault, Straggler):
            changes += [Change(one.start_ns, "slowness", index, fault.slowdown),
                        Change(one.end_ns, "slowness", index, 1.0)]
        elif isinstance(fault, ThermalThrottle):
            changes += [Change(one.start_ns, "inlet", index, fault.inlet_c),
                        Change(one.end_ns, "inlet", index, INLET_C)]
        elif isinstance(fault, PowerCap):
            changes += [Change(one.start_ns, "power_limit", index, fault.watts),
                        Change(one.end_ns, "power_limit", index, hosts[one.host].machine.max_w)]
    return changes


@dataclass(frozen=True, slots=True)
class _Effect:
    """In [start, end) a link's rates are those of ``rates`` (None: as before) times ``factor``."""

    start_ns: int
    end_ns: int
    factor: float
    rates: tuple[float, float] | None = None


def _effects(one: Held, host: HostSpec) -> Iterator[tuple[tuple[int, int], _Effect]]:
    """(host, link of its tree) and what happens to it."""
    path = host.tree.paths[one.device]
    own, nearest = (one.host, path[0]), (one.host, path[-1])
    fault = one.fault
    if isinstance(fault, LinkDowngrade):
        link = host.tree.links[path[0]]
        rates = host_bytes_per_ns(host, min(link.gt_s, fault.gt_s or link.gt_s),
                                  min(link.lanes, fault.lanes or link.lanes))
        settled = min(one.start_ns + round(RETRAIN_NS), one.end_ns)
        yield own, _Effect(one.start_ns, settled, 0.0)
        yield own, _Effect(settled, one.end_ns, 1.0, rates)
    elif isinstance(fault, LinkRetraining):
        every, stall = max(1, round(fault.every_ms * 1e6)), round(fault.stall_ms * 1e6)
        for start in range(one.start_ns, one.end_ns, every):
            yield own, _Effect(start, min(start + min(stall, every - 1), one.end_ns), 0.0)
    elif isinstance(fault, Replays):
        yield own, _Effect(one.start_ns, one.end_ns, 1.0 - fault.share)
    elif isinstance(fault, NoisyNeighbour):
        yield nearest, _Effect(one.start_ns, one.end_ns, 1.0 - fault.share)


def _rates(port: Port, effects: Sequence[_Effect], at_ns: int) -> tuple[float, float]:
    """(to the device, from it) from ``at_ns`` on."""
    down, up = port.down_bytes_per_ns, port.up_bytes_per_ns
    holding = [effect for effect in effects if effect.start_ns <= at_ns < effect.end_ns]
    for effect in holding:
        if effect.rates is not None:
            down, up = min(down, effect.rates[0]), min(up, effect.rates[1])
    for effect in holding:
        down, up = down * effect.factor, up * effect.factor
    return down, up


def contention(found: Sequence[Held], place: Place, at_ns: int) -> float:
    """Wall time over processor time of the threads of the device at ``place``."""
    factor = 1.0
    for one in found:
        if isinstance(one.fault, CpuContention) and (one.host, one.device) == place \
                and one.start_ns <= at_ns < one.end_ns:
            factor /= 1.0 - one.fault.share
    return factor
