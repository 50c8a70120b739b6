"""Root ports, switches and endpoints of one host, and the links a transfer of each device crosses.

Every node but a root port has one link towards the root, its own; a device at a root port shares its link with nobody,
the uplink of a switch is shared by everything below it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from simulator.scenario.pcie import Endpoint, Pcie, RootPort, Switch

MAX_HOPS: Final = 16


class TopologyError(ValueError):
    """A fabric that cannot be; ``path`` names the key within the section."""

    def __init__(self, path: tuple[str | int, ...], reason: str) -> None:
        super().__init__(reason)
        self.path = path


@dataclass(frozen=True, slots=True)
class Link:
    """One link, as negotiated (``gt_s``, ``lanes``) and as both of its ends could do (``max_*``)."""

    name: str
    parent: str
    """Port that the link's lower end hangs on."""
    gt_s: float
    lanes: int
    max_gt_s: float
    max_lanes: int
    device: int | None
    """Device at the lower end; None: a switch."""


@dataclass(frozen=True, slots=True)
class Tree:
    """Links of a host; ``paths[d]`` are the indices of those that transfers of device d cross, its own first."""

    links: tuple[Link, ...]
    paths: tuple[tuple[int, ...], ...]
    numa: tuple[int, ...]
    """Node of the processor that each device hangs on."""
    root_ports: tuple[RootPort, ...]
    switches: tuple[Switch, ...]

    def sharing(self) -> tuple[tuple[int, ...], ...]:
        """Groups of devices, in order, that share a link with each other, directly or through others."""
        group = list(range(len(self.paths)))
        users: dict[int, int] = {}
        for device, path in enumerate(self.paths):
            for link in path:
                first = users.setdefault(link, device)
                old, new = group[device], group[first]
                group = [new if g == old else g for g in group]
        return tuple(tuple(d for d, g in enumerate(group) if g == wanted) for wanted in sorted(set(group)))


def tree(pcie: Pcie, devices: int, gt_s: float, lanes: int) -> Tree:
    """The tree of a host with ``devices`` devices whose links can do ``gt_s`` and ``lanes``. TopologyError: why not."""
    ports, switches, ends = (pcie.root_ports, pcie.switches, pcie.endpoints) if pcie.endpoints else \
        _laid_out(pcie, devices, gt_s, lanes)
    _check_names(ports, switches, ends, devices)
    upstream = {switch.name: switch.upstream for switch in switches}
    port_of = {port.name: port for port in ports}
    _check_switches(switches, upstream, port_of)
    links = [_uplink(switch, port_of) for switch in switches]
    at = {switch.name: index for index, switch in enumerate(switches)}
    paths, numa = [], []
    for end in sorted(ends, key=lambda e: e.device):
        links.append(_endlink(pcie, end, port_of, gt_s, lanes))
        way, root = _to_root(end.upstream, upstream, at)
        paths.append((len(links) - 1, *way))
        numa.append(port_of[root].numa)
    _check_ports(pcie, ports, links)
    return Tree(tuple(links), tuple(paths), tuple(numa), ports, switches)


def _laid_out(pcie: Pcie, devices: int, gt_s: float, lanes: int) \
        -> tuple[tuple[RootPort, ...], tuple[Switch, ...], tuple[Endpoint, ...]]:
    """Ports and switches of the layout; they are spread over the nodes in order."""
    each = pcie.devices_per_switch if pcie.layout == "switched" else 1
    count = -(-devices // each)
    nodes = [index * pcie.numa_nodes // count for index in range(count)]
    speed, width = (pcie.uplink_gt_s, pcie.uplink_lanes) if pcie.layout == "switched" else (gt_s, lanes)
    ports = tuple(RootPort(name=f"rp{i}", numa=node, gt_s=speed, lanes=width) for i, node in enumerate(nodes))
    if pcie.layout == "direct":
        return ports, (), tuple(Endpoint(device=d, upstream=f"rp{d}") for d in range(devices))
    switches = tuple(Switch(name=f"sw{i}", upstream=f"rp{i}", gt_s=pcie.uplink_gt_s, lanes=pcie.uplink_lanes)
                     for i in range(count))
    return ports, switches, tuple(Endpoint(device=d, upstream=f"sw{d // each}") for d in range(devices))


def _check_names(ports: tuple[RootPort, ...], switches: tuple[Switch, ...], ends: tuple[Endpoint, ...],
                 devices: int) -> None:
    seen: set[str] = set()
    named = [("root_ports", index, port.name) for index, port in enumerate(ports)]
    named += [("switches", index, switch.name) for index, switch in enumerate(switches)]
    for key, index, name in named:
        if name in seen:
            raise TopologyError((key, index, "name"), f"there are two ports called {name}")
        seen.add(name)
    found = Counter(end.device for end in ends)
    for index, end in enumerate(ends):
        if end.upstream not in seen:
            raise TopologyError(("endpoints", index, "upstream"), f"there is no root port or switch {end.upstream!r}")
        if found[end.device] > 1:
            raise TopologyError(("endpoints", index, "device"), f"device {end.device} hangs on two ports")
        if end.device >= devices:
            raise TopologyError(("endpoints", index, "device"),
                                f"there is no device {end.device}: the host has {devices}")
    for device in range(devices):
        if device not in found:
            raise TopologyError(("endpoints",), f"device {device} hangs nowhere: the host has {devices} devices")


def _check_switches(switches: tuple[Switch, ...], upstream: dict[str, str], ports: dict[str, RootPort]) -> None:
    for index, switch in enumerate(switches):
        where: tuple[str | int, ...] = ("switches", index, "upstream")
        above, passed = switch.upstream, [switch.name]
        while above in upstream:
            if above in passed:
                raise TopologyError(where, f"the topology has a cycle: {' - '.join([*passed, above])}")
            passed.append(above)
            above = upstream[above]
        if above not in ports:
            raise TopologyError(where, f"there is no root port or switch {above!r}")
        if len(passed) > MAX_HOPS:
            raise TopologyError(where, f"more than {MAX_HOPS} switches in a row")
        for end, capability in (("gt_s", switch.max_gt_s), ("lanes", switch.max_lanes)):
            if capability is not None and getattr(switch, end) > capability:
                raise TopologyError(("switches", index, end), f"{getattr(switch, end):g} is more than the uplink can "
                                                              f"do, {capability:g}")


def _uplink(switch: Switch, ports: dict[str, RootPort]) -> Link:
    return Link(f"{switch.name}/uplink", switch.upstream, switch.gt_s, switch.lanes, switch.max_gt_s or switch.gt_s,
                switch.max_lanes or switch.lanes, None)


def _endlink(pcie: Pcie, end: Endpoint, ports: dict[str, RootPort], gt_s: float, lanes: int) -> Link:
    port = ports.get(end.upstream)
    most_gt_s, most_lanes = (min(gt_s, port.gt_s), min(lanes, port.lanes)) if port else (gt_s, lanes)
    speed, width = end.gt_s or pcie.gt_s or most_gt_s, end.lanes or pcie.lanes or most_lanes
    for key, value, most in (("gt_s", speed, most_gt_s), ("lanes", width, most_lanes)):
        if value > most:
            stated = getattr(end, key) is not None and end in pcie.endpoints
            where = ("endpoints", pcie.endpoints.index(end), key) if stated else (key,)
            raise TopologyError(where, f"device {end.device} negotiates {value:g}, but device and port can do {most:g}")
    return Link(f"dev{end.device}/pcie", end.upstream, speed, width, most_gt_s, most_lanes, end.device)


def _to_root(upstream: str, above: dict[str, str], at: dict[str, int]) -> tuple[list[int], str]:
    """Uplinks from a port to the root, and the root port."""
    way = []
    while upstream in above:
        way.append(at[upstream])
        upstream = above[upstream]
    return way, upstream


def _check_ports(pcie: Pcie, ports: tuple[RootPort, ...], links: list[Link]) -> None:
    """A root port has one link, no wider or faster than itself, and a node has lanes for all its ports."""
    for index, port in enumerate(ports):
        below = [link for link in links if link.parent == port.name]
        where = ("root_ports", index) if pcie.endpoints else ("layout",)
        if len(below) > 1:
            names = " and ".join(link.name for link in below)
            raise TopologyError(where, f"root port {port.name} has one link, but {names} hang on it; "
                                       "put a switch between")
        for link in below:
            if link.lanes > port.lanes or link.gt_s > port.gt_s:
                raise TopologyError(where, f"{link.name} negotiates x{link.lanes} at {link.gt_s:g} GT/s, but root port "
                                           f"{port.name} has x{port.lanes} at {port.gt_s:g} GT/s")
    for node in sorted({port.numa for port in ports}):
        wanted = sum(port.lanes for port in ports if port.numa == node)
        if wanted > pcie.lanes_per_node:
            raise TopologyError(("lanes_per_node",), f"the root ports of node {node} take {wanted} lanes, "
                                                     f"but it has {pcie.lanes_per_node}")
