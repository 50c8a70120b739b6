"""What is planted is there, in its size, where and when it was planted, and nowhere else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from simulator.history.profile import KERNEL
from tests.unit.simulator.history.histories import HOUR_NS, QUIET, Made, made, small


def quiet(**values: Any) -> Made:
    return made(small(hours=8, **QUIET, **values))


def ratio(found: Made, operator: str, before: range, after: range, hosts: list[str] | None = None) -> float:
    return found.mean_ns(operator, after, hosts) / found.mean_ns(operator, before, hosts)


def test_without_noise_and_events_nothing_changes() -> None:
    found = quiet()
    means = found.operators.to_pandas().groupby("operator").mean_ns
    assert (means.max() - means.min() <= 1e-9 * means.mean()).all()
    assert found.windows.to_pandas().no_demand_ns.nunique() == 1


@pytest.mark.parametrize(("effect", "factor"), [({"slower": 0.08}, 1.08), ({"faster": 0.25}, 0.75)])
def test_a_deployment_changes_its_operator_by_its_share_and_no_other(effect: dict[str, float], factor: float) -> None:
    found = quiet(deployments=[{"at_h": 4, "version": "2", "effects": [{"operator": "mlp_up", **effect}]}])
    for operator in found.plan.jobs[0].profile.operators:
        if operator != "launchKernel":  # what the host is waited for depends on the kernels
            assert ratio(found, operator, range(4), range(4, 8)) == pytest.approx(
                factor if operator == "mlp_up" else 1.0, rel=1e-9)


def test_hosts_beyond_the_last_stage_never_change_and_versions_say_who_changed() -> None:
    found = made(small(hours=8, hosts=10, **QUIET, deployments=[{
        "at_h": 2, "subject": "driver", "version": "new", "effects": [{"operator": "attention", "slower": 0.1}],
        "stages": [{"share": 0.2}, {"after_h": 3, "share": 0.7}]}]))
    first, second = (event.hosts for event in found.plan.events)
    assert (len(first), len(second)) == (2, 5)
    assert not set(first) & set(second)
    names = found.plan.host_names
    for host, name in enumerate(names):
        changed = 2 if host in first else 5 if host in second else 8
        frame = found.operators.to_pandas()
        hours = (frame[(frame.host == name) & (frame.driver == "new")].hour_start_ns - found.plan.start_ns) // HOUR_NS
        assert sorted(set(hours)) == list(range(changed, 8))
        expected = 1.1 if changed == 2 else 1.0
        assert ratio(found, "attention", range(2), range(2, 5), [name]) == pytest.approx(expected, rel=1e-9)
        expected = 1.1 if changed < 8 else 1.0
        assert ratio(found, "attention", range(2), range(5, 8), [name]) == pytest.approx(expected, rel=1e-9)


def test_an_effect_stands_out_of_the_noise_by_its_share_and_a_series_without_one_does_not_move() -> None:
    found = made(small(hours=48, hosts=6, jobs=[{"max_batch": 1}], noise={"job": 0.0, "host": 0.004, "phi": 0.5},
                       season={"duration_daily": 0.0},
                       deployments=[{"at_h": 24, "version": "2", "effects": [{"operator": "mlp_up", "slower": 0.05}]}]))
    frame = found.operators.to_pandas()
    for operator, effect in (("mlp_up", 0.05), ("mlp_down", 0.0), ("attention", 0.0)):
        rows = frame[frame.operator == operator]
        late = rows.hour_start_ns >= found.plan.start_ns + 24 * HOUR_NS
        means = rows.mean_ns / rows.mean_ns[~late].mean()
        # 144 host-hours a side, φ = 0.5: variance of the mean is inflated by (1 + φ)/(1 − φ) = 3.
        error = np.sqrt(3 * (means[late].var() + means[~late].var()) / late.sum())
        assert error < 0.005
        assert abs(means[late].mean() - 1 - effect) < 4 * error


def test_a_transient_goes_away_and_a_creep_grows_evenly_and_stays() -> None:
    found = quiet(transients=[{"at_h": 2, "hours": 2, "effects": [{"operator": "qkv_proj", "slower": 0.3}]}],
                  creeps=[{"at_h": 2, "hours": 4, "effects": [{"operator": "lm_head", "slower": 0.4}]}])
    passing = [ratio(found, "qkv_proj", range(1), range(hour, hour + 1)) for hour in range(8)]
    np.testing.assert_allclose(passing, [1, 1, 1.3, 1.3, 1, 1, 1, 1], rtol=1e-9)
    growing = [ratio(found, "lm_head", range(1), range(hour, hour + 1)) for hour in range(8)]
    np.testing.assert_allclose(growing, [1, 1, 1.05, 1.15, 1.25, 1.35, 1.4, 1.4], rtol=1e-3)


def test_a_cost_shift_moves_time_and_keeps_the_sum() -> None:
    found = quiet(cost_shifts=[{"at_h": 4, "source": "mlp_up", "target": "sampling", "share": 0.25}])
    assert ratio(found, "mlp_up", range(4), range(4, 8)) == pytest.approx(0.75, rel=1e-9)
    assert ratio(found, "sampling", range(4), range(4, 8)) > 2
    windows = found.windows.to_pandas()
    busy = (windows.window_ns - windows.no_demand_ns).to_numpy()
    assert np.ptp(busy) <= 1


def test_slower_kernels_keep_the_device_busy_for_longer_until_there_is_no_time_left() -> None:
    effects = [{"slower": 0.3}]
    for utilisation, expected in ((0.5, 1.3), (0.95, 1 / 0.95)):
        found = quiet(jobs=[{"scheduler_ns": 0, "utilisation": utilisation}],
                      deployments=[{"at_h": 4, "version": "2", "effects": effects}])
        windows = found.windows.to_pandas()
        late = windows.window_start_ns >= found.plan.start_ns + 4 * HOUR_NS
        used = windows.window_ns - windows.no_demand_ns
        assert used[late].mean() / used[~late].mean() == pytest.approx(expected, rel=0.01)


def test_where_the_host_launches_too_slowly_a_slower_kernel_costs_nothing() -> None:
    found = quiet(jobs=[{"call_ns": 1_000_000}],
                  deployments=[{"at_h": 4, "version": "2", "effects": [{"slower": 0.1}]}])
    windows = found.windows.to_pandas()
    late = windows.window_start_ns >= found.plan.start_ns + 4 * HOUR_NS
    assert windows.no_demand_ns.max() - windows.no_demand_ns.min() <= 1
    assert (windows.host_ns[late].mean() < windows.host_ns[~late].mean())
    assert (windows.host_ns > 0.2 * windows.window_ns).all()


def test_every_kernel_is_meant_by_a_star_and_copies_and_the_host_are_not() -> None:
    found = quiet(deployments=[{"at_h": 4, "version": "2", "effects": [{"slower": 0.1}]}])
    profile = found.plan.jobs[0].profile
    for operator, role in zip(profile.operators, profile.role, strict=True):
        if operator != "launchKernel":
            assert ratio(found, operator, range(4), range(4, 8)) == pytest.approx(
                1.1 if role == KERNEL else 1.0, rel=1e-9)
