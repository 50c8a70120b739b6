"""The series of graded runs: pooling, going on after an interruption, the page and its plots."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from bench.accuracy import runs, svg
from bench.accuracy.__main__ import assembled, write
from bench.accuracy.document import by_scenario, pooled
from bench.accuracy.page import page, plots
from bench.accuracy.poor import shortfalls
from bench.accuracy.runs import Journal, Outcome, Run, execute

CLOCK = {"p50_ns": 100.0, "p99_ns": 200.0, "max_ns": 300, "bound_p50_ns": 600.0, "bound_p99_ns": 700.0,
         "bound_coverage": 1.0, "gap_share": 0.0, "steps_true": 2, "steps_found": 2, "steps_false": 0}


def scored(confusion: dict[str, dict[str, int]], **changes: Any) -> dict[str, Any]:
    """A score document; ``changes`` go into its sections by name."""
    windows = sum(sum(given.values()) for given in confusion.values())
    document: dict[str, Any] = {
        "events": {"produced": 1_000, "stored": 990, "late": 0, "dead_letter": 4, "dropped_by_producer": 3, "lost": 3,
                   "redelivered": 0, "duplicate": 0},
        "clocks": {"host_device": CLOCK, "host_host": CLOCK, "loop": None, "causality_inversions_unflagged": 0},
        "bottleneck": {"confusion": confusion, "windows": windows, "insufficient_data": 1, "insufficient_data_wrong": 0,
                       "low_coverage": 1, "share_mae": 0.01, "misplaced_share": 0.02,
                       "share_mae_by_state": {"host": 0.02, "latency": 0.01}},
        "incidents": {"straggler": {"planted": 2, "found": 1, "reported": 2, "right": 2, "median_delay_s": 1.5}},
        "regressions": None, "events_per_s": 1_000, "peak_rss_mb": 500.0, "notes": ["n"],
    }
    for section, values in changes.items():
        document[section] = {**document[section], **values}
    return document


def outcome(scenario: str, seed: int, document: dict[str, Any] | None, error: str | None = None) -> Outcome:
    return Outcome(Run(scenario, seed), document, error, 1.0)


GOOD = scored({"host": {"host": 8, "latency": 2}})
BAD = scored({"latency": {"host": 10}}, clocks={"host_device": {**CLOCK, "p99_ns": 900.0, "bound_coverage": 0.99,
                                                                "steps_found": 1, "steps_false": 3}},
             events={"stored": 985, "duplicate": 5})


def test_verdicts_are_pooled_over_windows_not_over_runs() -> None:
    score = pooled([GOOD, BAD])["bottleneck"]
    # host: 8 right, 10 wrongly, 2 missed → 16 / 28; latency: 0 right
    assert score["macro_f1"] == pytest.approx((16 / 28) / 2)
    assert score["accuracy"] == pytest.approx(0.4)
    assert score["share_mae_by_state"] == {"host": pytest.approx(0.02), "latency": pytest.approx(0.01)}


def test_clocks_are_those_of_the_worst_run_and_counts_are_summed() -> None:
    both = pooled([GOOD, BAD])
    device = both["clocks"]["host_device"]
    assert (device["p99_ns"], device["bound_coverage"], device["steps_true"], device["steps_found"],
            device["steps_false"]) == (900.0, 0.99, 4, 3, 3)
    assert both["events"]["produced"] == 2_000
    assert both["incidents"]["straggler"] == {"planted": 4, "found": 2, "reported": 4, "right": 4, "precision": 1.0,
                                              "recall": 0.5, "median_delay_s": 1.5}


def test_what_falls_short_is_named_with_its_figures() -> None:
    lines = " ".join(shortfalls(by_scenario([outcome("bad", 1, BAD)]))["bad"])
    for words in ("5 of 1,000 rows are not accounted for", "5 rows are stored twice", "error p99 0.90 µs (aim 0.5 µs)",
                  "truth inside the bound 99.000%", "1 of 2 clock steps found", "3 clock steps reported that were none",
                  "latency called host in 10 windows", "straggler: 1 of 2 found"):
        assert words in lines, words


def test_a_scenario_that_failed_is_a_row_that_says_so(tmp_path: Path) -> None:
    failed = outcome("broken", 3, None, "fleetscope: no | luck")
    document = assembled([outcome("good", 3, GOOD), failed], "abc")
    write(document, tmp_path / "accuracy.json", tmp_path / "accuracy.md")
    text = (tmp_path / "accuracy.md").read_text()
    assert "| broken | **failed**: seed 3: fleetscope: no / luck |" in text
    assert "- **broken**: a run failed: seed 3" in text
    assert json.loads((tmp_path / "accuracy.json").read_text())["scenarios"]["broken"]["runs"] == 0


def test_every_run_failing_still_makes_a_page() -> None:
    document = assembled([outcome("broken", 3, None, "no")], "abc")
    assert "No run has true causes" in page(document, "accuracy")
    assert all(ElementTree.fromstring(text).tag.endswith("svg") for text in plots(document).values())


def test_images_on_the_page_exist_and_are_svg(tmp_path: Path) -> None:
    write(assembled([outcome("good", 3, GOOD), outcome("bad", 3, BAD)], "abc"), tmp_path / "a.json", tmp_path / "a.md")
    images = re.findall(r"\]\((\S+\.svg)\)", (tmp_path / "a.md").read_text())
    assert len(images) == 5
    for image in images:
        assert ElementTree.parse(tmp_path / image).getroot().tag.endswith("svg")


def test_tables_of_the_page_have_as_many_cells_in_every_row() -> None:
    text = page(assembled([outcome("good", 3, GOOD), outcome("broken", 3, None, "no")], "abc"), "accuracy")
    for block in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({line.count("|") for line in block.splitlines()}) == 1, block


def test_bars_are_as_long_as_their_values() -> None:
    drawing = svg.bars("t", ["a", "b"], [svg.Series("s", [0.5, None])], 1.0)
    widths = [float(value) for value in re.findall(r'width="([\d.]+)" height="11.6"', drawing)]
    assert widths == [pytest.approx((svg.WIDTH - svg.LABEL - 70) / 2)]


def test_an_interrupted_series_goes_on_and_what_failed_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "accuracy.tmp"
    journal = Journal(path, "v1", resume=False)
    journal.add(outcome("good", 1, GOOD))
    journal.add(outcome("broken", 1, None, "no"))
    with path.open("a") as file:
        file.write('{"version": "v1", "run": {"scen')
    assert list(Journal(path, "v1", resume=True).done) == [Run("good", 1)]
    assert list(Journal(path, "v1", resume=True).done) == [Run("good", 1)]
    assert not Journal(path, "v2", resume=True).done


def stand_in(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    monkeypatch.setattr(runs, "COMMAND", (sys.executable, "-c", program))


def test_a_run_that_fails_hangs_or_loses_rows_is_an_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "import sys; print('noise', file=sys.stderr); sys.exit('fleetscope: there is no scenario x')")
    assert execute(Run("x", 1), 60.0).error == "fleetscope: there is no scenario x"
    stand_in(monkeypatch, "print('{}'); raise SystemExit(1)")
    found = execute(Run("x", 1), 60.0)
    assert (found.document, found.error) == ({}, "exit code 1: rows are not accounted for")

    def hang(*_: object, **__: object) -> None:
        raise subprocess.TimeoutExpired("score", 5)

    monkeypatch.setattr(subprocess, "run", hang)
    assert execute(Run("x", 1), 5.0).error == "not done after 5 s"


def test_a_size_that_the_scenario_refuses_is_run_at_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, "import sys; sys.exit(2) if '--seconds' in sys.argv else print('{}')")
    found = execute(Run("x", 1, 3.0), 60.0)
    assert (found.run, found.document, found.error, found.whole) == (Run("x", 1, 3.0), {}, None, True)
    stand_in(monkeypatch, "import sys; sys.exit(2)")
    assert execute(Run("x", 1), 60.0).error == "exit code 2"


def test_only_what_is_given_goes_to_the_command_line() -> None:
    assert Run("serving", 7).arguments() == ["--scenario", "serving", "--seed", "7"]
    assert Run("serving", 7, 12.5, 3).arguments()[4:] == ["--seconds", "12.5", "--hosts", "3"]
