"""Blocks on their way into the embedded engine."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from fleetscope.store.block import without_nulls
from fleetscope.store.shared_file import SUPPORTED, SharedFile, insert_statement

pytestmark = pytest.mark.skipif(not SUPPORTED, reason="files in memory are a feature of Linux")


def rows(count: int, word: str = "a") -> pa.Table:
    return pa.table({"n": pa.array(range(count), pa.int64()), "w": pa.array([word] * count).dictionary_encode()})


def read(file: SharedFile) -> pa.Table:
    with pa.OSFile(file.path, "rb") as source, pa.ipc.open_stream(source) as reader:
        return reader.read_all()


def test_whoever_opens_the_path_reads_the_rows() -> None:
    file = SharedFile()
    file.write(rows(5))
    assert read(file).equals(rows(5))
    file.close()


def test_the_next_block_replaces_the_one_before_whether_larger_or_smaller() -> None:
    file = SharedFile()
    for count in (1_000, 3, 50_000, 0, 2_000, 60_000):
        file.write(rows(count, f"w{count}"))
        assert read(file).equals(rows(count, f"w{count}"))
    file.close()


def test_closing_gives_the_file_back() -> None:
    file = SharedFile()
    file.write(rows(5))
    file.close()
    assert not Path(file.path).exists()


def test_names_and_texts_are_quoted() -> None:
    made = insert_statement("d`b", "t\\", ["a", "b'c"], "/p", {"x": 1, "token": "it's \\ one"})
    assert made == ("INSERT INTO `d\\`b`.`t\\\\` (`a`, `b'c`) FROM INFILE '/p' SETTINGS x = 1, "
                    "token = 'it\\'s \\\\ one' FORMAT ArrowStream")


def test_columns_without_any_value_are_left_to_the_database() -> None:
    table = pa.table({"a": pa.nulls(2, pa.int64()), "b": pa.array([1, None]), "c": pa.nulls(2, pa.string())})
    assert without_nulls(table).column_names == ["b"]
    assert without_nulls(table.select(["c", "a"])).column_names == ["c"]
    assert without_nulls(table.slice(0, 0)).column_names == ["a"]
