"""One process, one embedded store: a lock file beside the data folder that says who holds it.

The engine itself would refuse a second process too, but late and in words that do not name the holder. The lock is the
kernel's (flock), so a killed process leaves none behind; the text in the file is only for people.
"""

from __future__ import annotations

import fcntl
import os
import sys
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from fleetscope.errors import UsageError

_MAX_COMMAND_CHARS: Final = 120


@dataclass(slots=True)
class _Held:
    descriptor: int
    count: int


_guard = threading.Lock()
_held: dict[Path, _Held] = {}


def lock_path(folder: Path) -> Path:
    """The lock file of a data folder: beside it, so that the engine's folder holds the engine's files alone."""
    return folder.with_name(folder.name + ".lock")


def acquire(folder: Path) -> None:
    """Hold ``folder`` for this process; calls nest. Raises UsageError naming the process that holds it already."""
    path = lock_path(folder)
    with _guard:
        held = _held.get(path)
        if held is not None:
            held.count += 1
            return
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise UsageError(f"cannot lock the data folder: {path}: {error.strerror}") from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = os.pread(descriptor, 400, 0).decode(errors="replace").strip() or "a process that did not sign"
            os.close(descriptor)
            raise UsageError(f"data folder {folder} is in use by {holder}") from error
        except OSError as error:
            os.close(descriptor)
            raise UsageError(f"cannot lock the data folder: {path}: {error.strerror}") from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, _signature().encode(), 0)
        _held[path] = _Held(descriptor, 1)


def release(folder: Path) -> None:
    """Undo one ``acquire``; the last one frees the folder."""
    path = lock_path(folder)
    with _guard:
        held = _held[path]
        held.count -= 1
        if held.count == 0:
            os.ftruncate(held.descriptor, 0)
            os.close(held.descriptor)
            del _held[path]


def _signature() -> str:
    command = " ".join([Path(sys.argv[0] or "python").name, *sys.argv[1:]])[:_MAX_COMMAND_CHARS]
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return f"process {os.getpid()} ({' '.join(command.split())}), since {now}\n"
