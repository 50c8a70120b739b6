"""`fleetscope demo` on embedded defaults: complete accounting, and the same rows for the same seed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fleetscope.contracts.derived import STATE_NAMES
from tests.support.demos import Ran, differences, every_row, opened, small_demo

BY_ARRIVAL = {"dead_letters": frozenset({"time_ms"}), "coverage": frozenset({"redelivered_rows"}),
              "windows": frozenset({"redelivered_rows"})}
"""What depends on when a message came: the broker's time, and which beat of the host a repeat fell in."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "serving"


@pytest.fixture(scope="module")
def serving(folder: Path) -> Ran:
    """A demo of the serving workload, made once."""
    return small_demo(folder)


@pytest.fixture(scope="module")
def lossy(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """A demo over a collection path that loses, repeats, drops and corrupts."""
    where = tmp_path_factory.mktemp("demo") / "lossy"
    return where, small_demo(where, scenario="lossy", seconds=3, hosts=3, devices=2)


def test_the_json_document_has_the_keys_that_scripts_depend_on(serving: Ran) -> None:
    document = serving.document
    assert {"events", "clocks", "bottleneck", "incidents", "regressions", "events_per_s", "wall_s",
            "peak_rss_mb"} <= document.keys()
    assert document["events"].keys() == {"produced", "stored", "late", "dead_letter", "dropped_by_producer", "lost",
                                         "redelivered", "duplicate"}
    assert {"host_device", "host_host", "loop", "causality_inversions_unflagged"} <= document["clocks"].keys()
    assert {"p50_ns", "p99_ns", "max_ns", "bound_p50_ns", "bound_p99_ns", "bound_coverage", "steps_true",
            "steps_found", "steps_false", "gap_share"} <= document["clocks"]["host_device"].keys()
    assert document["events_per_s"] > 0
    assert document["peak_rss_mb"] > 50


def test_every_event_of_a_sound_fleet_is_stored_once_and_in_time(serving: Ran) -> None:
    events = serving.document["events"]
    assert events["produced"] > 10_000
    assert events["stored"] == events["produced"]
    assert [events[k] for k in ("late", "dead_letter", "dropped_by_producer", "lost", "redelivered", "duplicate")
            ] == [0] * 6


def test_clocks_are_within_their_bounds_and_no_cause_follows_its_effect_unflagged(serving: Ran) -> None:
    clocks = serving.document["clocks"]
    for pair in ("host_device", "host_host"):
        assert clocks[pair]["bound_coverage"] >= 0.999
        assert clocks[pair]["gap_share"] == 0
        assert clocks[pair]["max_ns"] <= clocks[pair]["bound_p99_ns"]
    assert clocks["causality_inversions_unflagged"] == 0


def test_the_states_of_every_window_add_up_to_its_length_and_each_window_has_a_verdict(serving: Ran, folder: Path
                                                                                       ) -> None:
    assert serving.code == 0
    total = " + ".join(f"{state}_ns" for state in STATE_NAMES)
    with opened(folder) as store:
        wrong = store.command(f"SELECT count() FROM windows FINAL WHERE {total} != window_ns")
        unjudged = store.command("SELECT count() FROM windows FINAL WHERE (host, device, window_start_ns) NOT IN "
                                 "(SELECT host, device, window_start_ns FROM verdicts)")
        windows = int(store.command("SELECT count() FROM windows FINAL"))
    assert (wrong, unjudged) == ("0", "0")
    assert windows >= 2 * 2


def test_the_same_seed_and_start_give_the_same_rows_in_every_table(serving: Ran, folder: Path, tmp_path: Path
                                                                   ) -> None:
    again = small_demo(tmp_path / "again")
    assert again.document["events"] == serving.document["events"]
    first = every_row(folder)
    assert differences(first, every_row(tmp_path / "again")) == []
    assert all(first[table] for table in ("spans", "counters", "segments", "windows", "verdicts", "coverage"))


def test_another_seed_gives_other_rows(serving: Ran, folder: Path, tmp_path: Path) -> None:
    assert small_demo(tmp_path / "other", seed=8).code == serving.code == 0
    assert every_row(tmp_path / "other")["spans"] != every_row(folder)["spans"]


def test_a_lossy_path_is_accounted_for_to_the_last_row(lossy: tuple[Path, Ran]) -> None:
    events = lossy[1].document["events"]
    parts = [events[name] for name in ("stored", "dead_letter", "dropped_by_producer", "lost")]
    assert events["produced"] == sum(parts)
    assert all(part > 0 for part in parts)
    assert events["redelivered"] > 0
    assert events["duplicate"] == 0


def test_coverage_rows_tell_of_the_same_losses_as_the_ground_truth(lossy: tuple[Path, Ran]) -> None:
    where, run = lossy
    assert run.code == 0
    truth = json.loads((where / "truth" / "truth.json").read_text())["rows_by_contract"]
    with opened(where) as store:
        rows = store.query("SELECT contract, sum(dropped_rows) AS dropped, sum(lost_rows) AS lost FROM coverage "
                           "GROUP BY contract").to_pylist()
    told = {row["contract"]: (row["dropped"], row["lost"]) for row in rows}
    assert sum(lost for _, lost in told.values()) > 0
    for contract, (dropped, lost) in told.items():
        if contract != "heartbeats":  # beats that are lost themselves are told by later ones, the last by none
            assert (dropped, lost) == (truth[contract]["dropped_by_producer"], truth[contract]["lost"]), contract


def test_the_same_seed_loses_and_stores_the_same_rows(lossy: tuple[Path, Ran], tmp_path: Path) -> None:
    where, run = lossy
    again = small_demo(tmp_path / "again", scenario="lossy", seconds=3, hosts=3, devices=2)
    assert again.document["events"] == run.document["events"]
    assert differences(every_row(where, BY_ARRIVAL), every_row(tmp_path / "again", BY_ARRIVAL)) == []


def test_a_second_demo_in_the_same_folder_replaces_the_first(tmp_path: Path) -> None:
    small_demo(tmp_path / "data", seconds=1, hosts=2)
    second = small_demo(tmp_path / "data", seconds=1, hosts=1)
    with opened(tmp_path / "data") as store:
        assert store.command("SELECT uniqExact(host) FROM spans") == "1"
        assert int(store.command("SELECT count() FROM spans")) == second.document["events"]["stored"]
