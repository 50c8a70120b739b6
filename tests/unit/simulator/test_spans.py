"""Spans that a fleet publishes of its worlds: who did what for whom, in which order."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import pytest

from simulator.fleet import FleetConfig
from simulator.scenario import load_scenario
from tests.unit.simulator.fleets import batches, config, run

Row = dict[str, Any]


@pytest.fixture(scope="module")
def parallel() -> list[Row]:
    """Every span of two tensor-parallel ranks, with its host."""
    settings = config("fault-straggler", hosts=1, devices=2, seconds=1.2, drain_seconds=0.2)
    return [{**row, "clock": batch.header.clock} for batch in batches(run(settings))
            if batch.header.contract == "spans" for row in batch.rows.to_pylist()]


def test_both_ranks_of_a_collective_name_its_group_and_number(parallel: list[Row]) -> None:
    members: dict[tuple[str, int], set[int]] = defaultdict(set)
    for row in parallel:
        if row["track"] == "collective":
            members[row["communicator"], row["communicator_sequence"]].add(row["rank"])
        else:
            assert row["communicator"] is None
    assert len(members) > 100
    whole = [ranks for ranks in members.values() if ranks == {0, 1}]
    assert len(whole) >= len(members) - 2  # those under way at the end


def test_work_on_a_device_joins_its_call_and_its_submission(parallel: list[Row]) -> None:
    by_track: dict[str, set[tuple[int, int]]] = defaultdict(set)
    for row in parallel:
        if row["correlation_id"] is not None:
            by_track[row["track"]].add((row["process_id"], row["correlation_id"]))
    device = set().union(*(ids for track, ids in by_track.items() if track.startswith(("engine:", "pcie", "coll"))))
    assert by_track["engine:matrix"]
    assert device <= by_track["driver"]
    assert by_track["host_api"] <= by_track["driver"]
    assert len(by_track["driver"] - device) < 0.02 * len(device)  # given, and not ended when the run was over


def test_waits_name_work_of_the_same_process(parallel: list[Row]) -> None:
    ids = {(row["process_id"], row["correlation_id"]) for row in parallel if row["device"] is not None}
    waits = [(row["process_id"], wait) for row in parallel for wait in row["wait_ids"] or ()]
    assert waits
    assert sum(wait in ids for wait in waits) > 0.98 * len(waits)


def test_job_rank_and_process_follow_the_device(parallel: list[Row]) -> None:
    seen = {(row["device"], row["process_id"], row["rank"], row["job"], row["team"]) for row in parallel
            if row["device"] is not None}
    assert seen == {("dev0", 4_000, 0, "llm-serve-0", "inference"), ("dev1", 4_001, 1, "llm-serve-0", "inference")}
    steps = {row["rank"]: {r["step"] for r in parallel if r["rank"] == row["rank"]} for row in parallel[:2]}
    assert all(max(numbers) - min(numbers) + 1 == len(numbers) for numbers in steps.values())


def test_jobs_side_by_side_keep_their_names_on_one_host() -> None:
    settings = config("mixed", hosts=1, devices=3, seconds=0.6, drain_seconds=0.2)
    jobs: dict[str, set[str]] = defaultdict(set)
    for batch in batches(run(settings)):
        if batch.header.contract == "spans":
            for row in batch.rows.select(["job", "team"]).to_pylist():
                jobs[row["job"]].add(row["team"])
    assert dict(jobs) == {"llm-serve-0": {"inference"}, "classify-0": {"vision"}, "rank-0": {"ranking"}}


def test_peaks_are_stated_only_where_the_vendor_publishes_them_and_topology_always() -> None:
    for kind, expected in (("infer-24", True), ("npu-128", False)):
        scenario = load_scenario("serving")
        machine = scenario.machine.__class__.model_validate(
            {**scenario.machine.model_dump(), "kind": kind, "published_peaks": expected})
        settings = FleetConfig(1, 1, 0.3, 1, 0, scenario.model_copy(update={"machine": machine}), 0.0)
        rows = [row for batch in batches(run(settings)) if batch.header.contract == "inventory"
                for row in batch.rows.to_pylist()]
        assert any(row["kind"] == "peak" for row in rows) is expected
        parents = {(row["kind"], row["component"]): row["parent"] for row in rows if row["parent"]}
        assert (parents["device", "dev0"], parents["link", "rp0"]) == ("rp0", "numa0")


def test_a_link_that_negotiates_anew_is_stated_again_with_what_it_could_do() -> None:
    settings = config("link-downgrade", hosts=1, devices=2, seconds=1.5, drain_seconds=0.0)
    stated = [(row["component"], row["attribute"], row["number"]) for batch in batches(run(settings))
              if batch.header.contract == "inventory" for row in batch.rows.to_pylist()
              if row["attribute"] in ("width_lanes", "max_width_lanes", "speed_gt_s")]
    of_device = {(name, attribute): [value for n, a, value in stated if (n, a) == (name, attribute)]
                 for name, attribute, _ in stated}
    assert of_device["dev0/pcie", "width_lanes"][:2] == [8, 1]
    assert of_device["dev0/pcie", "speed_gt_s"][:2] == [16, 8]
    assert set(of_device["dev0/pcie", "max_width_lanes"]) == {8}
    assert of_device["dev1/pcie", "width_lanes"] == [8]
