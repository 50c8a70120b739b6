from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from fleetscope.errors import UsageError
from simulator.fleet import FleetConfig
from simulator.scenario import load_scenario, scenario_names
from tests.unit.simulator.fleets import START_NS, config


def written(folder: Path, text: str) -> Path:
    path = folder / "mine.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize("name", scenario_names())
def test_every_scenario_that_ships_loads_and_says_what_it_shows(name: str) -> None:
    scenario = load_scenario(name, 3)
    assert scenario.name == name
    assert scenario.description


def test_a_scenario_is_read_from_a_path_and_keeps_the_defaults_it_does_not_name(tmp_path: Path) -> None:
    path = written(tmp_path, "[pcie]\nlanes = 4\n[[jobs]]\nkind = 'serving'\n[jobs.prompt]\nmean = 64\n")
    scenario = load_scenario(path)
    assert (scenario.name, scenario.pcie.lanes, scenario.machine.kind) == ("mine", 4, "infer-24")
    prompt = scenario.jobs[0].made.prompt
    assert (prompt.kind, prompt.mean) == ("gamma", 64)


def test_a_model_is_named_and_changed_in_part(tmp_path: Path) -> None:
    path = written(tmp_path, "[[jobs]]\nkind = 'serving'\nmodel = {name = 'chat-1b', layers = 3}\n"
                             "speculation = {draft = 'chat-1b', tokens = 2}\n")
    made = load_scenario(path).jobs[0].made
    assert (made.model.layers, made.model.hidden, made.speculation.draft.layers) == (3, 2_048, 16)


def test_numbers_are_drawn_by_seed_and_the_run_holds_them(tmp_path: Path) -> None:
    path = written(tmp_path, "[[jobs]]\nkind = 'serving'\n[jobs.arrivals]\n"
                             "per_s = {dist = 'uniform', low = 1.0, high = 2.0}\n")
    rates = [load_scenario(path, seed).jobs[0].made.arrivals.per_s for seed in (1, 1, 2)]
    assert rates[0] == rates[1] != rates[2]
    assert all(1 <= rate < 2 for rate in rates)


def test_a_scenario_survives_the_way_to_another_process() -> None:
    for name in ("serving", "pcie-bound"):
        scenario = load_scenario(name)
        again = pickle.loads(pickle.dumps(scenario))
        assert again.model_dump() == scenario.model_dump()
        assert again.jobs[0].made == scenario.jobs[0].made


JOB = "[[jobs]]\nkind = 'serving'\n"
FAULT = "[[faults]]\nkind = 'link_downgrade'\n"
CYCLE = """[fleet]
devices = 1
[pcie]
endpoints = [{device = 0, upstream = "a"}]
root_ports = [{name = "rp"}]
[[pcie.switches]]
name = "a"
upstream = "b"
[[pcie.switches]]
name = "b"
upstream = "a"
"""


@pytest.mark.parametrize(("text", "words"), [
    ("[pcie]\nlanes = 0\n", "line 2: pcie.lanes: a link has 1, 2, 4, 8, 16, 32 lanes, not 0"),
    ("[pcie]\nlanes = 16\n", "line 2: pcie.lanes: device 0 negotiates 16, but device and port can do 8"),
    ("[pcie]\n\nlanes_per_node = 8\n", "line 3: pcie.lanes_per_node: the root ports of node 0 take 32 lanes"),
    (CYCLE, r"line 8: pcie.switches\[0\].upstream: the topology has a cycle: a - b - a"),
    ("[fleet]\ndevices = 0\n", "line 2: fleet.devices: Input should be greater than or equal to 1"),
    ("[fleets]\n", "line 1: fleets: there is no such key"),
    (JOB + "[jobs.arrivals]\nper_s = -1\n", r"line 4: jobs\[0\].arrivals.per_s: a rate is not negative"),
    (JOB + "[jobs.arrivals]\nper_s = 'many'\n", r"line 4: jobs\[0\].arrivals.per_s: Input should be a valid number"),
    (JOB + "[jobs.arrivals]\nrate = 1\n", r"line 4: jobs\[0\].arrivals.rate: there is no such key"),
    (JOB + "tensor_parallel = 3\n", r"line 3: jobs\[0\].tensor_parallel: 3 ranks do not divide the 32 heads"),
    (JOB + "tensor_parallel = 16\n", r"line 1: jobs\[0\]: 8 devices do not divide into replicas of 16 ranks"),
    (JOB + "model = 'chat-9b'\n", r"line 3: jobs\[0\].model: there is no model 'chat-9b'; known are chat-1b"),
    (JOB + "devices = [0]\n" + JOB + "name = 'b'\ndevices = [0]\n", r"jobs\[1\].devices: device 0 of host 0 belongs"),
    ("[[jobs]]\nkind = 'mining'\n", r"line 2: jobs\[0\].kind: there is no kind 'mining'; known are 'serving'"),
    ("[machine]\nkind = 'abacus'\n", "line 1: machine: there is no machine 'abacus'; known are"),
    ("[machine]\nhbm_bytes_per_s = -1\n", "line 2: machine.hbm_bytes_per_s: .*given: -1"),
    ("[machine]\nclock_min_mhz = 9_000\n", "line 2: machine.clock_min_mhz: 9000 MHz is above the full clock"),
    (FAULT + "at_s = 30\nlanes = 4\n", r"line 3: faults\[0\].at_s: 30 s is outside the run of 20 s"),
    (FAULT + "at_s = 3\nlanes = 4\ndevice = 4\n", r"line 5: faults\[0\].device: there is no device 4: the host has 4"),
    (FAULT + "at_s = 3\n", r"line 1: faults\[0\]: a link_downgrade needs gt_s or lanes"),
    ("[[deployments]]\nat_s = 99\nversion = '2'\n", r"line 2: deployments\[0\].at_s: 99 s is outside the run"),
    ("[collection]\nlost_share = 1.5\n", "line 2: collection.lost_share: Input should be less than or equal to 1"),
    ("[[collection.events]]\nkind = 'stall'\nat_s = 50\n", r"line 3: collection.events\[0\].at_s: 50 s is outside"),
    (JOB + "[jobs.arrivals]\nper_s = {dist = 'zipf'}\n", r"line 4: jobs\[0\].arrivals.per_s.dist: there is no distrib"),
    ("link = {\n", "line 1"),
])
def test_an_impossible_scenario_is_refused_by_file_line_key_and_reason(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=f"mine.toml.*{words}") as caught:
        load_scenario(written(tmp_path, text))
    assert "\n" not in str(caught.value)


def test_a_run_that_ends_before_a_fault_is_refused_with_the_fault_named(tmp_path: Path) -> None:
    scenario = load_scenario(written(tmp_path, FAULT + "at_s = 8\nlanes = 4\n"))
    FleetConfig(1, 1, 9.0, 1, START_NS, scenario)
    with pytest.raises(UsageError, match=r"line 3: faults\[0\].at_s: 8 s is outside the run of 5 s"):
        FleetConfig(1, 1, 5.0, 1, START_NS, scenario)


def test_groups_make_hosts_differ_and_repeat(tmp_path: Path) -> None:
    scenario = load_scenario(written(tmp_path, "[[fleet.groups]]\nhosts = 1\n[[fleet.groups]]\nhosts = 1\ndevices = 1\n"
                                               "machine = 'h100-like'\n"))
    specs = FleetConfig(3, 2, 1.0, 1, START_NS, scenario).specs
    assert [(spec.machine.kind, spec.devices) for spec in specs] == [("infer-24", 2), ("h100-like", 1), ("infer-24", 2)]


def test_work_that_does_not_fit_is_refused_before_anything_runs(tmp_path: Path) -> None:
    from simulator.fleet import Fleet

    scenario = load_scenario(written(tmp_path, JOB + "model = 'chat-70b'\n"))
    with pytest.raises(UsageError, match=r"line 1: jobs\[0\]: .*key-value cache"):
        Fleet(config(scenario="serving", hosts=1).__class__(1, 1, 1.0, 1, START_NS, scenario))


def test_an_unknown_name_lists_the_known_ones_and_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no scenario 'fast'; known are .*host-bound, .*idle"):
        load_scenario("fast")
    with pytest.raises(UsageError, match=r"gone.toml: No such file"):
        load_scenario(tmp_path / "gone.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff")
    with pytest.raises(UsageError, match=r"bytes.toml: "):
        load_scenario(tmp_path / "bytes.toml")
