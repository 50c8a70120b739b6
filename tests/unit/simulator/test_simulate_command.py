from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fleetscope.cli.main import app
from fleetscope.cli.simulate import parse_start
from fleetscope.errors import UsageError
from fleetscope.stream.capture import read_capture

SMALL = ["simulate", "--hosts", "1", "--devices", "1", "--seconds", "0.4", "--start", "2026-01-01T00:00:00Z", "--json"]


def test_a_capture_and_its_truth_are_written_and_summed_up_as_json(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [*SMALL, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    summary = json.loads(result.stdout)
    assert summary["messages"] == sum(1 for _ in read_capture(tmp_path / "capture.arrow"))
    assert summary["start_unix_ns"] == 1_767_225_600 * 10**9
    truth = json.loads((tmp_path / "truth" / "truth.json").read_text())
    assert truth["rows_by_contract"] == summary["rows_by_contract"]
    assert summary["rows_by_contract"]["spans"]["produced"] > 1_000


def test_the_same_arguments_write_the_same_file(tmp_path: Path) -> None:
    for name in ("a", "b"):
        CliRunner().invoke(app, [*SMALL, "--out", str(tmp_path / name)], catch_exceptions=False)
    assert (tmp_path / "a" / "capture.arrow").read_bytes() == (tmp_path / "b" / "capture.arrow").read_bytes()


@pytest.mark.parametrize("wrong", [["--hosts", "0"], ["--seconds", "0"], ["--devices", "-3"], ["--scenario", "none"]])
def test_wrong_usage_is_one_line_and_writes_nothing(wrong: list[str], tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["simulate", "--out", str(tmp_path / "x"), *wrong])
    assert isinstance(result.exception, UsageError)
    assert "\n" not in str(result.exception)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize(("text", "ns"), [
    ("1767225600", 1_767_225_600 * 10**9), ("1767225600.123456789", 1_767_225_600_123_456_789),
    ("2026-01-01", 1_767_225_600 * 10**9), ("2026-01-01T01:00:00+01:00", 1_767_225_600 * 10**9), (None, 42),
])
def test_a_start_is_unix_seconds_or_iso_8601_to_the_nanosecond(text: str | None, ns: int) -> None:
    assert parse_start(text, 42) == ns


@pytest.mark.parametrize("text", ["", "soon", "nan", "inf", "2026-13-01"])
def test_a_start_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="--start"):
        parse_start(text, 0)
