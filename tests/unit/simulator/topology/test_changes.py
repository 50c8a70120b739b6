"""Faults as changes of link rates, judged by the rate that holds at a time."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.scenario import Scenario, Source, parse_scenario
from simulator.topology.changes import contention, device_changes, held, link_changes
from simulator.topology.fabric import Fabric, fabric
from simulator.topology.hosts import HostSpec, host_specs

RUN_NS = 10_000_000_000
PLACES = [(0, 0), (0, 1)]


def made(*faults: dict[str, Any], **sections: Any) -> tuple[Scenario, list[HostSpec], Fabric]:
    scenario = parse_scenario({"faults": list(faults), **sections}, Source("test"))
    specs = host_specs(scenario, 1, 2)
    return scenario, specs, fabric(scenario, specs, PLACES)


def rate_at(at_s: float, link: int, *faults: dict[str, Any], **sections: Any) -> float:
    scenario, specs, links = made(*faults, **sections)
    rate = links.rates[link]
    for change in link_changes(held(scenario.faults, PLACES, RUN_NS), links, specs):
        if change.index == link and change.at_ns <= at_s * 1e9:
            rate = change.value
    return rate


def test_links_carry_their_published_payload() -> None:
    _, _, links = made()
    assert links.rates[links.ports[0, 0].up] == pytest.approx(13.2, rel=0.03)  # generation 4, x8, writes


def test_a_downgrade_stands_still_for_the_retraining_and_then_holds_the_narrower_rate() -> None:
    fault = {"kind": "link_downgrade", "at_s": 1.0, "for_s": 2.0, "device": 0, "lanes": 4}
    _, _, links = made()
    down = links.ports[0, 0].down
    full = links.rates[down]
    assert [rate_at(at, down, fault) / full for at in (0.9, 1.005, 1.5, 3.1)] == pytest.approx([1, 0, 0.5, 1])
    assert rate_at(1.5, links.ports[0, 1].down, fault) == full  # the other device's link


def test_faults_that_hold_at_once_multiply_and_end_one_by_one() -> None:
    faults = ({"kind": "replays", "at_s": 1.0, "for_s": 4.0, "share": 0.5, "device": 0},
              {"kind": "noisy_neighbour", "at_s": 2.0, "for_s": 1.0, "share": 0.2, "device": 0})
    _, _, links = made()
    up = links.ports[0, 0].up
    shares = [rate_at(at, up, *faults) / links.rates[up] for at in (1.5, 2.5, 3.5, 5.5)]
    assert shares == pytest.approx([0.5, 0.4, 0.5, 1.0])


def test_a_neighbour_above_a_switch_is_felt_once_by_all_below_it() -> None:
    fault = {"kind": "noisy_neighbour", "at_s": 1.0, "share": 0.25}
    switched = {"pcie": {"layout": "switched"}}
    _, _, links = made(**switched)
    uplink = links.ports[0, 0].down
    assert rate_at(2.0, uplink, fault, **switched) / links.rates[uplink] == pytest.approx(0.75)


def test_retraining_stalls_come_at_their_period() -> None:
    fault = {"kind": "link_retraining", "at_s": 1.0, "for_s": 1.0, "every_ms": 100.0, "stall_ms": 20.0, "device": 0}
    _, _, links = made()
    down = links.ports[0, 0].down
    still = [rate_at(1.0 + ms / 1e3, down, fault) == 0 for ms in range(0, 400, 10)]
    assert still == [ms % 100 < 20 for ms in range(0, 400, 10)]


def test_threads_without_a_processor_take_longer_only_where_and_while_it_holds() -> None:
    scenario, _, _ = made({"kind": "cpu_contention", "at_s": 1.0, "for_s": 1.0, "device": 1, "share": 0.75})
    found = held(scenario.faults, PLACES, RUN_NS)
    assert [contention(found, place, at) for place, at in (((0, 1), 1_500_000_000), ((0, 1), 2_000_000_000),
                                                           ((0, 0), 1_500_000_000))] == [4.0, 1.0, 1.0]


def test_power_air_and_stragglers_change_a_device_and_change_it_back() -> None:
    scenario, specs, _ = made({"kind": "power_cap", "at_s": 1.0, "for_s": 1.0, "device": 0, "watts": 40.0},
                              {"kind": "straggler", "at_s": 2.0, "device": 1, "slowdown": 2.0})
    changes = device_changes(held(scenario.faults, PLACES, RUN_NS), {place: i for i, place in enumerate(PLACES)}, specs)
    assert [(c.at_ns, c.what, c.index, c.value) for c in changes] == [
        (1_000_000_000, "power_limit", 0, 40.0), (2_000_000_000, "power_limit", 0, 72.0),
        (2_000_000_000, "slowness", 1, 2.0), (RUN_NS, "slowness", 1, 1.0)]
