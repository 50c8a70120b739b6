"""The rows of a history: windows of contract `windows` in blocks, and hourly rows of operators.

Time is cut into slices of whole hours that end with the UTC day, and a block holds all windows of a slice of some
devices: it lies in one partition of the store and is sorted by its key. Memory is that of one block and the state of
each device (two generators and the fractions of its counts). Rows do not depend on ``block_rows``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fleetscope.contracts.batch import record_batch
from fleetscope.contracts.derived import STATE_NAMES, WINDOWS
from simulator.history import kernel
from simulator.history.plan import PURPOSE, Plan, Served
from simulator.history.rollup import OPERATOR_HOURS, operator_rows
from simulator.history.settings import HOUR_S
from simulator.history.signals import (
    Ar1,
    daily,
    day_shape,
    demand_season,
    known_share,
    operator_factors,
    phi_of_window,
    pieces,
    shifts,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

BLOCK_ROWS: Final = 172_800
"""Two days of windows of 1 s: 60 MB, few parts for the store to merge."""

_HEADROOM: Final = 0.9
"""Batching grows to the first bucket that serves the demand in this share of the time."""
_JOB, _HOST, _DEVICE, _WHITE, _DEMAND = range(10, 15)
_NULL_WHERE_SILENT: Final = frozenset({"flops", "memory_bytes", "h2d_bytes", "d2h_bytes"})
_ALWAYS_ZERO: Final = ("revision", "orphans", "late_rows", "dropped_rows", "redelivered_rows", "counter_errors")


@dataclass(frozen=True, slots=True)
class Block:
    """Rows of one insert. ``windows`` and ``operators``: which of both they are; ``number`` counts each from 0."""

    table: str
    number: int
    rows: pa.RecordBatch | pa.Table


@dataclass(slots=True)
class _Device:
    """State of one device between slices."""

    noise: Ar1
    white: np.random.Generator
    carry: Floats


@dataclass(frozen=True, slots=True)
class _Slice:
    """What the devices of one host share in windows [start, stop)."""

    start: int
    stop: int
    bucket: Ints
    demand: Floats
    known: Floats
    common: Floats
    factors: Floats
    pairs: Ints
    moved: Floats
    piece: Ints
    found: list[tuple[int, int]]


class Generator:
    """Makes the rows of a plan. `blocks` may be taken once."""

    def __init__(self, plan: Plan, block_rows: int = BLOCK_ROWS) -> None:
        if block_rows < 1:
            raise ValueError(f"a block of {block_rows} rows")
        self._plan, self._block_rows = plan, block_rows
        history, seed = plan.history, plan.seed
        noise = history.noise
        phi = phi_of_window(noise.phi, noise.phi_lag_s, history.window_s)
        self._shape = day_shape(history.season.peak_hour)
        self._job_noise = [Ar1([seed, PURPOSE, _JOB, job.index], noise.job, phi) for job in plan.jobs]
        self._demand_noise = [Ar1([seed, PURPOSE, _DEMAND, job.index], noise.demand, phi) for job in plan.jobs]
        self._host_noise = [Ar1([seed, PURPOSE, _HOST, host], noise.host, phi) for host in range(history.hosts)]
        self._devices = [_Device(Ar1([seed, PURPOSE, _DEVICE, host, device], noise.device, phi),
                                 np.random.default_rng([seed, PURPOSE, _WHITE, host, device]),
                                 np.zeros(len(job.profile.operators)))
                         for job in plan.jobs for host in job.hosts for device in range(history.devices)]
        self._numbers = {"windows": 0, "operators": 0}

    def blocks(self) -> Iterator[Block]:
        """Blocks of windows, in each slice followed by the hourly rows of its hours."""
        for start, stop in self.slices():
            yield from self._slice(start, stop)

    def slices(self) -> Iterator[tuple[int, int]]:
        """Windows [start, stop): whole hours of one UTC day, as many as fit a block, at least one."""
        per_hour, total = self._plan.history.windows_per_hour, self._plan.history.windows
        hours = max(1, self._block_rows // per_hour)
        start = 0
        while start < total:
            hour_of_day = (self._plan.start_ns // (HOUR_S * 1_000_000_000) + start // per_hour) % 24
            stop = min(total, start + min(hours, 24 - hour_of_day) * per_hour)
            yield start, stop
            start = stop

    def _slice(self, start: int, stop: int) -> Iterator[Block]:
        plan, windows = self._plan, stop - start
        at_once = max(1, self._block_rows // windows)
        operators: list[pa.RecordBatch] = []
        jobs = {job.index: self._job_series(job, start, stop) for job in plan.jobs}
        pending: list[tuple[int, int, Served]] = []
        out = np.empty((0, 0), dtype=np.int64)
        total = plan.history.hosts * plan.history.devices
        for host in range(plan.history.hosts):
            job = plan.job_of(host)
            shared = self._shared(host, job, jobs[job.index], start, stop)
            shape = (len(shared.found), *job.profile.step_ns.shape)
            sums, moments = np.zeros((*shape, 2), dtype=np.int64), np.zeros((*shape, 3))
            for device in range(plan.history.devices):
                number = host * plan.history.devices + device
                if not pending:
                    # One column more: no slice is contiguous, so that one compiled form serves all.
                    room = min(at_once, total - number) * windows
                    out = np.empty((kernel.STATES + len(kernel.COUNTS), room + 1), dtype=np.int64)
                at = len(pending) * windows
                self._fill(out[:, at:at + windows], job, shared, self._devices[number], sums, moments)
                pending.append((host, device, job))
                if len(pending) == at_once or number == total - 1:
                    yield self._numbered("windows", self._rows(out[:, :-1], pending, start, stop))
                    pending = []
            operators.append(operator_rows(plan, host, job, shared.found, sums, moments))
        yield self._numbered("operators", pa.Table.from_batches(operators, OPERATOR_HOURS))

    def _numbered(self, table: str, rows: pa.RecordBatch | pa.Table) -> Block:
        number = self._numbers[table]
        self._numbers[table] += 1
        return Block(table, number, rows)

    def _job_series(self, job: Served, start: int, stop: int) -> tuple[Floats, Ints, Floats]:
        """Deviation of times, batch bucket and demand [steps/ns a device] of a job in each window."""
        history, profile = self._plan.history, job.profile
        seconds = self._plan.start_ns // 1_000_000_000 + np.arange(start, stop) * history.window_s
        deviation = self._job_noise[job.index].take(stop - start) \
            + history.season.duration_daily * daily(seconds, self._shape)
        season = demand_season(seconds, self._shape, history.season)
        wanted = history.jobs[job.index].utilisation * season \
            * np.maximum(0.05, 1.0 + self._demand_noise[job.index].take(stop - start))
        serves = profile.buckets / profile.total_ns()  # sequences, or tokens, a ns
        tokens = wanted * serves[-1]
        bucket = np.minimum(np.searchsorted(_HEADROOM * serves, tokens), len(serves) - 1).astype(np.int64)
        return deviation, bucket, tokens / profile.buckets[bucket]

    def _shared(self, host: int, job: Served, series: tuple[Floats, Ints, Floats], start: int, stop: int) -> _Slice:
        deviation, bucket, demand = series
        pairs, moved = shifts(self._plan, host, job, start, stop)
        piece, found = pieces(self._plan, host, start, stop)
        return _Slice(start, stop, bucket, demand, known_share(self._plan, host, start, stop),
                      deviation + self._host_noise[host].take(stop - start),
                      operator_factors(self._plan, host, job, start, stop), pairs, moved, piece, found)

    def _fill(self, out: Ints, job: Served, shared: _Slice, device: _Device, sums: Ints, moments: Floats) -> None:
        windows, profile, noise = shared.stop - shared.start, job.profile, self._plan.history.noise
        kernel.fill(out, self._plan.window_ns, shared.bucket, shared.demand, shared.known, shared.common,
                    device.noise.take(windows), device.white.standard_normal((windows, len(profile.operators))),
                    noise.white, shared.factors, shared.pairs, shared.moved, profile.role, profile.calls,
                    profile.step_ns, profile.launch, profile.states, profile.shares, profile.call_cv2 + noise.call ** 2,
                    profile.call_flops, profile.call_bytes, profile.launch_latency_ns, self._plan.history.devices,
                    device.carry, shared.piece, sums, moments)

    def _rows(self, out: Ints, owners: list[tuple[int, int, Served]], start: int, stop: int) -> pa.RecordBatch:
        """A block of contract `windows`: all windows of the slice of one device after the other."""
        plan, windows = self._plan, stop - start
        rows = windows * len(owners)
        silent = out[kernel.UNKNOWN] == plan.window_ns
        starts = plan.start_ns + np.arange(start, stop, dtype=np.int64) * plan.window_ns
        zeros = pa.array(np.zeros(rows, dtype=np.int64))
        columns = {
            "host": _repeated([plan.host_names[host] for host, _, _ in owners], windows),
            "device": _repeated([plan.device_names[device] for _, device, _ in owners], windows),
            "job": _repeated([job.name for _, _, job in owners], windows, silent),
            "window_start_ns": pa.array(np.tile(starts, len(owners))),
            "window_ns": pa.array(np.full(rows, plan.window_ns, dtype=np.int64)),
            **dict.fromkeys(_ALWAYS_ZERO, zeros),
            **{f"{name}_ns": pa.array(out[code]) for code, name in enumerate(STATE_NAMES)},
            **{name: pa.array(out[kernel.STATES + code], mask=silent if name in _NULL_WHERE_SILENT else None)
               for code, name in enumerate(kernel.COUNTS)},
            "launch_latency_p50_ns": pa.array(out[kernel.LATENCY], mask=out[kernel.KERNELS] == 0),
            "err_ns": pa.array(np.full(rows, plan.history.clock_err_ns, dtype=np.int64)),
            "coverage": pa.array(1.0 - out[kernel.UNKNOWN] / plan.window_ns),
        }
        return record_batch(WINDOWS, columns, rows)


def _repeated(words: list[str], each: int, missing: NDArray[np.bool_] | None = None) -> pa.DictionaryArray:
    """A symbol column that says every word ``each`` times."""
    known = {word: code for code, word in enumerate(dict.fromkeys(words))}
    codes = np.repeat(np.array([known[word] for word in words], dtype=np.int32), each)
    return pa.DictionaryArray.from_arrays(pa.array(codes, mask=missing), pa.array(list(known), pa.string()))
