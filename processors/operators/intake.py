"""Whole columns of aligned spans as numbers, and which rows of a batch were not seen before. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fleetscope.contracts.batch import Batch
from fleetscope.ledger import Ledger

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

NONE: Final = -1
"""Missing work (flops, bytes), rank or word."""
ENGINE: Final = "engine:"
CLOSED: Final = 1 << 62
"""The watermark of who sends no more."""
NEVER: Final = -(1 << 62)


def advanced(mark: int, watermark: int) -> int:
    """The mark after another watermark: it only grows, but whoever had closed may be there again."""
    return watermark if mark >= CLOSED else max(mark, watermark)


@dataclass(frozen=True, slots=True)
class Words:
    """Codes of rows and the words they stand for; −1 is null."""

    codes: Ints
    words: list[str]

    def word(self, code: int) -> str | None:
        """The word of a code."""
        return None if code < 0 else self.words[code]


def words(array: pa.DictionaryArray) -> Words:
    """A symbol column."""
    indices = array.indices.fill_null(-1) if array.indices.null_count else array.indices
    return Words(np.asarray(indices.to_numpy(zero_copy_only=False), np.int64), array.dictionary.to_pylist())


def integers(array: pa.Array, missing: int = NONE) -> Ints:
    """A column of integers with ``missing`` for nulls."""
    filled = array.fill_null(missing) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), np.int64)


def unseen(ledger: Ledger, batch: Batch) -> Bools:
    """Enter the rows of a batch; which of them the ledger did not have."""
    chosen = np.zeros(len(batch), np.bool_)
    at = 0
    whole = batch.header.rows if not batch.header.parts else None
    for part in batch.parts:
        total = part.total if batch.header.parts else whole
        if total is not None and part.row0 + part.rows > total:
            total = None
        stream = part.stream(batch.header.contract)
        for start, stop in ledger.add(stream, part.sequence, part.row0, part.rows, total):
            chosen[at + start - part.row0:at + stop - part.row0] = True
        at += part.rows
    return chosen


def is_engine(track: Words) -> Bools:
    """Rows that ran on an engine of a device."""
    known = np.array([word.startswith(ENGINE) for word in track.words] + [False], np.bool_)
    return np.asarray(known[track.codes])


def grouped(columns: list[Ints]) -> tuple[Ints, Ints]:
    """Index of one row of each group of equal values, and the group of each row."""
    key = np.zeros(len(columns[0]), np.int64)
    for column in columns:
        _, code = np.unique(column, return_inverse=True)
        # numbered anew each time: the product of two counts of groups stays within int64
        _, key = np.unique(key * (int(code.max(initial=0)) + 1) + code.reshape(-1), return_inverse=True)
    _, first, key = np.unique(key, return_index=True, return_inverse=True)
    return np.asarray(first, np.int64), np.asarray(key.reshape(-1), np.int64)


def summed(values: Ints, group: Ints, count: int) -> Ints:
    """Exact sums of a group's values."""
    total = np.zeros(count, np.int64)
    np.add.at(total, group, values)
    return total
