from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleetscope.errors import UsageError
from simulator.history.plan import make_plan
from simulator.history.truth import change_points, read_changes, write_truth
from tests.unit.simulator.history.histories import HOUR_NS, START_NS, busy, small


def test_the_truth_reads_back_as_it_was_written(tmp_path: Path) -> None:
    write_truth(busy().plan, tmp_path / "truth")
    assert read_changes(tmp_path / "truth") == change_points(busy().plan)
    settings = json.loads((tmp_path / "truth" / "history.json").read_text())
    assert settings["seed"] == 1
    assert len(settings["history"]["gaps"]) == 2


def test_only_lasting_slow_downs_are_regressions() -> None:
    plan = make_plan(small(
        deployments=[{"at_h": 1, "version": "a", "effects": [{"operator": "attention", "slower": 0.1}]},
                     {"at_h": 1, "version": "b", "effects": [{"operator": "attention", "faster": 0.1}]},
                     {"at_h": 1, "version": "c"}],
        transients=[{"at_h": 1, "hours": 1, "effects": [{"slower": 0.1}]}],
        creeps=[{"at_h": 1, "hours": 2, "effects": [{"operator": "lm_head", "slower": 0.1}]}],
        cost_shifts=[{"at_h": 1, "source": "mlp_up", "target": "mlp_down", "share": 0.1}],
        gaps=[{"at_h": 1, "hours": 1}]), 1, START_NS)
    told = {(p.kind, p.version, p.operator): (p.regression, p.effect) for p in change_points(plan)}
    assert told[("deployment", "a", "attention")] == (True, 0.1)
    assert told[("deployment", "b", "attention")] == (False, -0.1)
    assert told[("deployment", "c", "*")] == (False, 0.0)
    assert told[("transient", "", "*")] == (False, 0.1)
    assert told[("creep", "", "lm_head")] == (True, 0.1)
    assert told[("cost_shift", "", "mlp_up")] == (False, -0.1)
    regression, gained = told[("cost_shift", "", "mlp_down")]
    assert not regression
    assert gained == pytest.approx(0.2, rel=0.05)  # mlp_up is twice as large as mlp_down
    assert told[("gap", "", "*")] == (False, 1.0)
    assert len(told) == 8


def test_times_are_edges_of_windows_and_hosts_those_of_the_series() -> None:
    for point in change_points(busy().plan):
        assert point.true_ns % (60 * 10**9) == 0
        assert point.time_ns == START_NS + point.true_ns
        assert point.end_true_ns is None or point.true_ns < point.end_true_ns <= 12 * HOUR_NS
        names = busy().plan.host_names
        assert {busy().plan.job_of(names.index(host)).name for host in point.hosts} == {point.job}
    models = {point.model for point in change_points(busy().plan) if point.kind == "creep"}
    assert models == {"chat-8b"}


def test_a_folder_without_a_truth_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"changes\.json: No such file"):
        read_changes(tmp_path)
    (tmp_path / "changes.json").write_text('[{"kind": "gap"}]')
    with pytest.raises(UsageError, match=r"changes\.json: not the changes of a history"):
        read_changes(tmp_path)
