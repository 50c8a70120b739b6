from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from fleetscope.errors import UsageError
from fleetscope.stream.capture import read_capture, write_capture
from simulator.producer import Publication


@pytest.fixture
def captured(tmp_path: Path, serving: list[Publication]) -> Path:
    path = tmp_path / "capture.arrow"
    assert write_capture(path, serving) == len(serving)
    return path


def test_a_capture_gives_back_every_message_in_order(captured: Path, serving: list[Publication]) -> None:
    assert list(read_capture(captured)) == [(p.topic, p.message) for p in serving]


def test_an_empty_capture_is_whole(tmp_path: Path) -> None:
    write_capture(tmp_path / "none.arrow", [])
    assert list(read_capture(tmp_path / "none.arrow")) == []


def test_a_capture_cut_off_anywhere_is_told_and_the_row_named(captured: Path) -> None:
    whole = captured.read_bytes()
    for length in (*range(0, len(whole), len(whole) // 40), len(whole) - 8, len(whole) - 1):
        captured.write_bytes(whole[:length])
        with pytest.raises(UsageError, match=r"cut off after row \d+"):
            list(read_capture(captured))


def test_what_was_whole_before_the_cut_is_still_given(captured: Path, serving: list[Publication]) -> None:
    whole = captured.read_bytes()
    captured.write_bytes(whole[:-8])
    messages = []

    def read() -> None:
        for entry in read_capture(captured):
            messages.append(entry)  # noqa: PERF402 - kept although the reading fails

    with pytest.raises(UsageError, match=f"cut off after row {len(serving)}"):
        read()
    assert len(messages) == len(serving)


def test_an_interrupted_writer_leaves_nothing_under_the_name(tmp_path: Path, serving: list[Publication]) -> None:
    def failing() -> Iterator[Publication]:
        yield from serving[:3]
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        write_capture(tmp_path / "capture.arrow", failing())
    assert not (tmp_path / "capture.arrow").exists()


def test_other_files_and_missing_ones_are_named(tmp_path: Path) -> None:
    other = tmp_path / "other.arrow"
    with pa.OSFile(str(other), "wb") as file, pa.ipc.new_stream(file, pa.schema([("x", pa.int64())])):
        pass
    with pytest.raises(UsageError, match=r"other.arrow: no capture: its columns are x"):
        list(read_capture(other))
    with pytest.raises(UsageError, match=r"gone.arrow: there is no such capture"):
        list(read_capture(tmp_path / "gone.arrow"))
    with pytest.raises(UsageError, match="cannot write"):
        write_capture(other / "under" / "a.file", [])
