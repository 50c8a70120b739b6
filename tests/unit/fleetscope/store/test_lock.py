from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fleetscope.errors import UsageError
from fleetscope.store import lock

HOLD = """
import sys
from pathlib import Path
from fleetscope.store import lock
lock.acquire(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path):
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path / "store")], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_second_process_is_told_who_holds_the_folder(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    with pytest.raises(UsageError, match=rf"store is in use by process {holder.pid} \(.*\), since \d{{4}}-"):
        lock.acquire(tmp_path / "store")


def test_a_killed_process_leaves_no_lock(tmp_path: Path, holder: subprocess.Popen[str]) -> None:
    holder.kill()
    holder.wait()
    lock.acquire(tmp_path / "store")
    lock.release(tmp_path / "store")


def test_holding_nests_within_a_process(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    lock.acquire(folder)
    lock.acquire(folder)
    lock.release(folder)
    assert subprocess.run([sys.executable, "-c", HOLD, str(folder)], input="", text=True, capture_output=True,
                          check=False).returncode == 1
    lock.release(folder)
    assert subprocess.run([sys.executable, "-c", HOLD, str(folder)], input="", text=True, capture_output=True,
                          check=False).returncode == 0


def test_a_lock_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot lock the data folder"):
        lock.acquire(tmp_path / "missing" / "store")
