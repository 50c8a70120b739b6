"""Reads files below a folder as if it were the root of the file system, and counts what it cannot read.

A captured /proc and /sys is full of links that point to absolute paths. They are resolved one component at a time
inside the folder, as after chroot: an absolute link starts again at the folder, and ``..`` stops there. The kernel is
never asked to follow a link, so no file outside can be read by mistake or by a forged capture.
"""

from __future__ import annotations

import errno
import os
import stat
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from fleetscope.errors import UsageError

Reason = Literal["missing", "permission", "malformed", "truncated", "too_large", "over_limit", "not_a_file",
                 "link_loop", "io_error"]

MAX_FILE_BYTES: Final = 4 * 1024 * 1024
_MAX_LINKS: Final = 40
_MAX_EXAMPLES: Final = 256
_WALK: Final = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_LIST: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_REASONS: Final[dict[int, Reason]] = {
    errno.ENOENT: "missing", errno.ENOTDIR: "missing", errno.ESRCH: "missing", errno.ENODEV: "missing",
    errno.EACCES: "permission", errno.EPERM: "permission", errno.ELOOP: "link_loop",
}


class HostRoot:
    """Files below ``path``; every name is relative to it. Raises UsageError where ``path`` is no readable folder."""

    def __init__(self, path: Path, *, max_file_bytes: int = MAX_FILE_BYTES) -> None:
        self.path = path
        self.unreadable: Counter[tuple[str, Reason]] = Counter()
        """How often each collector could not read something, by reason."""
        self.examples: dict[tuple[str, Reason], str] = {}
        """The first path of each entry of ``unreadable``."""
        self._max = max_file_bytes
        try:
            self._fd = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise UsageError(f"{path} is not a readable folder: {error.strerror}") from error

    def require_proc(self) -> None:
        """Raises UsageError unless the folder has a ``proc`` folder with a ``stat`` file."""
        if self.resolve("proc/stat") is None:
            raise UsageError(f"{self.path} holds no proc/stat: --root takes the folder that contains proc and sys")

    def note(self, collector: str, reason: Reason, where: str) -> None:
        """Count something that could not be used."""
        self.unreadable[collector, reason] += 1
        if len(self.examples) < _MAX_EXAMPLES:
            self.examples.setdefault((collector, reason), where)

    def text(self, path: str, collector: str, *, optional: bool = False) -> str | None:
        """The file's text (UTF-8, undecodable bytes replaced), or None after counting why not.

        With ``optional`` an absent file is no fault and is not counted.
        """
        try:
            data = self._read(path)
        except OSError as error:
            self._count(error, path, collector, optional)
            return None
        if data is None:
            self.note(collector, "not_a_file", path)
            return None
        if len(data) > self._max:
            self.note(collector, "too_large", path)
            return None
        return data.decode("utf-8", "replace")

    def lines(self, path: str, collector: str, *, optional: bool = False) -> list[str]:
        """The file's complete lines; a last line without its end was cut off, is counted and left out."""
        text = self.text(path, collector, optional=optional)
        if text is None:
            return []
        *complete, rest = text.split("\n")
        if rest:
            self.note(collector, "truncated", path)
        return complete

    def names(self, path: str, collector: str, *, optional: bool = False) -> list[str]:
        """Names in the folder, sorted; empty after counting why it cannot be listed.

        Names that are no UTF-8 are left out and counted: no column can hold them.
        """
        try:
            found = self._list(path)
        except OSError as error:
            self._count(error, path, collector, optional)
            return []
        for name in found:
            if not _is_text(name):
                self.note(collector, "malformed", f"{path}/{name!a}")
        return [name for name in found if _is_text(name)]

    def resolve(self, path: str) -> str | None:
        """The path without links, relative to the root; None where there is nothing."""
        try:
            stack = self._walk(path)
        except OSError:
            return None
        _close(stack)
        return "/".join(name for name, _ in stack)

    def close(self) -> None:
        """Release the folder; calling it again does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _count(self, error: OSError, path: str, collector: str, optional: bool) -> None:
        reason = _REASONS.get(error.errno or 0, "io_error")
        if not (optional and reason == "missing"):
            self.note(collector, reason, path)

    def _list(self, path: str) -> list[str]:
        stack = self._walk(path)
        try:
            fd = os.open(".", _LIST, dir_fd=stack[-1][1] if stack else self._fd)
        finally:
            _close(stack)
        try:
            return sorted(os.listdir(fd))  # noqa: PTH208 - pathlib cannot list a handle
        finally:
            os.close(fd)

    def _read(self, path: str) -> bytes | None:
        """At most one byte more than the limit; None where it is no regular file (a pipe would block for ever)."""
        stack = self._walk(path)
        try:
            if not stack or not stat.S_ISREG(os.fstat(stack[-1][1]).st_mode):
                return None
            parent = stack[-2][1] if len(stack) > 1 else self._fd
            fd = os.open(stack[-1][0], _READ, dir_fd=parent)
        finally:
            _close(stack)
        try:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return None
            parts, size = [], 0
            while size <= self._max and (part := os.read(fd, min(65_536, self._max + 1 - size))):
                parts.append(part)
                size += len(part)
            return b"".join(parts)
        finally:
            os.close(fd)

    def _walk(self, path: str) -> list[tuple[str, int]]:
        """Open handles of every component below the root, links resolved; the caller closes them."""
        todo = path.split("/")[::-1]
        stack: list[tuple[str, int]] = []
        links = 0
        try:
            while todo:
                part = todo.pop()
                if part in ("", "."):
                    continue
                if part == "..":
                    _close(stack[-1:])
                    del stack[-1:]
                    continue
                fd = os.open(part, _WALK, dir_fd=stack[-1][1] if stack else self._fd)
                if not stat.S_ISLNK(os.fstat(fd).st_mode):
                    stack.append((part, fd))
                    continue
                target = _target(fd)
                links += 1
                if links > _MAX_LINKS:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                if target.startswith("/"):
                    _close(stack)
                    stack.clear()
                todo.extend(target.split("/")[::-1])
        except BaseException:
            _close(stack)
            raise
        return stack


def _is_text(name: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in name)


def _target(fd: int) -> str:
    try:
        return os.readlink("", dir_fd=fd)
    finally:
        os.close(fd)


def _close(stack: list[tuple[str, int]]) -> None:
    for _, fd in stack:
        os.close(fd)
