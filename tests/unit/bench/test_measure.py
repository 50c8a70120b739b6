"""What the benchmarks measure with."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench.measure import (
    ChildError,
    Measured,
    Meter,
    environment,
    in_child,
    median_figures,
    read_results,
    reset_peak_rss,
    write_results,
)


def burn(seconds: float) -> float:
    with Meter() as meter:
        until = time.process_time() + seconds
        while time.process_time() < until:
            pass
    return meter.cpu_s


def double(value: int) -> int:
    return 2 * value


def fail(reason: str) -> None:
    raise LookupError(reason)


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def burn_in_grandchild(seconds: float) -> float:
    with Meter() as meter:
        in_child(burn, seconds)
    return meter.cpu_s


def test_the_cpu_time_of_what_ran_inside_is_measured_and_stands_still_after() -> None:
    assert 0.1 <= burn(0.1) < 0.5


def test_the_cpu_time_of_children_that_were_waited_for_counts() -> None:
    assert burn_in_grandchild(0.3) >= 0.3


def test_a_pause_costs_wall_time_and_no_cpu_time() -> None:
    with Meter() as meter:
        time.sleep(0.05)
    assert meter.wall_s >= 0.05
    assert meter.cpu_s < 0.05


PEAKS = """
from bench.measure import peak_rss_bytes, reset_peak_rss
assert reset_peak_rss()
before = peak_rss_bytes()
block = bytearray(96 * 1024 * 1024)
block[::4096] = b"x" * len(block[::4096])
del block
after = peak_rss_bytes()
assert reset_peak_rss()
print(after - before, peak_rss_bytes() - before)
"""


def test_peak_memory_remembers_what_was_freed_until_it_is_set_back() -> None:
    if not reset_peak_rss():
        pytest.skip("this kernel does not let the high-water mark be set back")
    # in a process of its own: this one may have freed memory to take the block from
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", PEAKS], cwd=root, capture_output=True, text=True, check=True)
    grown, left = map(int, done.stdout.split())
    assert grown > 80 * 1024 * 1024
    assert left < 40 * 1024 * 1024


def test_a_child_gives_back_what_the_function_returned() -> None:
    assert in_child(double, 21) == 42


def test_what_a_child_raised_reaches_the_parent_with_its_traceback() -> None:
    with pytest.raises(ChildError, match="LookupError: no such thing") as caught:
        in_child(fail, "no such thing")
    assert "in fail" in str(caught.value)


def test_a_child_that_was_killed_is_an_error_that_names_its_exit_code() -> None:
    with pytest.raises(ChildError, match="exit code -9"):
        in_child(die)


def test_figures_carry_the_published_names_and_units() -> None:
    figures = Measured(events=2_000_000, wall_s=4.0, cpu_s=6.0, peak_rss_bytes=750_000_000, wire_bytes=30_000_000,
                       disk_bytes=24_000_000, p99_latency_s=0.5).figures()
    assert figures == {"events": 2_000_000, "rejected": 0, "events_per_s": 500_000, "cpu_s_per_million": 3.0,
                       "peak_rss_mb": 750.0, "p99_latency_s": 0.5, "bytes_per_event_wire": 15.0,
                       "bytes_per_event_disk": 12.0}


def test_a_run_that_stored_nothing_has_no_figures_per_event() -> None:
    figures = Measured(events=0, wall_s=1.0, cpu_s=1.0, peak_rss_bytes=1, wire_bytes=5).figures()
    assert figures["cpu_s_per_million"] is None
    assert figures["bytes_per_event_wire"] is None
    assert figures["events_per_s"] == 0


def test_the_median_is_of_each_figure_and_none_where_a_run_lacks_it() -> None:
    runs = [Measured(10, wall, cpu, 1_000_000, wire_bytes=wire)
            for wall, cpu, wire in ((1.0, 3.0, 10), (2.0, 1.0, None), (5.0, 2.0, 30))]
    figures = median_figures(runs)
    assert (figures["events_per_s"], figures["cpu_s_per_million"], figures["runs"]) == (5.0, 200_000.0, 3)
    assert figures["bytes_per_event_wire"] is None


def test_a_median_of_no_runs_is_refused() -> None:
    with pytest.raises(ValueError, match="one run or more"):
        median_figures([])


def test_results_keep_other_keys_replace_their_own_whole_and_drop_what_became_none(tmp_path: Path) -> None:
    path = tmp_path / "results" / "latest.json"
    write_results({"a": {"old": 1, "both": 1}, "b": 2, "ratio": 9.0}, path)
    document = write_results({"a": {"both": 3}, "ratio": None}, path)
    assert document == {"a": {"both": 3}, "b": 2}
    assert json.loads(path.read_text()) == document
    assert [p.name for p in path.parent.iterdir()] == ["latest.json"]


@pytest.mark.parametrize("content", ["{", "[1]"])
def test_a_damaged_results_file_is_named_and_left_as_it_is(tmp_path: Path, content: str) -> None:
    path = tmp_path / "latest.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=r"latest\.json"):
        write_results({"a": 1}, path)
    assert path.read_text() == content


def test_no_results_file_is_no_results(tmp_path: Path) -> None:
    assert read_results(tmp_path / "latest.json") == {}


def test_the_environment_names_the_machine_and_the_versions() -> None:
    found = environment()
    assert found["cores"] >= 1
    assert found["memory_mb"] > 100
    assert found["cpu"]
    assert found["versions"]["pyarrow"].count(".") == 2
