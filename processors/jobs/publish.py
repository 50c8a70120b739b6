"""Rows as batches with a numbering for each key. Pure."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.schema import Contract
from fleetscope.step import Output

Rows = list[dict[str, Any]]
Sequences = dict[str, int]
"""By contract and key."""


def output(sequences: Sequences, contract: Contract, topic: str, key: str, producer: str, rows: Rows,
           watermark_ns: int | None = None) -> Output:
    """A batch for ``key`` (a host or a job) with the next number of its numbering."""
    return of_batch(sequences, contract, topic, key, producer, from_rows(contract, rows), watermark_ns)


def of_batch(sequences: Sequences, contract: Contract, topic: str, key: str, producer: str, rows: pa.RecordBatch,
             watermark_ns: int | None = None) -> Output:
    """Likewise, of rows that are columns already."""
    numbering = f"{contract.name}/{key}"
    sequence = sequences.get(numbering, 0)
    sequences[numbering] = sequence + 1
    times = pc.min_max(rows.column(str(contract.time_column)))
    header = Header(contract.name, contract.version, key, producer, 0, sequence, rows.num_rows,
                    min_time=times["min"].as_py(), max_time=times["max"].as_py(), watermark_ns=watermark_ns)
    return Output(topic, Batch(header, rows))
