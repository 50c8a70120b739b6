"""The world of the simulator's core: give ranks programs, let time pass, take what happened."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from simulator.engine.build import build
from simulator.engine.core import core
from simulator.engine.layout import (
    BAD_CALL,
    BAD_SEQUENCE,
    CALL_COLUMNS,
    CALLING,
    DEVICE_FULL,
    DEVICE_ROWS,
    ERROR,
    HOST_FULL,
    HOST_ROWS,
    IDLE,
    LOADED,
    MEETING,
    NEED_PROGRAM,
    NOW,
    REACHED,
    READING_ROWS,
    SERIES_FULL,
    SLOT_ROWS,
    WORK_COLUMNS,
    Floats,
    Ints,
    State,
)
from simulator.engine.program import NONE, QUEUES, Program
from simulator.engine.spec import WorldSpec


@dataclass(frozen=True, slots=True)
class HostSpans:
    """Finished spans of host threads, true time [start, end) in ns; ordered by end. ``NONE`` is null.

    ``track``: layout.HOST_API, DRIVER_TRACK, CPU_THREAD; ``name``: code of the call, NONE for driver spans;
    ``correlation``: of the op given to the device, unique per rank.
    """

    start: Ints
    end: Ints
    rank: Ints
    track: Ints
    name: Ints
    correlation: Ints
    step: Ints
    request: Ints

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class DeviceSpans:
    """Finished spans of devices, true time [start, end) in ns; ordered by end. ``NONE`` is null.

    ``wait``: correlation of the op it waited for, whether or not that took time; ``queue`` and ``flags``: those of the
    program.
    """

    start: Ints
    end: Ints
    rank: Ints
    queue: Ints
    flags: Ints
    name: Ints
    correlation: Ints
    wait: Ints
    bytes: Ints
    flops: Ints
    communicator: Ints
    sequence: Ints
    step: Ints
    request: Ints

    def __len__(self) -> int:
        return len(self.start)


@dataclass(frozen=True, slots=True)
class Slots:
    """True causes of closed slots, one row a (slot, device): ``ns`` (row, cause) sums to the slot's length."""

    start: Ints
    device: Ints
    ns: Ints


@dataclass(frozen=True, slots=True)
class Readings:
    """What counters can see, one row a (reading, device): ``values`` (row, layout.SERIES).

    clock_mhz and temperature_c as of ``at``, power_w the mean, all else sums over the period that ended at ``at``.
    """

    at: Ints
    device: Ints
    values: Floats


@dataclass(frozen=True, slots=True)
class Records:
    """All that ended since the last `World.take`; no later record starts before its promise."""

    host: HostSpans
    device: DeviceSpans
    slots: Slots
    readings: Readings
    host_promise: Ints
    """(rank,) every host span still to come starts at or after this."""
    device_promise: Ints
    now_ns: int


class World:
    """Ranks on devices that share links, memories and collectives. Compiles on its first `run`."""

    def __init__(self, spec: WorldSpec) -> None:
        self.spec = spec
        self._ranks = len(spec.devices)
        self._state: State = build(spec)

    @property
    def now_ns(self) -> int:
        """True time up to which everything has happened."""
        return int(self._state.meta[NOW])

    def load(self, rank: int, program: Program, at_ns: int, step: int, *, demand_ns: int | None = None,
             step_name: int = NONE, step_request: int = NONE) -> int:
        """Give an idle rank its next program, which starts at ``at_ns``, or now if that is past.

        Until ``demand_ns`` (default: at_ns) the device idles for want of requests, from then for its host.
        ``step_name``: name of a cpu_thread span over the whole program, NONE: no such span. Returns the correlation of
        call 0; that of call i is i more. Raises ValueError if the rank still runs one.
        """
        thread = self._state.threads[rank]
        if thread["state"] != IDLE:
            raise ValueError(f"rank {rank} still runs a program")
        start_ns = max(at_ns, self.now_ns)
        count = len(program)
        self._fit(count)
        calls, works = self._state.calls[rank], self._state.works[rank]
        for index, name in enumerate(CALL_COLUMNS):
            calls[index, :count] = getattr(program, name)
        for index, name in enumerate(WORK_COLUMNS):
            works[index, :count] = getattr(program, name)
        thread["state"], thread["pc"], thread["count"], thread["needs"] = LOADED, 0, count, 0
        thread["base"] = thread["next_id"]
        thread["next_id"] += count
        thread["step"], thread["step_name"], thread["step_request"] = step, step_name, step_request
        thread["step_start"] = start_ns
        begin_ns = start_ns if demand_ns is None else min(start_ns, max(demand_ns, self.now_ns))
        thread["begin"] = begin_ns
        return int(thread["base"])

    def run(self, until_ns: int) -> list[tuple[int, int]]:
        """Let all happen that happens before ``until_ns``, or up to the instant at which ranks run out of work.

        Returns those (rank, now); each is returned once. An empty list: ``until_ns`` is reached. Raises ValueError for
        a call that cannot be executed and for members of a collective that disagree on its sequence.
        """
        advance = core()
        while True:
            outcome = advance(self._state, until_ns)
            if outcome == REACHED:
                return []
            if outcome == NEED_PROGRAM:
                return self._needy()
            if outcome in (HOST_FULL, DEVICE_FULL, SERIES_FULL):
                self._grow(outcome)
            else:
                self._refuse(outcome)

    def take(self) -> Records:
        """What ended since the last take, in true time; arrays are the caller's."""
        s = self._state
        host, device, slots, readings = (int(s.meta[i]) for i in (HOST_ROWS, DEVICE_ROWS, SLOT_ROWS, READING_ROWS))
        s.meta[[HOST_ROWS, DEVICE_ROWS, SLOT_ROWS, READING_ROWS]] = 0
        slot_rows, reading_rows = s.slot_out[:slots], s.reading_out[:readings]
        return Records(
            HostSpans(*s.host_out[:, :host].copy()), DeviceSpans(*s.device_out[:, :device].copy()),
            Slots(slot_rows[:, 0].copy(), slot_rows[:, 1].copy(), slot_rows[:, 2:].copy()),
            Readings(reading_rows[:, 0].astype(np.int64), reading_rows[:, 1].astype(np.int64),
                     reading_rows[:, 2:].copy()),
            self._host_promise(), self._device_promise(), self.now_ns)

    def _needy(self) -> list[tuple[int, int]]:
        ranks = np.flatnonzero(self._state.threads["needs"] == 1)
        self._state.threads["needs"][ranks] = 2
        return [(int(rank), self.now_ns) for rank in ranks]

    def _host_promise(self) -> Ints:
        threads = self._state.threads
        now = np.int64(self.now_ns)
        promise = np.where(threads["state"] >= CALLING, threads["call_start"], np.maximum(threads["step_start"], now))
        promise = np.where(threads["state"] == IDLE, now, promise)
        whole = (threads["state"] != IDLE) & (threads["step_name"] >= 0)
        return np.asarray(np.where(whole, threads["step_start"], promise))

    def _device_promise(self) -> Ints:
        lanes = self._state.lanes
        starts = np.where(lanes["state"] >= MEETING, lanes["start"], self.now_ns)
        return np.asarray(starts.reshape(self._ranks, QUEUES).min(axis=1))

    def _fit(self, count: int) -> None:
        """Make room for programs of ``count`` calls."""
        have = self._state.calls.shape[2]
        if count <= have:
            return
        more = ((0, 0), (0, 0), (0, max(count, 2 * have) - have))
        self._state = self._state._replace(
            calls=np.pad(self._state.calls, more), works=np.pad(self._state.works, more),
            numbers=np.pad(self._state.numbers, more[1:]))

    def _grow(self, outcome: int) -> None:
        """Double an output that is full."""
        s = self._state
        if outcome == HOST_FULL:
            self._state = s._replace(host_out=_doubled(s.host_out, 1))
        elif outcome == DEVICE_FULL:
            self._state = s._replace(device_out=_doubled(s.device_out, 1))
        else:
            self._state = s._replace(slot_out=_doubled(s.slot_out, 0), reading_out=_doubled(s.reading_out, 0))

    def _refuse(self, outcome: int) -> None:
        where = int(self._state.meta[ERROR])
        if outcome == BAD_CALL:
            thread = self._state.threads[where]
            raise ValueError(f"rank {where}, step {thread['step']}: call {thread['pc']} cannot be executed")
        if outcome == BAD_SEQUENCE:
            raise ValueError(f"group {where}: its members meet with different sequence numbers")
        raise AssertionError(f"unknown outcome {outcome}")


def _doubled(array: Any, axis: int) -> Any:
    more = [(0, 0)] * array.ndim
    more[axis] = (0, array.shape[axis])
    return np.pad(array, more)
