"""What one process does next, in order of its calls, and what each gives its device.

A planner (simulator/work) makes programs; the world (simulator/engine) runs them. One entry a call. Times are ns of
true time; work times are those at full clock with the resource to itself, at its achievable peak.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NONE: Final = -1

LAUNCH: Final = 0
"""Give work to a queue of the device and go on; with BLOCKING in ``flags`` wait for its end."""
SYNC: Final = 1
"""Wait until everything this process gave its device has ended."""
WORK: Final = 2
"""Work of the host alone; a span of track cpu_thread."""
WAIT: Final = 3
"""Wait until the op of call ``wait`` has ended."""

COMPUTE: Final = 0
VECTOR: Final = 1
COPY_IN: Final = 2
COPY_OUT: Final = 3
COLLECTIVE: Final = 4
QUEUES: Final = 5
"""Each device has one in-order queue of each kind."""

BLOCKING: Final = 1
PAGEABLE: Final = 2
REMOTE_NUMA: Final = 4
MATRIX_TRACK: Final = 8
"""The span's track is engine:matrix (else engine:vector) for ops on COMPUTE and VECTOR."""


@dataclass(frozen=True, slots=True)
class Program:
    """Columns of equal length n. ``NONE`` is null in integer columns; work columns are 0 where nothing is used."""

    kind: Ints
    gap_ns: Ints
    """Host time between the previous call's return and this call: framework, interpreter."""
    call_ns: Ints
    """Length of the call itself, without waiting."""
    driver_ns: Ints
    """Part of the call that is driver submission, a span of track driver; it ends with the submission. 0: none."""
    cause: Ints
    """Cause (simulator.causes) charged while the device idles for this call or the gap before it."""
    api: Ints
    """Vocabulary code of the call's span (track host_api, or cpu_thread for WORK); NONE: no span."""
    name: Ints
    """Vocabulary code of the device's span; NONE where nothing is given."""
    queue: Ints
    wait: Ints
    """Index in this program of the op that must have ended before this one starts; NONE: none."""
    flags: Ints
    communicator: Ints
    """Group of the collective (index into the world's groups); NONE: no collective."""
    sequence: Ints
    """Number of the collective within its group: the n-th of every member meet."""
    matrix_ns: Floats
    vector_ns: Floats
    sram_ns: Floats
    conflict: Floats
    """On-chip accesses take this many times ``sram_ns`` (≥ 1)."""
    noc_ns: Floats
    hbm_ns: Floats
    """Device memory time of the bytes the operator needs, at its own access pattern's efficiency."""
    spill_ns: Floats
    """Device memory time of bytes spilled from on-chip memory, in addition."""
    fixed_ns: Floats
    """Start-up of the kernel or transfer on the device: nothing shortens it."""
    link_bytes: Ints
    """Payload over PCIe (copies) or over the fabric (collectives)."""
    flops: Ints
    """Stated in the span; NONE: not stated."""
    bytes: Ints
    """Stated in the span: payload of a copy, device memory traffic of a kernel; NONE: not stated."""
    request: Ints
    """Code of the request served; NONE: none or several."""
    quantities: Ints | None = None
    """(n, physics.lower.QUANTITIES): what counters count of each call's op; the core passes it by. None: not known."""

    def __len__(self) -> int:
        return len(self.kind)

    def __post_init__(self) -> None:
        lengths = set(map(len, _ALL(self)))
        if self.quantities is not None:
            lengths.add(len(self.quantities))
        if len(lengths) != 1:
            raise ValueError(f"columns of a program have lengths {sorted(lengths)}")


FLOAT_COLUMNS: Final = ("matrix_ns", "vector_ns", "sram_ns", "conflict", "noc_ns", "hbm_ns", "spill_ns", "fixed_ns")
COLUMNS: Final = tuple(field.name for field in fields(Program) if field.name != "quantities")
_ALL: Final = attrgetter(*COLUMNS)
_DEFAULTS: Final = {"kind": LAUNCH, "gap_ns": 0, "call_ns": 0, "driver_ns": 0, "flags": 0, "conflict": 1.0,
                    "link_bytes": 0}


def program(count: int, **columns: Ints | Floats | int | float) -> Program:
    """A program of ``count`` calls; a number holds for every call, a column left out has its neutral value."""
    values: dict[str, Any] = {}
    for name in COLUMNS:
        dtype = np.float64 if name in FLOAT_COLUMNS else np.int64
        value = columns.get(name, _DEFAULTS.get(name, 0.0 if name in FLOAT_COLUMNS else NONE))
        array = np.asarray(value, dtype=dtype)
        values[name] = array if array.ndim else np.full(count, array, dtype=dtype)
    return Program(**values)
