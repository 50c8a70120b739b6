"""Spans as columns in true time, and their form on a clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fleetscope.contracts.batch import constant_symbol, record_batch
from fleetscope.contracts.raw import SPANS
from simulator.clocks import Clock
from simulator.model import LAYER

Ints = NDArray[np.int64]

NAMES: Final = ("embedding", *LAYER, "final_norm", "lm_head", "sampling", "engine.step", "launchKernel", "memcpyAsync",
                "synchronize", "submit", "inputs_h2d", "kv_swap_in", "kv_swap_out", "tokens_d2h")
TRACKS: Final = ("cpu_thread", "host_api", "driver", "pcie_h2d", "pcie_d2h", "engine:matrix", "engine:vector")
STREAMS: Final = ("compute", "copy", "copy_back")
NAME: Final = {word: code for code, word in enumerate(NAMES)}
TRACK: Final = {word: code for code, word in enumerate(TRACKS)}
STREAM: Final = {word: code for code, word in enumerate(STREAMS)}
FIRST_PROCESS: Final = 4_000
"""Process of rank r on a host is this plus r."""
NONE: Final = -1
"""Stands for null in the integer columns."""


@dataclass(frozen=True, slots=True)
class Spans:
    """Columns of equal length; times are true time τ in ns, end not included; −1 is null."""

    start: Ints
    end: Ints
    name: Ints
    track: Ints
    stream: Ints
    correlation: Ints
    wait: Ints
    bytes: Ints
    flops: Ints
    step: Ints
    request: Ints
    rank: Ints

    def __len__(self) -> int:
        return len(self.start)

    def take(self, which: NDArray[np.bool_]) -> Spans:
        """The rows where ``which`` is true."""
        return Spans(*(getattr(self, name)[which] for name in COLUMNS))


COLUMNS: Final = tuple(field.name for field in fields(Spans))


def make(count: int, **columns: Ints | int) -> Spans:
    """Spans of given columns; a number holds for every row, a column left out is null."""
    return Spans(*(_column(columns.get(name, NONE), count) for name in COLUMNS))


def _column(value: Ints | int, count: int) -> Ints:
    return value if isinstance(value, np.ndarray) else np.full(count, value, dtype=np.int64)


def concat(parts: Sequence[Spans]) -> Spans:
    """All rows of ``parts`` in order."""
    if len(parts) == 1:
        return parts[0]
    if not parts:
        return make(0)
    return Spans(*(np.concatenate([getattr(part, name) for part in parts]) for name in COLUMNS))


def request_code(rank: int, number: int) -> int:
    """One integer for a request of a rank."""
    return rank << 32 | number


def span_rows(spans: Spans, clock: Clock, job: str, team: str, device: str | None) -> pa.RecordBatch:
    """The batch of the `spans` contract as ``clock`` saw it; every row belongs to ``device`` (None: host work)."""
    count = len(spans)
    start = clock.read(spans.start)
    columns = {
        "process_id": pa.array(spans.rank + FIRST_PROCESS),
        "track": _symbols(spans.track, TRACKS),
        "name": _symbols(spans.name, NAMES),
        "start_ticks": pa.array(start),
        "duration_ticks": pa.array(clock.passed(start, clock.read(spans.end))),
        "correlation_id": _integers(spans.correlation),
        "stream": _symbols(spans.stream, STREAMS),
        "wait_ids": _waits(spans.wait),
        "bytes": _integers(spans.bytes),
        "flops": _integers(spans.flops),
        "job": constant_symbol(job, count),
        "rank": pa.array(spans.rank),
        "request_id": _requests(spans.request),
        "step": _integers(spans.step),
        "team": constant_symbol(team, count),
    }
    if device is not None:
        columns["device"] = constant_symbol(device, count)
    return record_batch(SPANS, columns, count)


def _integers(values: Ints) -> pa.Array:
    return pa.array(values, mask=values < 0)


def _symbols(codes: Ints, words: Sequence[str]) -> pa.Array:
    indices = pa.array(codes.astype(np.int32), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string()))


def _requests(codes: Ints) -> pa.Array:
    known, indices = np.unique(codes, return_inverse=True)
    absent = int(np.count_nonzero(known < 0))  # −1 sorts first and takes index 0
    words = [f"req-{int(code) >> 32}-{int(code) & 0xFFFFFFFF}" for code in known[absent:]]
    return _symbols(indices.astype(np.int64) - absent, words)


def _waits(waits: Ints) -> pa.Array:
    has = waits >= 0
    offsets = np.zeros(len(waits) + 1, dtype=np.int32)
    np.cumsum(has, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(waits[has]), mask=pa.array(~has))
