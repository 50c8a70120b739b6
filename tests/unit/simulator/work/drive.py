"""A world of one replica for tests: no one else on its links."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from simulator.causes import NAMES
from simulator.engine.spec import Device, Group, WorldSpec
from simulator.engine.world import DeviceSpans, World
from simulator.machine import Machine
from simulator.physics.roofline import peak_hbm_bytes_per_s
from simulator.work.names import NAMES as WORDS
from simulator.work.plan import Plan, Planner

PCIE_BYTES_PER_NS = 26.0


@dataclass(frozen=True)
class Driven:
    """What a replica did."""

    plans: list[Plan]
    device: list[DeviceSpans]
    cause_ns: dict[str, int]
    """Of all devices together, closed slots only."""
    end_ns: int

    def spans(self, name: str) -> list[tuple[int, int, int]]:
        """(start, end, rank) of the device spans of a name."""
        return [(int(start), int(end), int(rank)) for spans in self.device
                for start, end, rank, code in zip(spans.start, spans.end, spans.rank, spans.name, strict=True)
                if code >= 0 and WORDS[code] == name]


def drive(planner: Planner, machines: Sequence[Machine], until_ns: int) -> Driven:
    """Run ``planner`` on its own links until no step begins before ``until_ns``."""
    ranks = range(planner.ranks)
    links = [PCIE_BYTES_PER_NS] * (2 * planner.ranks) + [max(m.fabric_bytes_per_s / 1e9, 10.0) for m in machines]
    devices = tuple(Device((rank,), (planner.ranks + rank,), launch_latency_ns=2_500,
                           hbm_bytes_per_ns=peak_hbm_bytes_per_s(machines[rank]) / 1e9) for rank in ranks)
    groups = tuple(Group(members, tuple(2 * planner.ranks + member for member in members))
                   for members in planner.groups)
    world = World(WorldSpec(devices, tuple(links), groups, seed=1))
    plans: list[Plan] = []
    records = []
    now_ns = 0
    while now_ns < until_ns:
        plan = planner.plan(now_ns)
        if not plan.programs:
            if plan.at_ns >= until_ns:
                break
            now_ns = plan.at_ns
            continue
        plans.append(plan)
        for rank, program in enumerate(plan.programs):
            world.load(rank, program, plan.at_ns, plan.step, demand_ns=plan.demand_ns)
        running = planner.ranks
        while running:
            ended = world.run(1 << 61)
            running -= len(ended)
        now_ns = world.now_ns
        records.append(world.take())
    causes = np.sum([record.slots.ns.sum(axis=0) for record in records], axis=0)
    return Driven(plans, [record.device for record in records], dict(zip(NAMES, causes.tolist(), strict=True)), now_ns)
