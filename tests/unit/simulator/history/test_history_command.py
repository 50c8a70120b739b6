from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetscope.cli.common import open_embedded
from fleetscope.cli.main import app
from fleetscope.errors import UsageError

TEXT = "[history]\nhours = 2\nwindow_s = 600\nhosts = 1\ndevices = 2\n"


@pytest.fixture
def settings(tmp_path: Path) -> Path:
    path = tmp_path / "weeks.toml"
    path.write_text(TEXT)
    return path


def run(*arguments: object) -> dict[str, object]:
    result = CliRunner().invoke(app, ["simulate", "--json", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == 0
    return json.loads(result.stdout)


def test_a_history_is_written_to_files_with_its_truth_beside_them(settings: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    summary = run("--history", settings, "--out", out, "--start", "2026-01-01T00:30:00Z")
    assert summary["windows"] == 12 * 2
    assert summary["start_ns"] == 1_767_225_600 * 10**9
    assert (out / "windows-00000.parquet").exists()
    assert json.loads((out / "truth" / "changes.json").read_text()) == []


def test_a_history_goes_into_an_embedded_store(settings: Path, tmp_path: Path) -> None:
    summary = run("--history", settings, "--data-dir", tmp_path / "data")
    with open_embedded(tmp_path / "data") as store:
        assert int(store.command("SELECT count() FROM windows")) == summary["windows"]
    assert (tmp_path / "data" / "truth" / "changes.json").exists()


def test_files_and_a_store_at_once_are_refused_before_anything_is_written(settings: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["simulate", "--history", str(settings), "--out", str(tmp_path / "out"),
                                      "--data-dir", str(tmp_path / "data")])
    assert isinstance(result.exception, UsageError)
    assert not (tmp_path / "out").exists()
    assert not (tmp_path / "data").exists()


def test_wrong_settings_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "weeks.toml"
    path.write_text(TEXT + "speed = 3\n")
    result = CliRunner().invoke(app, ["simulate", "--history", str(path), "--out", str(tmp_path / "out")])
    assert isinstance(result.exception, UsageError)
    assert "line 6: history.speed: Extra inputs" in str(result.exception)
    assert not (tmp_path / "out").exists()
