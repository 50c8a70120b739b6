"""A decoded batch: its headers and its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from fleetscope.contracts.schema import Contract
from fleetscope.errors import Origin


class StreamKey(NamedTuple):
    """Whose numbering a sequence number belongs to."""

    producer: str
    epoch: int
    contract: str


class Part(NamedTuple):
    """Rows of one sequence inside a message of several: ``[row0, row0 + rows)`` of ``total``, on ``clock``."""

    producer: str
    epoch: int
    clock: str
    sequence: int
    row0: int
    rows: int
    total: int | None
    """None: not known."""

    def stream(self, contract: str) -> StreamKey:
        """The numbering that ``sequence`` belongs to."""
        return StreamKey(self.producer, self.epoch, contract)


@dataclass(frozen=True, slots=True)
class Header:
    """What travels in the headers of a message.

    A row's identity is (producer, epoch, contract, sequence, row0 + index). ``min_time`` and ``max_time`` are of the
    contract's time column, both included, and None for an empty batch. ``flushed_ticks`` is the host's reference
    clock at publication. ``watermark_ns`` stands on aligned and derived batches only: rows published later on this
    topic by the same host are not earlier, except late ones. Rows of an aligned batch earlier than ``late_before_ns``
    came later than is allowed. What was redelivered, dropped and lost is in the contract `coverage`.

    ``parts``, on aligned batches only: the rows of several batches of one host stand one after the other, and each
    row's identity is that of its part. ``rows`` and ``row0`` then count the message's own rows; ``producer``,
    ``epoch``, ``sequence`` and ``clock`` are those of the first part.
    """

    contract: str
    version: int
    host: str
    producer: str
    epoch: int
    sequence: int
    rows: int
    clock: str = ""
    row0: int = 0
    min_time: int | None = None
    max_time: int | None = None
    dropped_rows: int = 0
    flushed_ticks: int | None = None
    watermark_ns: int | None = None
    late_before_ns: int | None = None
    parts: tuple[Part, ...] = ()

    @property
    def stream(self) -> StreamKey:
        """The numbering that ``sequence`` belongs to."""
        return StreamKey(self.producer, self.epoch, self.contract)


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one contract from one producer; ``origin`` is where the message stood, None before it was published."""

    header: Header
    rows: pa.RecordBatch
    origin: Origin | None = None

    def __len__(self) -> int:
        return int(self.rows.num_rows)

    def slice(self, start: int, length: int) -> Batch:
        """Rows ``[start, start + length)`` as a batch of the same identity (``row0`` moves along)."""
        header = replace(self.header, row0=self.header.row0 + start, parts=_cut(self.header.parts, start, length))
        return Batch(header, self.rows.slice(start, length), self.origin)

    @property
    def parts(self) -> tuple[Part, ...]:
        """Whose rows these are, in their order; one part unless the header says otherwise."""
        header = self.header
        return header.parts or (Part(header.producer, header.epoch, header.clock, header.sequence, header.row0,
                                     len(self), None),)

    def symbols(self, column: str) -> tuple[pa.Array, pa.Array]:
        """Codes (int32, null where missing) and words of a symbol column."""
        array = self.rows.column(column)
        return array.indices, array.dictionary


def _cut(parts: tuple[Part, ...], start: int, length: int) -> tuple[Part, ...]:
    """The parts of rows ``[start, start + length)`` of a message."""
    found, at = [], 0
    for part in parts:
        low, high = max(start, at), min(start + length, at + part.rows)
        if low < high:
            found.append(part._replace(row0=part.row0 + low - at, rows=high - low))
        at += part.rows
    return tuple(found)


def record_batch(contract: Contract, columns: dict[str, pa.Array], rows: int) -> pa.RecordBatch:
    """Rows in the contract's column order; columns left out are null.

    Raises KeyError for a column the contract does not have, ValueError for a missing column that must not be null.
    """
    unknown = columns.keys() - {column.name for column in contract.columns}
    if unknown:
        raise KeyError(f"{contract.name} has no column {sorted(unknown)[0]}")
    arrays = []
    for column in contract.columns:
        array = columns.get(column.name)
        if array is None:
            if not column.nullable and rows:
                raise ValueError(f"{contract.name}.{column.name} must be given")
            array = pa.nulls(rows, column.type)
        arrays.append(array)
    return pa.RecordBatch.from_arrays(arrays, schema=contract.schema())


def symbol_array(values: list[str | None]) -> pa.Array:
    """A symbol column of Python strings."""
    return pa.array(values, pa.string()).dictionary_encode()


def constant_symbol(value: str, rows: int) -> pa.Array:
    """A symbol column that says ``value`` in every row."""
    codes = pa.array(np.zeros(rows, np.int32))
    return pa.DictionaryArray.from_arrays(codes, pa.array([value], pa.string()), safe=False)


def from_rows(contract: Contract, rows: list[dict[str, object]]) -> pa.RecordBatch:
    """Rows given as dictionaries; for the edges and for tests, never on a hot path."""
    arrays = {}
    for column in contract.columns:
        values = [row.get(column.name) for row in rows]
        if pa.types.is_dictionary(column.type):
            arrays[column.name] = pa.array(values, pa.string()).dictionary_encode()
        else:
            arrays[column.name] = pa.array(values, column.type)
    return record_batch(contract, arrays, len(rows))
