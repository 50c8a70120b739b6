"""Decoded batches of one contract into the shape of their table (pure, whole columns at a time)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch
from fleetscope.contracts.derived import ALIGNED, DERIVED

_TABLES: Final = {c.name: c.name.removeprefix("aligned_") for c in (*ALIGNED, *DERIVED)}
TABLES: Final = tuple(_TABLES.values())
"""Every table that takes batches."""

BATCH_CLOCK: Final = "batch_clock"
"""Where the batch's clock goes in a table whose contract has a column `clock` of its own (heartbeats)."""


def table_of(contract: str) -> str:
    """The table that batches of ``contract`` are stored in; KeyError for a contract that is not stored as it is."""
    return _TABLES[contract]


def arrange(batches: Sequence[Batch]) -> pa.Table:
    """The rows of ``batches``, in their order, with the columns the table has besides the contract's.

    Tables of aligned rows get host, producer, epoch, sequence, row, clock and late (earlier than
    the header's ``late_before_ns``, false where it says nothing); all get input_partition
    and input_offset, where the row's message stood. Null lists and maps become empty: neither can be null in the
    database. Chunks and dictionaries stay as they come. Raises ValueError for no batches, for batches of several
    contracts and for a batch that was never published (no origin); KeyError as `table_of`.
    """
    if not batches:
        raise ValueError("no batches to arrange")
    contract = CONTRACTS[batches[0].header.contract]
    table_of(contract.name)
    for batch in batches:
        if batch.header.contract != contract.name:
            raise ValueError(f"batches of {contract.name} and {batch.header.contract} in one insert")
    joined = pa.Table.from_batches([batch.rows for batch in batches], schema=contract.schema())
    columns = {name: _never_null(column) for name, column in zip(joined.column_names, joined.columns, strict=True)}
    lengths = np.array([len(batch) for batch in batches], dtype=np.int64)
    if contract in ALIGNED:
        columns |= _identity(batches, lengths, "clock" if "clock" not in columns else BATCH_CLOCK)
        columns["late"] = pa.chunked_array([_late(batch, str(contract.time_column)) for batch in batches], pa.bool_())
    return pa.table(columns | _origins(batches, lengths))


def _identity(batches: Sequence[Batch], lengths: npt.NDArray[np.int64], clock: str) -> dict[str, Any]:
    parts = [part for batch in batches for part in batch.parts]
    counts = np.array([part.rows for part in parts], dtype=np.int64)
    first = np.array([part.row0 for part in parts], dtype=np.int64) - (np.cumsum(counts) - counts)
    total = int(lengths.sum())
    return {
        "host": _symbols([batch.header.host for batch in batches], lengths),
        "producer": _symbols([part.producer for part in parts], counts),
        "epoch": _repeated([part.epoch for part in parts], counts, np.int64),
        "sequence": _repeated([part.sequence for part in parts], counts, np.int64),
        "row": pa.array(np.arange(total, dtype=np.int64) + np.repeat(first, counts)),
        clock: _symbols([part.clock for part in parts], counts),
    }


def _late(batch: Batch, time: str) -> pa.Array:
    limit = batch.header.late_before_ns
    if limit is None:
        return pa.repeat(pa.scalar(False), len(batch))
    return pc.less(batch.rows.column(time), limit)


def _origins(batches: Sequence[Batch], lengths: npt.NDArray[np.int64]) -> dict[str, Any]:
    partitions, offsets = [], []
    for batch in batches:
        if batch.origin is None:
            raise ValueError(f"a batch of {batch.header.contract} without origin: where it stood is part of its row")
        partitions.append(batch.origin.partition)
        offsets.append(batch.origin.offset)
    return {"input_partition": _repeated(partitions, lengths, np.int32),
            "input_offset": _repeated(offsets, lengths, np.int64)}


def _repeated(values: list[int], lengths: npt.NDArray[np.int64], kind: type[np.generic]) -> pa.Array:
    return pa.array(np.repeat(np.array(values, dtype=kind), lengths))


def _symbols(values: list[str], lengths: npt.NDArray[np.int64]) -> pa.Array:
    words = {word: code for code, word in enumerate(dict.fromkeys(values))}
    codes = np.repeat(np.array([words[value] for value in values], dtype=np.int32), lengths)
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(list(words), pa.string()))


def _never_null(column: pa.ChunkedArray) -> pa.ChunkedArray:
    if column.null_count == 0 or not (pa.types.is_list(column.type) or pa.types.is_map(column.type)):
        return column
    return pa.chunked_array([_filled(chunk) for chunk in column.chunks], type=column.type)


def _filled(chunk: pa.Array) -> pa.Array:
    """``chunk`` with empty lists or maps for its nulls; only the offsets are touched."""
    if chunk.null_count == 0:
        return chunk
    ends = chunk.offsets.to_numpy()
    missing = chunk.is_null().to_numpy(zero_copy_only=False)
    if np.any((ends[1:] - ends[:-1])[missing]):
        # Legal, though nobody writes it: a null that still owns values.
        return pa.array([value if value is not None else [] for value in chunk.to_pylist()], chunk.type)
    offsets = pa.array(ends)
    if pa.types.is_map(chunk.type):
        return pa.MapArray.from_arrays(offsets, chunk.keys, chunk.items, type=chunk.type)
    return pa.ListArray.from_arrays(offsets, chunk.values, type=chunk.type)
