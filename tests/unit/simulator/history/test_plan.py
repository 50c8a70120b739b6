from __future__ import annotations

import pytest

from fleetscope.errors import UsageError
from simulator.history.plan import make_plan
from tests.unit.simulator.history.histories import HOUR_NS, START_NS, small

DRAWS = {"deployments": 3, "harmless_deployments": 2, "transients": 4, "creeps": 2, "cost_shifts": 2, "gaps": 3}


def test_hosts_are_shared_out_by_weight_and_every_job_has_one() -> None:
    jobs = [{"name": "a", "weight": 1.0}, {"name": "b", "weight": 8.0}, {"name": "c", "weight": 0.001}]
    plan = make_plan(small(hosts=12, jobs=jobs), 1, START_NS)
    assert [len(job.hosts) for job in plan.jobs] == [2, 9, 1]
    assert [plan.job_of(host).name for host in range(12)] == ["a"] * 2 + ["b"] * 9 + ["c"]


def test_a_start_is_taken_down_to_the_hour() -> None:
    assert make_plan(small(), 1, START_NS + HOUR_NS - 1).start_ns == START_NS


def test_names_sort_as_their_numbers_do() -> None:
    plan = make_plan(small(hosts=120, devices=12), 1, START_NS)
    assert plan.host_names == sorted(plan.host_names)
    assert plan.device_names == sorted(plan.device_names)


def test_an_event_between_two_windows_takes_effect_at_the_next_edge() -> None:
    deployments = [{"at_h": at_h, "version": "2"} for at_h in (1.0, 1.001, 1.5)]
    plan = make_plan(small(deployments=deployments), 1, START_NS)
    assert [event.start for event in plan.events] == [60, 61, 90]


def test_as_many_events_as_asked_for_are_drawn_inside_the_run_and_by_seed() -> None:
    history = small(hours=48, hosts=20, draw=DRAWS)
    plan = make_plan(history, 3, START_NS)
    kinds = [event.kind for event in plan.events]
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "deployment": 2 * 5, "transient": 4, "creep": 2, "cost_shift": 2, "gap": 3}  # two stages a deployment
    for event in plan.events:
        assert 0.1 * history.windows <= event.start < event.end <= history.windows
        assert all(0.02 <= abs(share) <= 0.1 for _, _, share in event.effects)
    assert make_plan(history, 3, START_NS).events == plan.events
    assert make_plan(history, 4, START_NS).events != plan.events


def test_more_draws_of_one_kind_leave_the_others_as_they_were() -> None:
    few, more = (make_plan(small(hours=48, hosts=20, draw={**DRAWS, "deployments": count}), 3, START_NS).history
                 for count in (3, 5))
    assert more.transients == few.transients
    assert more.deployments[:3] == few.deployments[:3]


def test_versions_follow_each_other_in_time() -> None:
    deployments = [{"at_h": 3, "subject": "model", "version": "9"}, {"at_h": 1, "subject": "driver", "version": "7"}]
    plan = make_plan(small(hosts=1, deployments=deployments), 1, START_NS)
    first, second, third = plan.versions_of(0)
    assert [window for window, _ in (first, second, third)] == [0, 60, 180]
    assert second[1] == first[1]._replace(driver="7")
    assert third[1] == second[1]._replace(model="9")


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(UsageError, match="seed: -1 is negative"):
        make_plan(small(), -1, START_NS)
