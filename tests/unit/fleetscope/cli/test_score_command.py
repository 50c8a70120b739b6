"""`fleetscope score` end to end: a small run, its document, and how it is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from fleetscope.contracts.derived import STATE_NAMES
from tests.support.demos import Ran, fleetscope

SMALL = ("--seconds", 3, "--hosts", 3, "--devices", 1, "--seed", 7)


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    """A small run into a folder of its own."""
    folder = tmp_path_factory.mktemp("score") / "data"
    return folder, fleetscope("score", *SMALL, "--data-dir", folder, "--json")


def test_the_document_has_the_keys_that_scripts_depend_on(scored: tuple[Path, Ran]) -> None:
    document = scored[1].document
    assert {"events", "clocks", "bottleneck", "incidents", "regressions", "events_per_s", "wall_s",
            "peak_rss_mb"} <= document.keys()
    events = document["events"]
    assert events["produced"] > 1_000
    assert events["produced"] == (events["stored"] + events["dead_letter"] + events["dropped_by_producer"]
                                  + events["lost"])
    for pair in ("host_device", "host_host", "loop"):
        assert {"p50_ns", "p99_ns", "max_ns", "bound_p50_ns", "bound_p99_ns", "bound_coverage", "steps_true",
                "steps_found", "steps_false", "gap_share"} <= document["clocks"][pair].keys()
    assert document["clocks"]["loop"]["bound_coverage"] == 1.0


def test_windows_are_graded_against_true_causes(scored: tuple[Path, Ran]) -> None:
    score = scored[1].document["bottleneck"]
    assert {"macro_f1", "accuracy", "confusion", "share_mae", "insufficient_data"} <= score.keys()
    assert 6 <= score["windows"] <= 9  # three devices; the last second may be cut by the clocks' offset
    assert sum(sum(given.values()) for given in score["confusion"].values()) == score["windows"]
    assert score["slot_cut_share_max"] < 0.01
    assert set(score["share_mae_by_state"]) <= set(STATE_NAMES)
    assert 0.0 <= score["share_mae"] <= score["misplaced_share"] <= 1.0


def test_a_given_folder_keeps_store_and_truth(scored: tuple[Path, Ran]) -> None:
    folder, _ = scored
    assert (folder / "store").is_dir()
    assert (folder / "truth" / "causes.arrow").is_file()


def test_the_same_scenario_and_seed_get_the_same_grades(scored: tuple[Path, Ran]) -> None:
    again = fleetscope("score", *SMALL, "--json").document
    of_the_run = {"events_per_s", "wall_s", "peak_rss_mb"}
    first = scored[1].document
    assert {key: value for key, value in again.items() if key not in of_the_run} == \
        {key: value for key, value in first.items() if key not in of_the_run}


@pytest.mark.parametrize(("arguments", "words"), [
    (["--scenario", "no-such"], "no scenario 'no-such'"),
    (["--hosts", "0"], "hosts is 0"),
    (["--seconds", "-1"], "seconds is -1"),
    (["--start", "yesterday"], "--start 'yesterday'"),
])
def test_wrong_use_is_one_line_and_exit_code_2(arguments: list[str], words: str) -> None:
    run = fleetscope("score", *arguments)
    assert (run.code, run.out) == (2, "")
    assert len(run.err.strip().splitlines()) == 1
    assert words in run.err


def test_somebody_else_s_folder_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("x")
    run = fleetscope("score", *SMALL, "--data-dir", tmp_path)
    assert run.code == 2
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
