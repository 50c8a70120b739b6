"""Every host of a fleet as it is: its machine, its number of devices and its PCIe tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from simulator.machine import Machine
from simulator.scenario.pcie import Pcie
from simulator.topology.tree import TopologyError, Tree, tree

if TYPE_CHECKING:
    from simulator.scenario.schema import Scenario


@dataclass(frozen=True, slots=True)
class HostSpec:
    """One host; every device of it is of one kind."""

    index: int
    machine: Machine
    devices: int
    pcie: Pcie
    tree: Tree

    @property
    def mps_bytes(self) -> int:
        """Payload of one packet at most, as negotiated."""
        return min(self.pcie.mps_bytes or self.machine.pcie_mps_bytes, self.machine.pcie_mps_bytes)

    @property
    def mrrs_bytes(self) -> int:
        """Bytes one read request asks for at most."""
        return self.pcie.mrrs_bytes or self.machine.pcie_mrrs_bytes


def host_specs(scenario: Scenario, hosts: int, devices: int) -> list[HostSpec]:
    """The hosts in order; ``devices`` holds where a group states none. UsageError for a fabric that cannot be."""
    members = [index for index, group in enumerate(scenario.fleet.groups) for _ in range(group.hosts)]
    made: dict[int, HostSpec] = {}
    specs = []
    for host in range(hosts):
        group = members[host % len(members)] if members else -1
        if group not in made:
            made[group] = _spec(scenario, group, devices)
        like = made[group]
        specs.append(HostSpec(host, like.machine, like.devices, like.pcie, like.tree))
    return specs


def _spec(scenario: Scenario, group: int, devices: int) -> HostSpec:
    own = scenario.fleet.groups[group] if group >= 0 else None
    machine = own.machine if own and own.machine else scenario.machine
    count = own.devices if own and own.devices else devices
    pcie, prefix = (own.pcie, ("fleet", "groups", group, "pcie")) if own and own.pcie else (scenario.pcie, ("pcie",))
    try:
        made = tree(pcie, count, machine.pcie_gt_s, machine.pcie_lanes)
    except TopologyError as error:
        raise scenario.source.error((*prefix, *error.path), str(error)) from error
    return HostSpec(0, machine, count, pcie, made)
