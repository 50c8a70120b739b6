"""The bottleneck each scenario is named after emerges from the machine: it is what the true causes say."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from numpy.typing import NDArray

from simulator.causes import CODE, NAMES
from simulator.clocks import NS
from simulator.fleet import Fleet, FleetConfig
from simulator.scenario import load_scenario, scenario_names
from simulator.truth import NoSink
from tests.unit.simulator.fleets import START_NS

USEFUL = ("compute_matrix", "compute_vector", "memory_bandwidth")
"""Work that has to be done anyway: beside a loss it may be the larger part."""


@dataclass(frozen=True)
class Case:
    """Cause expected at a device in [from, to) seconds, with its least share."""

    scenario: str
    cause: str
    share: float
    devices: int = 1
    device: int = 0
    seconds: float = 1.6
    from_s: float = 0.3


ALONE = [
    Case("serving", "memory_bandwidth", 0.7), Case("memory-bound", "memory_bandwidth", 0.7),
    Case("compute-bound", "compute_matrix", 0.7), Case("spill-bound", "spill", 0.5),
    Case("bank-conflict", "bank_conflict", 0.5), Case("latency-bound", "latency", 0.6, seconds=0.8),
    Case("throttled", "throttled", 0.4), Case("dma-stall", "dma_stall", 0.15, seconds=2.5),
    Case("collective-bound", "collective_network", 0.5, devices=4),
    Case("straggler", "collective_wait", 0.4, devices=2, device=1), Case("pcie-bound", "pcie_h2d_bandwidth", 0.4),
    Case("pcie-d2h-bound", "pcie_d2h_bandwidth", 0.5), Case("small-transfers", "pcie_small", 0.4, seconds=0.8),
    Case("shared-uplink", "pcie_queueing", 0.4, devices=4), Case("host-bound", "host_launch", 0.6),
    Case("input-bound", "host_input", 0.5), Case("cpu-contention", "host_contention", 0.4),
    Case("pageable", "host_pageable", 0.4), Case("idle", "no_demand", 0.7, seconds=3.0),
]
FAULTS = [
    Case("link-downgrade", "pcie_h2d_bandwidth", 0.5), Case("link-retraining", "pcie_h2d_bandwidth", 0.2),
    Case("link-replays", "pcie_h2d_bandwidth", 0.5), Case("fault-noisy-neighbour", "pcie_h2d_bandwidth", 0.5),
    Case("fault-thermal", "throttled", 0.3), Case("fault-power-cap", "throttled", 0.3),
    Case("fault-cpu-contention", "host_contention", 0.25),
    Case("fault-straggler", "collective_wait", 0.4, devices=2, device=1),
]
"""Each holds from 1.0 s on; before it the same cause must be small."""


def shares(case: Case, from_s: float, to_s: float) -> NDArray[np.float64]:
    """Share of each cause at the case's device in a part of the run."""
    scenario = load_scenario(case.scenario, 1)
    fleet = Fleet(FleetConfig(1, case.devices, to_s, 1, START_NS, scenario, 0.0), sink := Causes())
    fleet.run_causes()
    rows = [ns for device, start_ns, ns in sink.slots if device == f"dev{case.device}" and start_ns >= from_s * NS]
    total = np.sum(rows, axis=0)
    return np.asarray(total / total.sum())


class Causes(NoSink):
    """Keeps the true causes."""

    def __init__(self) -> None:
        self.slots: list[tuple[str, int, NDArray[np.int64]]] = []

    def causes(self, host: str, device: str, slot_start_true_ns: int, slot_ns: int, ns: NDArray[np.int64]) -> None:
        assert int(ns.sum()) == slot_ns
        assert (ns >= 0).all()
        self.slots.append((device, slot_start_true_ns, ns))


def largest_loss(found: NDArray[np.float64], cause: str) -> str:
    """The largest share, useful work left out unless it is what is looked for."""
    left = [name for name in NAMES if cause in USEFUL or name not in USEFUL]
    return max(left, key=lambda name: found[CODE[name]])


@pytest.mark.parametrize("case", ALONE, ids=lambda case: case.scenario)
def test_the_bottleneck_a_scenario_is_named_after_is_its_largest_true_cause(case: Case) -> None:
    found = shares(case, case.from_s, case.seconds)
    assert found[CODE[case.cause]] >= case.share
    assert largest_loss(found, case.cause) == case.cause


@pytest.mark.parametrize("case", FAULTS, ids=lambda case: case.scenario)
def test_a_fault_shows_as_its_cause_from_its_beginning_on(case: Case) -> None:
    before = shares(case, 0.3, 1.0001)  # the fault itself must lie within the run
    after = shares(case, 1.4, 3.0)
    assert after[CODE[case.cause]] >= case.share
    assert largest_loss(after, case.cause) == case.cause
    assert before[CODE[case.cause]] < 0.4 * after[CODE[case.cause]]


def test_mixed_work_has_no_cause_that_stands_out() -> None:
    scenario = load_scenario("mixed", 1)
    fleet = Fleet(FleetConfig(1, 3, 1.6, 1, START_NS, scenario, 0.0), sink := Causes())
    fleet.run_causes()
    total = np.sum([ns for _, start_ns, ns in sink.slots if start_ns >= 0.3 * NS], axis=0)
    top = np.sort(total / total.sum())[::-1]
    assert top[0] < 0.5
    assert top[1] > 0.15


def test_a_release_that_slows_kernels_stretches_every_step_after_it() -> None:
    scenario = load_scenario("deployment", 1)
    slower, same = (FleetConfig(1, 1, 3.0, 1, START_NS, changed, 0.0)
                    for changed in (scenario, scenario.model_copy(update={"deployments": ()})))
    steps = []
    for config in (slower, same):
        fleet = Fleet(config)
        rows = sum(p.rows for p in fleet.publications() if p.contract == "spans")
        steps.append(rows)
    assert 0.85 < steps[0] / steps[1] < 0.95  # 2 of 3 s are 15 % slower


@pytest.mark.parametrize("name", [n for n in scenario_names() if not n.startswith(("clock-", "fault-"))])
def test_every_scenario_begins_to_run_at_its_own_size(name: str) -> None:
    scenario = load_scenario(name, 2)
    size = scenario.fleet
    fleet = Fleet(FleetConfig(size.hosts, size.devices, 1.3, 2, START_NS, scenario, 0.0), sink := Causes())
    fleet.run_causes(0.4)
    assert len({device for device, _, _ in sink.slots}) == size.devices
