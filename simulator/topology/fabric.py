"""The links of one world as the core takes them: PCIe in both directions, device fabric, network, and their faults.

Every PCIe link is two links of the core, towards the device and from it, each at its ceiling for payload (bytes/ns). A
transfer of a device needs every link of its path at once; what read requests take of the other direction is left out,
it is under 5 % at usual request sizes. Copies whose buffers lie on another node of the processor cross the link between
nodes, too. Collectives within a host take the device fabric where the machine has one, else the PCIe links of their
members in both directions; across hosts they take the network of every host involved, as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from simulator.physics.pcie import ROUND_TRIP_NS, Link
from simulator.scenario.schema import Scenario
from simulator.topology.hosts import HostSpec
from simulator.topology.jobs import Place

REMOTE_NODE_NS: Final = 400.0
"""Added to the round trip by the link between the nodes of a processor."""
NODE_LINK_BYTES_PER_NS: Final = 20.0
"""What devices get of the link between nodes, each direction; assumed, well below the link's own rate."""


@dataclass(frozen=True, slots=True)
class Port:
    """One link of a host's tree within the world's list."""

    down: int
    """Index of its direction towards the device."""
    up: int
    down_bytes_per_ns: float
    up_bytes_per_ns: float


@dataclass(slots=True)
class Fabric:
    """Links of a world, by rate, and where each thing of a host is among them."""

    rates: list[float] = field(default_factory=list)
    ports: dict[tuple[int, int], Port] = field(default_factory=dict)
    """(host, index in its tree) → port."""
    nodes: dict[tuple[int, str], int] = field(default_factory=dict)
    """(host, direction) → link between its nodes."""
    network: dict[tuple[int, str], int] = field(default_factory=dict)
    device: dict[Place, int] = field(default_factory=dict)
    """Device → its link of the device fabric."""

    def add(self, rate: float) -> int:
        """Index of a new link."""
        self.rates.append(rate)
        return len(self.rates) - 1


def pcie_link(host: HostSpec, gt_s: float, lanes: int, round_trip_ns: float = ROUND_TRIP_NS) -> Link:
    """A link of this host as negotiated."""
    return Link(gt_s, lanes, host.mps_bytes, host.mrrs_bytes, tags=host.machine.dma_tags, round_trip_ns=round_trip_ns)


def wire_bytes_per_ns(link: Link) -> tuple[float, float]:
    """Payload (to the device, from it) of packets on the link, whatever tags allow."""
    packets = link.packet_bytes_per_s / 1e9
    return packets / link.wire_bytes_a_byte("h2d"), packets / link.wire_bytes_a_byte("d2h")


def host_bytes_per_ns(host: HostSpec, gt_s: float, lanes: int) -> tuple[float, float]:
    """As `wire_bytes_per_ns`, with what the host grants of writes."""
    down, up = wire_bytes_per_ns(pcie_link(host, gt_s, lanes))
    return down, up * host.pcie.write_share


def tag_cap_bytes_per_ns(host: HostSpec, round_trip_ns: float) -> float:
    """Most that one device's reads reach: all requests under way."""
    return pcie_link(host, 1.0, 1, round_trip_ns).tag_limit_bytes_per_s() / 1e9


def fabric(scenario: Scenario, hosts: Sequence[HostSpec], places: Sequence[Place]) -> Fabric:
    """The links that devices at ``places`` use."""
    made = Fabric()
    for index in sorted({host for host, _ in places}):
        host = hosts[index]
        mine = [device for h, device in places if h == index]
        for link in sorted({link for device in mine for link in host.tree.paths[device]}):
            tree_link = host.tree.links[link]
            down, up = host_bytes_per_ns(host, tree_link.gt_s, tree_link.lanes)
            made.ports[index, link] = Port(made.add(down), made.add(up), down, up)
        if len(set(host.tree.numa)) > 1 or any(job.numa_node is not None for job in scenario.jobs):
            made.nodes[index, "down"] = made.add(NODE_LINK_BYTES_PER_NS)
            made.nodes[index, "up"] = made.add(NODE_LINK_BYTES_PER_NS)
        made.network[index, "out"] = made.add(scenario.fleet.network_gbit_s / 8)
        if host.machine.fabric_bytes_per_s:
            for device in mine:
                made.device[index, device] = made.add(host.machine.fabric_bytes_per_s / 1e9)
    return made


def copy_paths(made: Fabric, host: HostSpec, device: int, *, remote: bool) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Links of copies (to the device, from it), with the buffers on its own node or another."""
    ports = [made.ports[host.index, link] for link in host.tree.paths[device]]
    down, up = tuple(port.down for port in ports), tuple(port.up for port in ports)
    if remote and (host.index, "down") in made.nodes:
        down, up = (*down, made.nodes[host.index, "down"]), (*up, made.nodes[host.index, "up"])
    return down, up


def collective_path(made: Fabric, hosts: Sequence[HostSpec], members: Sequence[Place]) -> tuple[int, ...]:
    """Links that a collective of ``members`` uses at once."""
    path: set[int] = set()
    for index in sorted({host for host, _ in members}):
        mine = [(h, device) for h, device in members if h == index]
        if all(place in made.device for place in mine):
            path.update(made.device[place] for place in mine)
        else:
            for port in (made.ports[index, link] for _, device in mine for link in hosts[index].tree.paths[device]):
                path.update((port.down, port.up))
    if len({host for host, _ in members}) > 1:
        path.update(made.network[host, "out"] for host in sorted({host for host, _ in members}))
    return tuple(sorted(path))
