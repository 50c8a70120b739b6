"""`fleetscope demo` used wrongly: exit code 2, one clear line, nothing on stdout and nobody's data touched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.demos import Ran, environment, fleetscope, opened, small_demo


def refused(run: Ran, *words: str) -> None:
    """Exit code 2 and one line that says all of ``words``."""
    assert run.code == 2, run.err
    assert run.out == ""
    lines = run.err.strip().splitlines()
    assert len(lines) == 1, run.err
    for word in words:
        assert word in lines[0]


@pytest.mark.parametrize(("arguments", "words"), [
    (["--seconds", "0"], ["seconds is 0"]),
    (["--seconds", "-3"], ["seconds is -3"]),
    (["--seconds", "nan"], ["seconds is nan"]),
    (["--seconds", "inf"], ["seconds is inf"]),
    (["--hosts", "0"], ["hosts is 0"]),
    (["--devices", "0"], ["devices is 0"]),
    (["--scenario", "no-such"], ["no scenario 'no-such'", "serving"]),
    (["--start", "yesterday"], ["--start 'yesterday'"]),
    (["--start", "1e30"], ["before the year 2190"]),
    (["--clickhouse", "somewhere"], ["'somewhere' is not HOST:PORT"]),
])
def test_a_wrong_option_is_one_line_and_makes_no_folder(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    refused(fleetscope("demo", "--no-host", "--data-dir", tmp_path / "data", *arguments), *words)
    assert not (tmp_path / "data").exists()


def test_a_folder_that_no_demo_made_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    refused(small_demo(tmp_path), str(tmp_path), "was not made by a demo")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    refused(small_demo(tmp_path / "file"), "is not a folder")
    refused(small_demo(tmp_path / "file" / "below"), "Not a directory")


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unwritable for the superuser")
def test_an_unwritable_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "locked").mkdir(mode=0o500)
    refused(small_demo(tmp_path / "locked" / "data"), "Permission denied")


def test_a_folder_on_a_file_system_that_takes_no_files_is_refused() -> None:
    refused(small_demo(Path("/proc/fleetscope-demo")), "/proc/fleetscope-demo")


def test_a_store_that_another_process_has_open_is_left_to_it(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    first = small_demo(folder, seconds=1, hosts=1)
    program = ("import sys\nfrom pathlib import Path\nfrom tests.support.demos import opened\n"
               "with opened(Path(sys.argv[1])):\n    print('open', flush=True)\n    sys.stdin.read()\n")
    with subprocess.Popen([sys.executable, "-c", program, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          text=True, env=environment(PYTHONPATH=".")) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        assert holder.stdout.readline() == "open\n"
        refused(small_demo(folder, seconds=1), "is in use by process", str(holder.pid))
        holder.stdin.close()
        assert holder.wait(30) == 0
    with opened(folder) as store:
        assert int(store.command("SELECT count() FROM spans")) == first.document["events"]["stored"]
