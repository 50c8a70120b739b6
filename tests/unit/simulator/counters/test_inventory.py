from __future__ import annotations

import pytest

from processors.windows.inventory import Inventory
from simulator.counters.descriptors import device_descriptors
from simulator.counters.inventory import Fact, counter_facts, device_facts, link_facts
from simulator.machine import load_machine
from simulator.physics.pcie import Link, link_of


def learned(facts: list[Fact]) -> Inventory:
    inventory = Inventory()
    for fact in facts:
        inventory.apply((0, fact.kind, fact.parent if fact.kind == "link" else fact.component,  # type: ignore[arg-type]
                         fact.attribute, fact.number or 0.0))
    return inventory


def test_the_analysis_learns_published_peaks() -> None:
    machine = load_machine("h100-like")
    peaks = learned([*device_facts(machine, "dev0", 10**9), *link_facts(link_of(machine), link_of(machine), "dev0")]
                    ).peaks("dev0")
    assert peaks.flops_per_s == pytest.approx(712.08e12)
    assert peaks.memory_bytes_per_s == pytest.approx(3.015e12)
    assert peaks.bus_bytes_per_s == 450e9
    assert peaks.h2d_bytes_per_s == pytest.approx(link_of(machine).ceiling_bytes_per_s("h2d"), rel=0.03)


def test_a_kind_that_keeps_its_peaks_to_itself_states_none_and_yet_its_link() -> None:
    machine = load_machine("npu-128")
    facts = list(device_facts(machine, "dev0", 10**8))
    assert not [fact for fact in facts if fact.kind == "peak"]
    secret = {machine.matrix_flops_per_s, machine.hbm_bytes_per_s, machine.vector_flops_per_s, machine.sram_bytes_per_s}
    assert not secret & {fact.number for fact in facts}
    peaks = learned([*facts, *link_facts(link_of(machine), link_of(machine), "dev0")]).peaks("dev0")
    assert (peaks.flops_per_s, peaks.memory_bytes_per_s) == (None, None)
    assert peaks.d2h_bytes_per_s


def test_a_downgraded_link_states_what_it_could_be() -> None:
    facts = {fact.attribute: fact.number for fact in link_facts(Link(8.0, 4), Link(16.0, 8), "dev0")}
    assert facts == {"width_lanes": 4, "speed_gt_s": 8, "max_width_lanes": 8, "max_speed_gt_s": 16, "mps_bytes": 256,
                     "mrrs_bytes": 512}


def test_counters_state_width_kind_viewpoint_and_whether_they_share_hardware() -> None:
    facts = list(counter_facts(device_descriptors(load_machine("npu-128"))))
    of = {fact.attribute: fact.text if fact.text is not None else fact.number
          for fact in facts if fact.component == "pcie_rx_wire_bytes_32"}
    assert (of["width_bits"], of["kind"], of["viewpoint"], of["payload"], of["period_s"], of["multiplexed"]) == (
        32, "monotonic", "device", "wire", 0.1, "no")
    shared = {fact.component for fact in facts if (fact.attribute, fact.text) == ("multiplexed", "yes")}
    assert shared == {"hbm_row_hits", "hbm_row_misses", "hbm_turnarounds", "pipe_active_cycles",
                      "sram_access_cycles", "sram_conflict_cycles", "stall_cycles"}
