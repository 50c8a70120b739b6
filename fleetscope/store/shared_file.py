"""Rows on their way into the embedded engine: an Arrow stream in memory that the engine reads as a file.

The client library would copy a block twice and write it to a temporary file on disk. Here it is written once, into a
file that exists in memory only and is used again for the next block.
"""

from __future__ import annotations

import mmap
import os
from pathlib import Path
from typing import Final

import pyarrow as pa

SUPPORTED: Final = hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir()


class SharedFile:
    """A file in memory. For one block at a time; OSError where there is no memory for it."""

    def __init__(self) -> None:
        self._descriptor = os.memfd_create("fleetscope-insert")
        self._map: mmap.mmap | None = None
        self.path: Final = f"/proc/self/fd/{self._descriptor}"
        """Where this process, and no other, can open it."""

    def write(self, rows: pa.Table) -> None:
        """Replace the content by ``rows`` as an Arrow IPC stream."""
        measured = pa.MockOutputStream()
        _write(rows, measured)
        size = measured.size()
        if self._map is None or len(self._map) < size:
            if self._map is not None:
                self._map.close()
            os.ftruncate(self._descriptor, size)
            self._map = mmap.mmap(self._descriptor, size)
        os.ftruncate(self._descriptor, max(size, 1))
        with pa.FixedSizeBufferWriter(pa.py_buffer(memoryview(self._map)[:size])) as sink:
            _write(rows, sink)

    def close(self) -> None:
        """Give the memory back."""
        if self._map is not None:
            self._map.close()
            self._map = None
        os.close(self._descriptor)


def _write(rows: pa.Table, sink: pa.NativeFile) -> None:
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows)


def insert_statement(database: str, table: str, columns: list[str], path: str, settings: dict[str, int | str]) -> str:
    """The statement that inserts the content of ``path`` into ``columns`` of a table."""
    names = ", ".join(_name(column) for column in columns)
    wanted = ", ".join(f"{name} = {value if isinstance(value, int) else _text(value)}"
                       for name, value in settings.items())
    return (f"INSERT INTO {_name(database)}.{_name(table)} ({names}) FROM INFILE {_text(path)} SETTINGS {wanted} "
            "FORMAT ArrowStream")


def _name(text: str) -> str:
    return "`" + text.replace("\\", "\\\\").replace("`", "\\`") + "`"


def _text(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
