"""Ctrl-C in the middle of a demo: the store opens again and holds, of every clock, the first batches whole."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections import defaultdict
from pathlib import Path

from fleetscope.contracts.codec import decode_header
from fleetscope.settings import StoreSettings
from fleetscope.store.clickhouse import open_store
from fleetscope.stream.capture import read_capture
from tests.support.demos import COMMAND, START, environment, fleetscope

FLEET = ["--seconds", "120", "--hosts", "2", "--devices", "1", "--start", START, "--seed", "7"]


def published(folder: Path) -> dict[tuple[str, str], list[tuple[int, int]]]:
    """(sequence, rows) of the span batches by producer and clock, in their order."""
    assert fleetscope("simulate", "--out", folder, *FLEET).code == 0
    found = defaultdict(list)
    for topic, message in read_capture(folder / "capture.arrow"):
        if topic == "raw.spans":
            header = decode_header(message.headers)
            found[header.producer, header.clock].append((header.sequence, header.rows))
    return found


def _hears_interrupts() -> None:
    """A shell starts what runs in its background with SIGINT ignored, and that is inherited."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def _spans_are_stored(folder: Path) -> bool:
    """Whether a finished part of a table with correlation ids (spans) is on disk."""
    for names in (folder / "store").rglob("columns.txt"):
        try:
            if not names.parent.name.startswith("tmp") and "`correlation_id`" in names.read_text(encoding="utf-8"):
                return True
        except OSError:
            continue  # merged away while we looked
    return False


def interrupt_while_it_stores(folder: Path) -> tuple[int, str, str]:
    """A demo that gets SIGINT, as a terminal sends it to the whole group, while it stores."""
    with subprocess.Popen([*COMMAND, "demo", "--no-host", "--json", "--data-dir", str(folder), *FLEET],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(),
                          start_new_session=True, preexec_fn=_hears_interrupts) as demo:
        deadline = time.monotonic() + 60
        while not _spans_are_stored(folder):
            assert demo.poll() is None, demo.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.killpg(demo.pid, signal.SIGINT)
        out, err = demo.communicate(timeout=40)
        return demo.returncode, out, err


def test_ctrl_c_leaves_a_store_that_opens_and_has_no_hole(tmp_path: Path) -> None:
    code, out, err = interrupt_while_it_stores(tmp_path / "demo")
    assert (code, out) == (130, "")
    assert "Traceback" not in err
    with open_store(StoreSettings(path=tmp_path / "demo" / "store"), create=False) as store:
        rows = store.query("SELECT producer, clock, sequence, count() AS n, uniqExact(row) AS different FROM spans "
                           "GROUP BY ALL ORDER BY sequence").to_pylist()
        doubles = store.command("SELECT count() - uniqExact(source, source_epoch, contract, to_ns) FROM coverage")
    assert doubles == "0"
    assert rows
    stored = defaultdict(list)
    for row in rows:
        assert row["n"] == row["different"]
        stored[row["producer"], row["clock"]].append((row["sequence"], row["n"]))
    sent = published(tmp_path / "capture")
    assert stored.keys() <= sent.keys()
    for clock, batches in stored.items():
        assert batches == sent[clock][:len(batches)], clock
    assert sum(map(len, stored.values())) < sum(map(len, sent.values())), "it was over before it was interrupted"
