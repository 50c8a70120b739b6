"""The section `bottleneck`: a perfect pipeline, planted mistakes, withheld and missing verdicts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from fleetscope.contracts.derived import STATE_NAMES
from simulator.clocks import NS
from simulator.grading.bottleneck import Given, bottleneck_score
from simulator.grading.shares import BIN_NS, RowCounts
from simulator.truth import Causes, Incident
from tests.unit.simulator.grading.cases import START_NS, all_rows, given, host_time, slots

TRUTH = slots({"compute_matrix": 0.6, "host_launch": 0.4}, {"memory_bandwidth": 1.0}, {"host_input": 0.8}, {})
RIGHT = (("compute", {"compute": 0.6, "host": 0.4}), ("memory_bandwidth", {"memory_bandwidth": 1.0}),
         ("host_input", {"host_input": 0.8}), ("no_demand", {}))


def graded(told: Given, rows: RowCounts | None = None, silences: list[Incident] | None = None,
           truth: Causes = TRUTH, seconds: int = 4) -> dict[str, Any]:
    score = bottleneck_score(told, [truth], {"a": host_time()}, {"a": rows or all_rows(4)}, silences or [],
                             seconds * NS)
    assert score is not None
    return score


def test_a_perfect_pipeline_scores_one_and_has_no_error() -> None:
    score = graded(given(*RIGHT))
    assert (score["macro_f1"], score["accuracy"], score["windows"]) == (1.0, 1.0, 4)
    assert score["share_mae"] == pytest.approx(0.0, abs=1e-9)
    assert score["misplaced_share"] == pytest.approx(0.0, abs=1e-9)
    assert (score["insufficient_data"], score["low_coverage"]) == (0, 0)


def test_a_wrong_cause_is_in_the_confusion_under_the_true_one() -> None:
    score = graded(given(("latency", {"latency": 0.6, "host": 0.4}), *RIGHT[1:]))
    assert score["confusion"]["compute"] == {"latency": 1}
    assert score["accuracy"] == 0.75
    assert score["macro_f1"] == pytest.approx(0.75)
    # 0.6 of one window of four is in a wrong state: it is missing in one state and too much in another
    assert score["misplaced_share"] == pytest.approx(0.15)
    assert score["share_mae"] == pytest.approx(2 * 0.6 / 4 / len(STATE_NAMES))
    assert score["share_mae_by_state"] == {"compute": pytest.approx(0.15), "latency": pytest.approx(0.15)}


def test_a_verdict_withheld_although_everything_was_there_is_wrong() -> None:
    score = graded(given(("insufficient_data", RIGHT[0][1]), *RIGHT[1:]))
    assert score["confusion"]["compute"] == {"insufficient_data": 1}
    assert (score["insufficient_data"], score["insufficient_data_wrong"]) == (1, 1)
    assert score["accuracy"] == 0.75


def test_a_verdict_withheld_where_rows_were_lost_is_not_graded() -> None:
    missed = np.zeros(4 * NS // BIN_NS + 1, dtype=np.int64)
    missed[:100] = 6  # 6 % of the first second
    score = graded(given(("insufficient_data", {"unknown": 1.0}), *RIGHT[1:]), all_rows(4, missed))
    assert (score["windows"], score["accuracy"], score["low_coverage"]) == (3, 1.0, 1)
    assert (score["insufficient_data"], score["insufficient_data_wrong"]) == (1, 0)
    assert score["share_mae"] == pytest.approx(0.0, abs=1e-9)


def test_a_silent_host_is_not_covered_and_a_vanished_device_only_itself() -> None:
    told = given(("insufficient_data", {"unknown": 1.0}), *RIGHT[1:])
    silent = Incident("host_silent", "a", None, 0, NS // 2)
    assert graded(told, silences=[silent])["windows"] == 3
    other = Incident("device_vanished", "a", "dev1", 0, NS // 2)
    assert graded(told, silences=[other])["insufficient_data_wrong"] == 1
    harmless = Incident("throttling", "a", None, 0, NS)
    assert graded(told, silences=[harmless])["insufficient_data_wrong"] == 1


def test_a_window_that_was_never_written_is_wrong() -> None:
    told = given(*RIGHT)
    del told.windows[next(iter(told.windows))]
    score = graded(told)
    assert score["confusion"]["compute"] == {"missing": 1}
    assert score["accuracy"] == 0.75


def test_windows_outside_the_workload_are_not_graded() -> None:
    assert graded(given(*RIGHT), seconds=2)["windows"] == 2


def test_a_fleet_time_that_leaps_for_decades_is_graded_all_the_same() -> None:
    decades = 50 * 365 * 86_400 * NS
    leap = host_time(leap_at_ns=2 * NS, leap_ns=decades)
    told = given(*RIGHT)
    for key in list(told.windows):
        if key[2] >= START_NS + 2 * NS:
            told.windows[key[0], key[1], key[2] + decades] = told.windows.pop(key)
    score = bottleneck_score(told, [TRUTH], {"a": leap}, {"a": all_rows(4)}, [], 4 * NS)
    assert score is not None
    # The slot in which time leaps has no place: its window is not known well enough to be graded.
    assert (score["windows"], score["accuracy"]) == (3, 1.0)


def test_without_true_causes_there_is_no_grade() -> None:
    assert bottleneck_score(given(*RIGHT), [], {}, {}, [], NS) is None
