"""Hourly figures of operators: what durations of one operator did in one hour on one host under one set of versions.

Rows are additive: counts and totals add up, means and variances combine by weight (`combine`). A version that changes
within an hour splits it into two rows.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from simulator.history.plan import Plan, Served
from simulator.history.profile import ROLES
from simulator.history.settings import HOUR_S

_SYMBOL: Final = pa.dictionary(pa.int32(), pa.string())
_COLUMNS: Final = (
    ("hour_start_ns", pa.int64(), "first ns of the hour [ns since 1970]"),
    ("host", _SYMBOL, "host"),
    ("job", _SYMBOL, "job"),
    ("model", _SYMBOL, "model"),
    ("kind", _SYMBOL, "kind of device"),
    ("operator", _SYMBOL, "kernel, copy, collective or work of the host"),
    ("role", _SYMBOL, "kernel, h2d, d2h, collective, host (time the device waited for it)"),
    ("batch_bucket", pa.int64(), "sequences of a step, a power of two"),
    ("driver", _SYMBOL, "version of the driver"),
    ("firmware", _SYMBOL, "version of the firmware"),
    ("compiler", _SYMBOL, "version of the compiler"),
    ("model_version", _SYMBOL, "version of the model"),
    ("devices", pa.int64(), "devices of the host the row is made of"),
    ("count", pa.int64(), "calls that started"),
    ("total_ns", pa.int64(), "time inside the hour's windows [ns]"),
    ("mean_ns", pa.float64(), "mean duration of a call, weighted by calls [ns]; null: no call started"),
    ("variance_ns2", pa.float64(), "variance of the durations of calls [ns²]; null likewise"),
    ("flops_per_call", pa.int64(), "floating-point operations of a call [flop]"),
    ("bytes_per_call", pa.int64(), "memory traffic or payload of a call [B]"),
)
OPERATOR_HOURS: Final = pa.schema([pa.field(name, kind, name in ("mean_ns", "variance_ns2"), {"doc": doc})
                                   for name, kind, doc in _COLUMNS])
"""Schema of the rows; the meaning and the unit of each column stand in its metadata."""


def operator_rows(plan: Plan, host: int, job: Served, found: list[tuple[int, int]], sums: NDArray[np.int64],
                  moments: NDArray[np.float64]) -> pa.RecordBatch:
    """Rows of one host in one slice, in order of piece, bucket and operator.

    ``found`` is (hour, versions) of each piece (`signals.pieces`), ``sums`` and ``moments`` what `kernel.fill` added
    up: shape (pieces, B, K, 2) and (pieces, B, K, 3). Combinations that did not occur have no row.
    """
    profile = job.profile
    piece, bucket, operator = np.nonzero((sums[..., 0] > 0) | (sums[..., 1] > 0))
    count, total_ns = sums[piece, bucket, operator].T
    weight, first, second = moments[piece, bucket, operator].T
    called = weight > 0
    mean = np.divide(first, weight, out=np.zeros_like(first), where=called)
    spread = np.divide(second, weight, out=np.zeros_like(first), where=called) - mean * mean
    hour = np.array([hour for hour, _ in found], dtype=np.int64)[piece]
    versions = [version for _, version in plan.versions_of(host)]
    state = np.array([version for _, version in found], dtype=np.int64)[piece]
    columns = {
        "hour_start_ns": pa.array(plan.start_ns + hour * (HOUR_S * 1_000_000_000)),
        "host": _same(plan.host_names[host], len(piece)), "job": _same(job.name, len(piece)),
        "model": _same(job.model.name, len(piece)), "kind": _same(job.machine.kind, len(piece)),
        "operator": _words(operator, profile.operators), "role": _words(profile.role[operator], ROLES),
        "batch_bucket": pa.array(profile.buckets[bucket]),
        **{name: _words(state, [getattr(version, field) for version in versions]) for name, field in
           (("driver", "driver"), ("firmware", "firmware"), ("compiler", "compiler"), ("model_version", "model"))},
        "devices": pa.array(np.full(len(piece), plan.history.devices, dtype=np.int64)),
        "count": pa.array(np.ascontiguousarray(count)), "total_ns": pa.array(np.ascontiguousarray(total_ns)),
        "mean_ns": pa.array(mean, mask=~called), "variance_ns2": pa.array(np.maximum(spread, 0.0), mask=~called),
        "flops_per_call": pa.array(profile.call_flops[bucket, operator]),
        "bytes_per_call": pa.array(profile.call_bytes[bucket, operator]),
    }
    return pa.RecordBatch.from_arrays([columns[field.name] for field in OPERATOR_HOURS], schema=OPERATOR_HOURS)


def combine(count: NDArray[np.int64], mean: NDArray[np.float64], variance: NDArray[np.float64]) -> tuple[float, float]:
    """(mean, variance) of all calls of several rows: law of total variance. Raises ValueError for no calls."""
    calls = int(count.sum())
    if not calls:
        raise ValueError("no calls to combine")
    weight = count / calls
    overall = float((weight * mean).sum())
    return overall, float((weight * (variance + (mean - overall) ** 2)).sum())


def _same(word: str, rows: int) -> pa.DictionaryArray:
    return _words(np.zeros(rows, dtype=np.int64), [word])


def _words(codes: NDArray[np.int64], words: tuple[str, ...] | list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes.astype(np.int32)), pa.array(list(words), pa.string()))
