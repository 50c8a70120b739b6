"""The command of the benchmarks."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from bench.run import RATIOS, main, parser, run_sections, table, with_ratios
from bench.sections import Bench, Options, Section, sections


def text_of(figures: dict[str, Any]) -> str:
    console = Console(file=io.StringIO(), width=200)
    console.print(table(figures))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_ratios_are_of_two_pipelines_measured_in_the_same_run() -> None:
    figures = with_ratios({
        "end_to_end_kafka": {"events_per_s": 500.0, "cpu_s_per_million": 4.0},
        "end_to_end_kafka_variants": {"processes_1": {"events_per_s": 300.0, "cpu_s_per_million": 5.0},
                                      "processes_2": {"events_per_s": 500.0, "cpu_s_per_million": 4.0}},
        "json_pipeline_kafka": {"events_per_s": 40.0, "cpu_s_per_million": 20.0},
        "json_pipeline_kafka_variants": {"workers_1": {"events_per_s": 40.0, "cpu_s_per_million": 20.0},
                                         "workers_2": {"events_per_s": 50.0, "cpu_s_per_million": 22.0}},
    })
    assert [figures[name] for name in RATIOS] == [12.5, 10.0, 7.5, 5.0]


def test_the_strict_ratio_is_never_the_larger_one() -> None:
    figures = with_ratios({"end_to_end_kafka": {"events_per_s": 500.0}, "json_pipeline_kafka": {"events_per_s": 40.0},
                           "json_pipeline_kafka_variants": {"workers_2": {"events_per_s": 30.0}}})
    assert figures["ratio_to_json_pipeline_strict"] == figures["ratio_to_json_pipeline"] == 12.5
    assert figures["cpu_ratio_to_json_pipeline"] is None


def test_a_run_of_one_pipeline_takes_the_old_ratios_out() -> None:
    figures = with_ratios({"json_pipeline_kafka": {"events_per_s": 40.0}})
    assert [figures[name] for name in RATIOS] == [None] * len(RATIOS)


def test_a_run_of_neither_leaves_the_ratios_alone() -> None:
    assert not set(RATIOS) & with_ratios({"other": {"events_per_s": 1.0}}).keys()


def test_sections_bring_their_keys_and_the_run_its_machine_and_workload() -> None:
    one = Section("one", "first", lambda bench: {"json_pipeline_kafka": {"events_per_s": bench.options.seed}})
    two = Section("two", "second", lambda _: {"end_to_end_kafka": {"events_per_s": 70.0}})
    said: list[str] = []
    with Bench(Options(seed=7), said.append) as bench:
        figures = run_sections([one, two], bench)
    assert figures["ratio_to_json_pipeline"] == 10.0
    assert figures["workload"]["seed"] == 7
    assert "versions" in figures["environment"]
    assert said == ["section one: first", "section two: second"]


def test_the_table_shows_a_row_for_each_pipeline_and_variant_and_a_dash_for_what_was_not_measured() -> None:
    text = text_of({"end_to_end": {"events_per_s": 312_345.6, "p99_latency_s": 0.25, "latency": {"events_per_s": 5.0}},
                    "environment": {"cores": 2},
                    "json_pipeline_kafka_variants": {"workers_2": {"events_per_s": 60_000.0, "p99_latency_s": None}}})
    cells = [[cell.strip() for cell in line.strip("│┃ ").replace("┃", "│").split("│")] for line in text.splitlines()]
    assert ["pipeline", "events/s", "p99 s"] in cells
    assert ["end_to_end", "312,346", "0.25"] in cells
    assert ["json_pipeline_kafka workers_2", "60,000", "-"] in cells
    assert "environment" not in text
    assert "latency" not in text


@pytest.mark.parametrize("arguments", [["--seconds", "0"], ["--hosts", "-1"], ["--repeat", "x"], ["--section", "no"]])
def test_wrong_arguments_are_refused_by_name(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_a_results_file_that_cannot_be_merged_into_stops_the_run_before_it_measures(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "latest.json"
    path.write_text("not json")
    assert main(["--results", str(path)]) == 2
    assert "latest.json" in capsys.readouterr().err.replace("\n", "")


def test_the_help_names_every_section_and_gives_an_example() -> None:
    text = " ".join(parser(sections()).format_help().split())
    assert "example: bench/run.py" in text
    assert all(f"{section.name} (" in text for section in sections())


def test_a_folder_is_given_out_once_and_removed_with_the_run() -> None:
    with Bench(Options(), lambda _: None) as bench:
        path = bench.folder("store")
        assert path.is_dir()
        with pytest.raises(FileExistsError):
            bench.folder("store")
    assert not path.exists()
