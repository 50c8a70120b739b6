"""State of a world as records in arrays: what the compiled functions read and write."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

from simulator.causes import NAMES
from simulator.engine.program import QUEUES

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Records = NDArray[np.void]
F = TypeVar("F", bound=Callable[..., Any])

NEVER: Final = 1 << 62
FASTEST: Final = 1e12
"""Bytes/ns given to what no link bounds."""
ROUNDING_NS: Final = 1e-6
"""Times are rounded up to ns unless they exceed one by less than this (rounding of floating point)."""

# States of a queue
EMPTY: Final = 0
"""Nothing, or its head has not arrived yet."""
BLOCKED: Final = 1
"""Its head has arrived and waits for another op."""
MEETING: Final = 2
"""Its head is a collective that waits for its peers."""
FIXED: Final = 3
MOVING: Final = 4
"""Its head works at a rate that depends on who else does."""

# States of a host thread
IDLE: Final = 0
LOADED: Final = 1
"""It was given a program since the loop last ran."""
PENDING: Final = 2
"""It has a program and no demand yet."""
READY: Final = 3
"""It has demand, and starts later."""
CALLING: Final = 4
"""In a gap, or in a call up to its submission."""
GATE: Final = 5
"""In a gap or call before the driver's part; the queue was full when it began."""
AWAIT_ROOM: Final = 6
AWAIT_OP: Final = 7
AWAIT_ALL: Final = 8

# What `advance` returns
REACHED: Final = 0
NEED_PROGRAM: Final = 1
HOST_FULL: Final = 2
DEVICE_FULL: Final = 3
SERIES_FULL: Final = 4
BAD_CALL: Final = 5
BAD_SEQUENCE: Final = 6

# Indices of `meta`
NOW: Final = 0
HOST_ROWS: Final = 1
DEVICE_ROWS: Final = 2
SLOT_ROWS: Final = 3
READING_ROWS: Final = 4
NEXT_CHANGE: Final = 5
ERROR: Final = 6
"""Rank whose call is bad, or the group whose members differ."""
NEEDY: Final = 7
"""Ranks that ran out of work since `advance` was called."""
SEED: Final = 8
TICK_NS: Final = 9
READING_NS: Final = 10
SLOT_NS: Final = 11
STRIDE: Final = 12
"""Ops between the rings of two queues: the largest queue depth."""
DIRTY_DEVICES: Final = 13
DIRTY_COMPONENTS: Final = 14
DIRTY_GROUPS: Final = 15
ERROR_CODE: Final = 16
META: Final = 17

# Integer and float columns of programs, in the order of `State.calls` and `State.works`
CALL_COLUMNS: Final = ("kind", "gap_ns", "call_ns", "driver_ns", "cause", "api", "name", "queue", "wait", "flags",
                       "communicator", "sequence", "link_bytes", "flops", "bytes", "request")
(KIND, GAP, CALL, DRIVER, CAUSE, API, NAME, QUEUE, WAIT_FOR, FLAGS, COMMUNICATOR, SEQUENCE, LINK_BYTES, FLOPS, BYTES,
 REQUEST) = range(16)
WORK_COLUMNS: Final = ("matrix_ns", "vector_ns", "sram_ns", "conflict", "noc_ns", "hbm_ns", "spill_ns", "fixed_ns")

HOST_COLUMNS: Final = ("start", "end", "rank", "track", "name", "correlation", "step", "request")
DEVICE_COLUMNS: Final = ("start", "end", "rank", "queue", "flags", "name", "correlation", "wait", "bytes", "flops",
                         "communicator", "sequence", "step", "request")
HOST_API: Final = 0
DRIVER_TRACK: Final = 1
CPU_THREAD: Final = 2

SERIES: Final = ("clock_mhz", "power_w", "temperature_c", "matrix_ns", "vector_ns", "sram_ns", "noc_ns", "hbm_ns",
                 "spill_ns", "flops", "hbm_bytes", "in_bytes", "out_bytes", "fabric_bytes", "throttled_ns",
                 "compute_busy_ns", "vector_busy_ns", "copy_in_busy_ns", "copy_out_busy_ns", "collective_busy_ns",
                 "energy_j")
(CLOCK_MHZ, POWER_W, TEMPERATURE_C, MATRIX_NS, VECTOR_NS, SRAM_NS, NOC_NS, HBM_NS, SPILL_NS, FLOP, HBM_BYTES, IN_BYTES,
 OUT_BYTES, FABRIC_BYTES, THROTTLED_NS, BUSY) = range(16)
ENERGY_J: Final = BUSY + QUEUES
SERIES_COUNT: Final = len(SERIES)
CAUSE_COUNT: Final = len(NAMES)

_I, _F = np.int64, np.float64
THREAD: Final = np.dtype([
    ("state", _I), ("pc", _I), ("count", _I), ("call_start", _I), ("driver_start", _I), ("base", _I), ("next_id", _I),
    ("step", _I), ("step_name", _I), ("step_request", _I), ("step_start", _I), ("begin", _I), ("wait_queue", _I),
    ("wait_number", _I), ("cause", _I), ("cursor", _I), ("last_slow", _I), ("needs", _I), ("contention", _F)])
OP: Final = np.dtype([
    ("arrival", _I), ("wait_queue", _I), ("wait_number", _I), ("name", _I), ("id", _I), ("wait_id", _I), ("flags", _I),
    ("communicator", _I), ("sequence", _I), ("link_bytes", _I), ("flops", _I), ("bytes", _I), ("step", _I),
    ("request", _I), ("matrix", _F), ("vector", _F), ("sram", _F), ("conflict", _F), ("noc", _F), ("hbm", _F),
    ("spill", _F), ("fixed", _F)])
LANE: Final = np.dtype([
    ("state", _I), ("head", _I), ("tail", _I), ("last_arrival", _I), ("start", _I), ("anchor", _I), ("flow", _I),
    ("remaining", _F), ("rate", _F), ("share", _F), ("demand", _F), ("grant", _F),
    ("pace", _F)])
"""One queue of a device. ``remaining``: kernels 1 → 0, copies bytes, as of ``anchor``; ``rate``: of it, per ns."""
DEVICE: Final = np.dtype([
    ("settled", _I), ("running", _I), ("pending", _I), ("dirty", _I), ("depth", _I), ("latency", _I), ("noise", _I),
    ("mhz", _I), ("full_mhz", _I), ("min_mhz", _I), ("cap_mhz", _I), ("step_mhz", _I),
    ("slowness", _F), ("hbm_rate", _F), ("copy_hbm", _F), ("collective_hbm", _F), ("idle_w", _F), ("max_w", _F),
    ("matrix_w", _F), ("vector_w", _F), ("hbm_w", _F), ("c_per_w", _F), ("alpha", _F), ("inlet", _F),
    ("throttle_c", _F), ("power", _F), ("celsius", _F), ("tick_matrix", _F), ("tick_vector", _F), ("tick_hbm", _F)])
FLOW: Final = np.dtype([
    ("first", _I), ("last", _I), ("component", _I), ("device", _I), ("group", _I), ("done", _I),
    ("cap", _F), ("net", _F), ("fill", _F)])
"""``net``: its max-min fair bytes/ns in the network. Flow 4·device + 2·direction + remote, then one a group."""
LINK: Final = np.dtype([("component", _I), ("users", _I), ("capacity", _F), ("left", _F)])
GROUP: Final = np.dtype([
    ("state", _I), ("arrived", _I), ("first", _I), ("last", _I), ("sequence", _I), ("anchor", _I), ("dirty", _I),
    ("bytes", _F), ("fixed", _F), ("remaining", _F), ("rate", _F)])
COMPONENT: Final = np.dtype([("dirty", _I), ("count", _I), ("first", _I)])
CHANGE: Final = np.dtype([("at", _I), ("what", _I), ("index", _I), ("value", _F)])
SLOW: Final = np.dtype([("start", _I), ("end", _I), ("factor", _F)])


class State(NamedTuple):
    """Everything of a world that changes, and the tables it needs."""

    meta: Ints
    due: Ints
    """Next time of each entity: threads, lanes (device · QUEUES + queue), groups, changes, ticks."""
    winners: Ints
    """Tree of the earliest entity; ``winners[1]`` is next."""
    threads: Records
    calls: Ints
    """(rank, column, call) of the running program."""
    works: Floats
    numbers: Ints
    """(rank, call) → number of the op in its lane."""
    lanes: Records
    ops: Records
    """Ring of each lane: lane · stride + number % depth."""
    devices: Records
    flows: Records
    flow_links: Ints
    active: Ints
    """Active flows of each component, in ascending order, from ``component.first``."""
    links: Records
    groups: Records
    members: Ints
    components: Records
    dirty_devices: Ints
    dirty_components: Ints
    dirty_groups: Ints
    changes: Records
    slow: Records
    tick: Floats
    """(device, SERIES) of the reading period so far."""
    charged: Floats
    """(device, cause) ns of the slot so far."""
    host_out: Ints
    device_out: Ints
    slot_out: Ints
    """(row, 2 + causes): slot's start, device, ns of each cause."""
    reading_out: Floats
    """(row, 2 + SERIES): time of the reading, device, values."""


OPTIONS: Final[dict[str, Any]] = {"error_model": "numpy", "_nrt": False}
"""Of every compiled function: no fast-math, so the same bits on every machine; x / 0 is inf; no reference counts, which
arrays that the caller holds do not need and which would take most of the time to compile."""

_INNER: Final[dict[str, Any]] = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""A call that is not inlined passes every array of the state field by field, some 200 words: most of a run's time."""


def compiled(function: F) -> F:
    """Compile on first use, for use by other compiled functions only."""
    return cast(F, numba.njit(**OPTIONS, **_INNER)(function))
