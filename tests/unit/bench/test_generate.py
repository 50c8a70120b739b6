"""The section that measures the simulator: what it counts, and that its contended fleet does contend."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench import generate
from bench.generate import CASES, made
from bench.sections import START_UNIX_NS, Bench, Options
from simulator.causes import CODE
from simulator.engine.program import Ints
from simulator.fleet import Fleet, FleetConfig
from simulator.scenario import load_scenario
from simulator.truth import NoSink


class Causes(NoSink):
    """Adds up where the devices' time went."""

    def __init__(self) -> None:
        self.queueing_ns = self.total_ns = 0

    def causes(self, host: str, device: str, start_ns: int, slot_ns: int, causes: Ints) -> None:
        self.queueing_ns += int(causes[CODE["pcie_queueing"]])
        self.total_ns += slot_ns


def queueing_share(case: Options) -> float:
    """Part of device time in which copies waited for others on their links."""
    sink = Causes()
    Fleet(FleetConfig(hosts=case.hosts, devices=case.devices, seconds=0.4, seed=1, start_unix_ns=START_UNIX_NS,
                      scenario=load_scenario(case.scenario, 1)), sink).run_causes()
    return sink.queueing_ns / sink.total_ns


def test_the_contended_fleet_waits_for_its_shared_links_and_the_free_one_does_not() -> None:
    assert queueing_share(CASES["contended"]) > 0.3
    assert queueing_share(CASES["free"]) == 0.0


def test_figures_are_of_the_events_that_were_published(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Options(hosts=1, devices=1, seconds=0.4, scenario="serving")
    monkeypatch.setattr(generate, "CASES", {"small": case})
    with Bench(Options(repeat=2, seed=3), lambda _: None) as bench:
        figures = generate.generate(bench)["generate"]["small"]
    assert figures["events"] == made(replace(case, seed=3))[0] > 0
    assert figures["runs"] == 2
    assert figures["events_per_s"] * figures["cpu_s_per_million"] == pytest.approx(1e6)
