"""Readings of counters that are no numbers, whatever their source says of them. Pure and vectorised.

Drivers show a value that is not there by one that cannot be: all bits set, or the blanks of a management library. Each
row is judged by itself, so that it does not matter what else has come.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fleetscope.contracts.counters import KNOWN, UNIT_LIMITS

ALL_ONES: Final = ((1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1)
"""32 bits: NVML's unsigned "not available", unsupported fields of amdgpu's gpu_metrics; 63 and 64 likewise."""
_BLANKS: Final = tuple(base + why for base in (0x7FFF_FFF0, 0x7FFF_FFFF_FFFF_FFF0, 1 << 47) for why in range(4))
"""DCGM's blanks for int32, int64 and fp64, with the reasons not found, not supported and not permissioned."""
_FLOATS: Final = np.array([float(v) for v in (*ALL_ONES, *_BLANKS)])
_INTS: Final = np.array([v for v in (*ALL_ONES, *_BLANKS) if v < 1 << 63], np.int64)

Bools = NDArray[np.bool_]


def judged(columns: Mapping[str, Any]) -> dict[str, Any]:
    """Columns ``raw``, ``value`` and ``status`` of rows of the contract `counters`, where readings that cannot be are
    null and their status is sentinel; nothing where every reading can be, or its status says already that it cannot."""
    status = columns["status"]
    fine = np.asarray(pc.equal(status.cast(pa.string()), "ok"))
    codes, names = columns["counter"].indices.to_numpy(), columns["counter"].dictionary.to_pylist()
    limits = np.array([_limits(str(name)) for name in names]).reshape(-1, 3)[codes]
    wrong = fine & (_no_value(columns["value"], limits) | _no_count(columns["raw"], limits))
    if not wrong.any():
        return {}
    mask = pa.array(wrong)
    return {"raw": pc.if_else(mask, pa.scalar(None, pa.int64()), columns["raw"]),
            "value": pc.if_else(mask, pa.scalar(None, pa.float64()), columns["value"]),
            "status": pc.if_else(mask, "sentinel", status.cast(pa.string())).dictionary_encode()}


def _no_value(values: pa.Array, limits: NDArray[np.float64]) -> Bools:
    if values.null_count == len(values):
        return np.zeros(len(values), np.bool_)
    there = np.asarray(values.is_valid())
    read = pc.fill_null(values, 0.0).to_numpy(zero_copy_only=False)
    wrong: Bools = (~np.isfinite(read) | (read < limits[:, 0]) | (read > limits[:, 1]) | np.isin(read, _FLOATS))
    return there & wrong


def _no_count(raw: pa.Array, limits: NDArray[np.float64]) -> Bools:
    if raw.null_count == len(raw):
        return np.zeros(len(raw), np.bool_)
    there = np.asarray(raw.is_valid())
    read = pc.fill_null(raw, 0).to_numpy(zero_copy_only=False)
    wrong: Bools = ((read < 0) | np.isin(read, _INTS) | (read.astype(np.float64) > limits[:, 2]))
    return there & wrong


@lru_cache(maxsize=4096)
def _limits(name: str) -> tuple[float, float, float]:
    """(lowest, highest value of a gauge, highest count) of a counter; without limits where it is not known."""
    known = KNOWN.get(name)
    if known is None:
        return -np.inf, np.inf, np.inf
    low, high = UNIT_LIMITS.get(known.unit, (-np.inf, np.inf))
    return low, high, float(known.top)
