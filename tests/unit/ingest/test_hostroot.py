"""Reads stay below the root whatever its links say, and what cannot be read is counted."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from fleetscope.errors import UsageError
from ingest.hostroot import HostRoot


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A root beside a file that must never be seen."""
    (tmp_path / "secret").write_text("outside\n")
    root = tmp_path / "root"
    (root / "proc").mkdir(parents=True)
    (root / "proc" / "stat").write_text("cpu 1 2 3 4\n")
    return root


def test_an_absolute_link_starts_again_at_the_root(folder: Path) -> None:
    (folder / "link").symlink_to("/proc/stat")
    with HostRoot(folder) as root:
        assert root.text("link", "t") == "cpu 1 2 3 4\n"
        assert root.resolve("link") == "proc/stat"


@pytest.mark.parametrize("target", ["../secret", "../../../../../../../secret", "/../secret", "proc/../../secret"])
def test_no_link_leads_out_of_the_root(folder: Path, target: str) -> None:
    (folder / "link").symlink_to(target)
    with HostRoot(folder) as root:
        assert root.text("link", "t") is None
        assert root.unreadable["t", "missing"] == 1


def test_dots_in_the_asked_path_stop_at_the_root(folder: Path) -> None:
    with HostRoot(folder) as root:
        assert root.text("../secret", "t") is None
        assert root.text("../../proc/../proc/stat", "t") == "cpu 1 2 3 4\n"


def test_a_link_to_the_absolute_path_of_a_file_outside_is_not_followed(folder: Path) -> None:
    (folder / "link").symlink_to(folder.parent / "secret")
    with HostRoot(folder) as root:
        assert root.text("link", "t") is None


def test_a_folder_behind_a_link_is_listed_inside_the_root(folder: Path) -> None:
    (folder / "sys").symlink_to("/")
    with HostRoot(folder) as root:
        assert root.names("sys", "t") == ["proc", "sys"]


def test_links_in_a_circle_are_counted_as_such(folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    with HostRoot(folder) as root:
        assert root.text("a", "t") is None
        assert dict(root.unreadable) == {("t", "link_loop"): 1}


def test_a_file_beyond_the_limit_is_refused_whole(folder: Path) -> None:
    (folder / "big").write_text("x" * 101)
    (folder / "fits").write_text("x" * 100)
    with HostRoot(folder, max_file_bytes=100) as root:
        assert root.text("big", "t") is None
        assert root.text("fits", "t") == "x" * 100
        assert dict(root.unreadable) == {("t", "too_large"): 1}


def test_a_pipe_does_not_block_the_reader(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    with HostRoot(folder) as root:
        thread = threading.Thread(target=root.text, args=("pipe", "t"), daemon=True)
        thread.start()
        thread.join(5)
        assert not thread.is_alive()
        assert dict(root.unreadable) == {("t", "not_a_file"): 1}


def test_a_line_cut_off_at_the_end_is_left_out_and_counted(folder: Path) -> None:
    (folder / "proc" / "stat").write_text("cpu 1 2 3 4\ncpu0 1 2")
    with HostRoot(folder) as root:
        assert root.lines("proc/stat", "t") == ["cpu 1 2 3 4"]
        assert dict(root.unreadable) == {("t", "truncated"): 1}
        assert root.examples["t", "truncated"] == "proc/stat"


def test_an_optional_file_may_be_absent_but_not_unreadable(folder: Path) -> None:
    (folder / "a").symlink_to("a")
    with HostRoot(folder) as root:
        assert root.text("nothing", "t", optional=True) is None
        assert root.names("nothing", "t", optional=True) == []
        assert not root.unreadable
        assert root.text("a", "t", optional=True) is None
        assert dict(root.unreadable) == {("t", "link_loop"): 1}


@pytest.mark.parametrize(("number", "reason"), [
    (errno.EACCES, "permission"), (errno.EPERM, "permission"), (errno.ESRCH, "missing"), (errno.EIO, "io_error"),
    (errno.EINVAL, "io_error")])
def test_what_the_kernel_refuses_is_counted_by_reason(
        folder: Path, monkeypatch: pytest.MonkeyPatch, number: int, reason: str) -> None:
    def refuse(fd: int, size: int) -> bytes:
        raise OSError(number, os.strerror(number))

    with HostRoot(folder) as root:
        monkeypatch.setattr(os, "read", refuse)
        assert root.text("proc/stat", "t") is None
        monkeypatch.undo()
        assert dict(root.unreadable) == {("t", reason): 1}


def test_a_name_that_is_no_text_is_left_out_and_counted(folder: Path) -> None:
    Path(os.fsdecode(os.fsencode(folder / "proc") + b"/\xff")).write_text("")
    with HostRoot(folder) as root:
        assert root.names("proc", "t") == ["stat"]
        assert dict(root.unreadable) == {("t", "malformed"): 1}


def test_no_handle_is_left_open(folder: Path) -> None:
    (folder / "link").symlink_to("/proc/../proc/./stat")
    (folder / "loop").symlink_to("loop")
    before = len(list(Path("/proc/self/fd").iterdir()))
    with HostRoot(folder) as root:
        for _ in range(50):
            root.text("link", "t")
            root.text("loop", "t")
            root.text("proc", "t")
            root.names("proc", "t")
            root.names("proc/stat", "t")
            root.resolve("proc/nothing")
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_a_root_that_is_no_folder_or_has_no_proc_is_wrong_usage(folder: Path) -> None:
    with pytest.raises(UsageError, match="nowhere"):
        HostRoot(folder / "nowhere")
    (folder / "proc" / "stat").unlink()
    with HostRoot(folder) as root, pytest.raises(UsageError, match=str(folder)):
        root.require_proc()
