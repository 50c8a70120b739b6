from __future__ import annotations

import pytest

from simulator.scenario.pcie import Endpoint, Pcie, RootPort, Switch
from simulator.topology.tree import TopologyError, tree


def ends(*pairs: tuple[int, str]) -> tuple[Endpoint, ...]:
    return tuple(Endpoint(device=device, upstream=port) for device, port in pairs)


RP = RootPort(name="rp0")


def test_devices_at_ports_of_their_own_share_nothing() -> None:
    made = tree(Pcie(numa_nodes=2), 4, 16.0, 8)
    assert [link.name for link in made.links] == [f"dev{i}/pcie" for i in range(4)]
    assert made.paths == ((0,), (1,), (2,), (3,))
    assert made.numa == (0, 0, 1, 1)
    assert made.sharing() == ((0,), (1,), (2,), (3,))


def test_devices_below_a_switch_share_its_uplink() -> None:
    made = tree(Pcie(layout="switched", devices_per_switch=2, uplink_gt_s=8.0), 4, 16.0, 8)
    assert [(link.name, link.gt_s, link.lanes) for link in made.links[:2]] == [("sw0/uplink", 8.0, 16),
                                                                               ("sw1/uplink", 8.0, 16)]
    assert made.paths == ((2, 0), (3, 0), (4, 1), (5, 1))
    assert made.sharing() == ((0, 1), (2, 3))


def test_switches_below_switches_are_crossed_in_order() -> None:
    pcie = Pcie(root_ports=(RP,), switches=(Switch(name="top", upstream="rp0"), Switch(name="low", upstream="top")),
                endpoints=ends((0, "low"), (1, "top")))
    made = tree(pcie, 2, 16.0, 8)
    assert [[made.links[i].name for i in path] for path in made.paths] == [
        ["dev0/pcie", "low/uplink", "top/uplink"], ["dev1/pcie", "top/uplink"]]
    assert made.sharing() == ((0, 1),)


def test_a_narrow_port_bounds_what_a_device_can_negotiate_and_a_stated_width_what_it_does() -> None:
    pcie = Pcie(root_ports=(RootPort(name="rp0", lanes=4), RootPort(name="rp1")),
                endpoints=(Endpoint(device=0, upstream="rp0"), Endpoint(device=1, upstream="rp1", lanes=2, gt_s=8.0)))
    links = tree(pcie, 2, 16.0, 8).links
    assert [(link.lanes, link.max_lanes, link.gt_s, link.max_gt_s) for link in links] == [(4, 4, 16, 16), (2, 8, 8, 16)]


@pytest.mark.parametrize(("pcie", "path", "words"), [
    (Pcie(root_ports=(RP,), switches=(Switch(name="a", upstream="b"), Switch(name="b", upstream="a")),
          endpoints=ends((0, "a"), (1, "b"))), ("switches", 0, "upstream"), "cycle: a - b - a"),
    (Pcie(root_ports=(RP,), switches=(Switch(name="a", upstream="a"),), endpoints=ends((0, "a"), (1, "a"))),
     ("switches", 0, "upstream"), "cycle"),
    (Pcie(root_ports=(RP,), endpoints=ends((0, "rp0"), (1, "rp0"))), ("root_ports", 0), "put a switch between"),
    (Pcie(root_ports=(RP,), endpoints=ends((0, "rp0"), (1, "rp9"))), ("endpoints", 1, "upstream"), "'rp9'"),
    (Pcie(root_ports=(RP,), endpoints=ends((0, "rp0"))), ("endpoints",), "device 1 hangs nowhere"),
    (Pcie(root_ports=(RP, RootPort(name="rp1"), RootPort(name="rp2")), endpoints=ends((0, "rp0"), (1, "rp1"),
                                                                                      (2, "rp2"))),
     ("endpoints", 2, "device"), "the host has 2"),
    (Pcie(root_ports=(RP, RP), endpoints=ends((0, "rp0"), (1, "rp0"))), ("root_ports", 1, "name"), "two ports"),
    (Pcie(lanes=16), ("lanes",), "negotiates 16, but device and port can do 8"),
    (Pcie(lanes_per_node=8), ("lanes_per_node",), "take 16 lanes, but it has 8"),
    (Pcie(root_ports=(RootPort(name="rp0", lanes=8),), switches=(Switch(name="a", upstream="rp0", lanes=16),),
          endpoints=ends((0, "a"), (1, "a"))), ("root_ports", 0), "negotiates x16"),
])
def test_an_impossible_fabric_is_refused_with_its_key(pcie: Pcie, path: tuple[str | int, ...], words: str) -> None:
    with pytest.raises(TopologyError, match=words) as caught:
        tree(pcie, 2, 16.0, 8)
    assert caught.value.path == path
