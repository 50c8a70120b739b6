"""Captures: messages in a file, to be replayed later or elsewhere.

The file is an Arrow IPC stream with columns topic, key, value, headers. It is written beside its name and renamed when
complete, and its end is marked, so that a cut-off file is told from a whole one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa

from fleetscope.contracts.codec import Encoded
from fleetscope.errors import UsageError

SCHEMA: Final = pa.schema([
    pa.field("topic", pa.string(), False), pa.field("key", pa.binary(), False), pa.field("value", pa.binary(), False),
    pa.field("headers", pa.map_(pa.string(), pa.binary()), False),
])
_GROUP_BYTES: Final = 4 * 1024 * 1024
_GROUP_ROWS: Final = 512
_END: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"


class Sendable(Protocol):
    """A message and the topic (without prefix) it is for."""

    @property
    def topic(self) -> str: ...
    @property
    def message(self) -> Encoded: ...


def write_capture(path: Path, publications: Iterable[Sendable]) -> int:
    """Write every message in order; returns how many. UsageError where the file cannot be written."""
    part = path.with_name(path.name + ".part")
    written = 0
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with part.open("wb") as file, pa.ipc.new_stream(file, SCHEMA) as writer:
            for group in _groups(publications):
                writer.write_batch(_batch(group))
                written += len(group)
        part.replace(path)
    except OSError as error:
        raise UsageError(f"cannot write the capture {path}: {error.strerror or error}") from error
    return written


def read_capture(path: Path) -> Iterator[tuple[str, Encoded]]:
    """Every (topic, message) in order. UsageError names the row after which the file is cut off or damaged."""
    rows = 0
    try:
        with path.open("rb") as file:
            complete = _ends(file.seek(0, 2), path)
            file.seek(0)
            with pa.ipc.open_stream(file) as reader:
                if not reader.schema.equals(SCHEMA):
                    raise UsageError(f"{path}: no capture: its columns are {', '.join(reader.schema.names) or 'none'}")
                for batch in reader:
                    batch.validate(full=True)
                    for entry in batch.to_pylist():
                        yield entry["topic"], Encoded(entry["key"], entry["value"], tuple(entry["headers"]))
                        rows += 1
    except FileNotFoundError as error:
        raise UsageError(f"{path}: there is no such capture") from error
    except (OSError, pa.ArrowException) as error:
        raise UsageError(f"{path}: damaged or cut off after row {rows}: {error}") from error
    if not complete:
        raise UsageError(f"{path}: cut off after row {rows}")


def _ends(size: int, path: Path) -> bool:
    with path.open("rb") as file:
        file.seek(max(size - len(_END), 0))
        return file.read() == _END


def _groups(publications: Iterable[Sendable]) -> Iterator[list[Sendable]]:
    group: list[Sendable] = []
    size = 0
    for publication in publications:
        group.append(publication)
        size += len(publication.message.value)
        if size >= _GROUP_BYTES or len(group) >= _GROUP_ROWS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _batch(group: list[Sendable]) -> pa.RecordBatch:
    messages = [publication.message for publication in group]
    return pa.RecordBatch.from_arrays([
        pa.array([publication.topic for publication in group], pa.string()),
        pa.array([message.key for message in messages], pa.binary()),
        pa.array([message.value for message in messages], pa.binary()),
        pa.array([list(message.headers) for message in messages], SCHEMA.field("headers").type),
    ], schema=SCHEMA)
