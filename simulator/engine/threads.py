"""Host threads: one a rank, executing the calls of its program in order."""

from __future__ import annotations

from typing import Final

import numpy as np

from simulator.causes import CODE
from simulator.engine.agenda import clear_due, set_due
from simulator.engine.charge import settle
from simulator.engine.lanes import whole_ns
from simulator.engine.layout import (
    API,
    AWAIT_ALL,
    AWAIT_OP,
    AWAIT_ROOM,
    BAD_CALL,
    BYTES,
    CALL,
    CALLING,
    CAUSE,
    COMMUNICATOR,
    CPU_THREAD,
    DRIVER,
    DRIVER_TRACK,
    ERROR,
    ERROR_CODE,
    FLAGS,
    FLOPS,
    GAP,
    GATE,
    HOST_API,
    HOST_ROWS,
    IDLE,
    KIND,
    LINK_BYTES,
    LOADED,
    NAME,
    NEEDY,
    PENDING,
    QUEUE,
    READY,
    REQUEST,
    SEED,
    SEQUENCE,
    STRIDE,
    WAIT_FOR,
    State,
    compiled,
)
from simulator.engine.program import BLOCKING, COLLECTIVE, LAUNCH, NONE, QUEUES, SYNC, WAIT, WORK

_HOST_LAUNCH: Final = CODE["host_launch"]
_GOLDEN: Final = np.uint64(0x9E3779B97F4A7C15)
_MIX_1: Final = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2: Final = np.uint64(0x94D049BB133111EB)


@compiled
def thread_event(s: State, rank: int, now: int) -> None:
    """The thread gets demand, starts a program, reaches the end of a call or its submission, or is woken."""
    t = s.threads[rank]
    if t.state == PENDING:
        settle(s, rank, now)
        t.state = READY
        t.cause = _HOST_LAUNCH
        t.contention = 0.0
        if t.step_start > now:
            set_due(s.due, s.winners, rank, t.step_start)
            return
    if t.state == READY:
        _begin(s, rank, now)
    elif t.state == CALLING:
        _called(s, rank, now)
    elif t.state == GATE or t.state == AWAIT_ROOM:
        _at_gate(s, rank, now)
    elif t.state == AWAIT_OP:
        if s.lanes[rank * QUEUES + t.wait_queue].head > t.wait_number:
            _return(s, rank, now)
        else:
            clear_due(s.due, s.winners, rank)
    elif _all_done(s, rank):
        _return(s, rank, now)
    else:
        clear_due(s.due, s.winners, rank)


@compiled
def admit(s: State) -> None:
    """Put the threads that were given programs on the agenda."""
    for rank in range(s.threads.size):
        t = s.threads[rank]
        if t.state == LOADED:
            t.state = PENDING
            set_due(s.due, s.winners, rank, t.begin)


@compiled
def _begin(s: State, rank: int, now: int) -> None:
    """Go to the next call, or end the program."""
    t = s.threads[rank]
    if s.devices[rank].running == 0:
        settle(s, rank, now)
    if t.pc == t.count:
        _end_program(s, rank, now)
        return
    column = s.calls[rank]
    pc = t.pc
    if not _sound(s, rank):
        s.meta[ERROR_CODE] = BAD_CALL
        s.meta[ERROR] = rank
        return
    gap, call, driver = column[GAP, pc], column[CALL, pc], column[DRIVER, pc]
    t.cause = column[CAUSE, pc] if column[CAUSE, pc] >= 0 else _HOST_LAUNCH
    t.call_start = _later(s, rank, now, gap)
    t.driver_start = _later(s, rank, t.call_start, call - driver)
    t.state = CALLING
    work_ns = gap + call
    if column[KIND, pc] == LAUNCH and not _has_room(s, rank, column[QUEUE, pc]):
        t.state = GATE
        end = t.driver_start
        work_ns -= driver
    else:
        end = _later(s, rank, t.driver_start, driver)
    t.contention = 1.0 - work_ns / (end - now) if end - now > work_ns else 0.0
    set_due(s.due, s.winners, rank, end)


@compiled
def _end_program(s: State, rank: int, now: int) -> None:
    t = s.threads[rank]
    if t.step_name >= 0:
        _span(s, rank, t.step_start, now, CPU_THREAD, t.step_name, NONE, t.step_request)
    t.state = IDLE
    t.count = 0
    t.contention = 0.0
    t.needs = 1
    s.meta[NEEDY] += 1
    clear_due(s.due, s.winners, rank)


@compiled
def _sound(s: State, rank: int) -> bool:
    """Whether the next call can be executed at all."""
    c = s.calls[rank]
    pc = s.threads[rank].pc
    kind, wait, queue = c[KIND, pc], c[WAIT_FOR, pc], c[QUEUE, pc]
    if kind < LAUNCH or kind > WAIT or c[GAP, pc] < 0 or c[DRIVER, pc] < 0 or c[CALL, pc] < c[DRIVER, pc]:
        return False
    if wait >= pc or (wait >= 0 and c[KIND, wait] != LAUNCH) or (kind == WAIT and wait < 0):
        return False
    if kind != LAUNCH:
        return True
    if queue == COLLECTIVE:
        group = c[COMMUNICATOR, pc]
        if group < 0 or group >= s.groups.size:
            return False
        for i in range(s.groups[group].first, s.groups[group].last):
            if s.members[i] == rank:
                return bool(c[LINK_BYTES, pc] >= 0)
        return False
    return bool(0 <= queue < QUEUES and c[LINK_BYTES, pc] >= 0 and s.works[rank, 7, pc] >= 0.0)


@compiled
def _has_room(s: State, rank: int, queue: int) -> bool:
    lane = s.lanes[rank * QUEUES + queue]
    return bool(lane.tail - lane.head < s.devices[rank].depth)


@compiled
def _all_done(s: State, rank: int) -> bool:
    return bool(s.devices[rank].running == 0 and s.devices[rank].pending == 0)


@compiled
def _at_gate(s: State, rank: int, now: int) -> None:
    """The driver's part begins once the queue has room."""
    t = s.threads[rank]
    column = s.calls[rank]
    if not _has_room(s, rank, column[QUEUE, t.pc]):
        t.state = AWAIT_ROOM
        clear_due(s.due, s.winners, rank)
        return
    if s.devices[rank].running == 0:
        settle(s, rank, now)
    driver = column[DRIVER, t.pc]
    t.driver_start = now
    end = _later(s, rank, now, driver)
    t.contention = 1.0 - driver / (end - now) if end - now > driver else 0.0
    t.state = CALLING
    set_due(s.due, s.winners, rank, end)


@compiled
def _called(s: State, rank: int, now: int) -> None:
    """The host's part of a call is over: submit, and return or wait."""
    t = s.threads[rank]
    column = s.calls[rank]
    pc = t.pc
    kind = column[KIND, pc]
    t.wait_queue = NONE
    if kind == LAUNCH:
        _submit(s, rank, now)
        if column[FLAGS, pc] & BLOCKING:
            t.wait_queue = column[QUEUE, pc]
            t.wait_number = s.numbers[rank, pc]
    elif kind == WAIT:
        t.wait_queue = column[QUEUE, column[WAIT_FOR, pc]]
        t.wait_number = s.numbers[rank, column[WAIT_FOR, pc]]
    if t.wait_queue >= 0 and s.lanes[rank * QUEUES + t.wait_queue].head <= t.wait_number:
        t.state = AWAIT_OP
        clear_due(s.due, s.winners, rank)
    elif kind == SYNC and not _all_done(s, rank):
        t.state = AWAIT_ALL
        clear_due(s.due, s.winners, rank)
    else:
        _return(s, rank, now)


@compiled
def _return(s: State, rank: int, now: int) -> None:
    """The call returns: its span, then the next call."""
    t = s.threads[rank]
    column = s.calls[rank]
    if column[API, t.pc] >= 0:
        launch = column[KIND, t.pc] == LAUNCH
        track = CPU_THREAD if column[KIND, t.pc] == WORK else HOST_API
        _span(s, rank, t.call_start, now, track, column[API, t.pc], t.base + t.pc if launch else NONE,
              column[REQUEST, t.pc])
    t.pc += 1
    _begin(s, rank, now)


@compiled
def _submit(s: State, rank: int, now: int) -> None:
    """Put the call's op into its queue; it arrives after the launch latency, in order."""
    t = s.threads[rank]
    c = s.calls[rank]
    w = s.works[rank]
    pc = t.pc
    queue = c[QUEUE, pc]
    index = rank * QUEUES + queue
    lane = s.lanes[index]
    d = s.devices[rank]
    if c[DRIVER, pc] > 0:
        _span(s, rank, t.driver_start, now, DRIVER_TRACK, NONE, t.base + pc, c[REQUEST, pc])
    op = s.ops[index * s.meta[STRIDE] + lane.tail % d.depth]
    arrival = now + d.latency
    if d.noise > 0:
        arrival += _draw(s.meta[SEED], rank, t.base + pc) % (d.noise + 1)
    op.arrival = max(arrival, lane.last_arrival)
    op.wait_queue = NONE
    op.wait_id = NONE
    wait = c[WAIT_FOR, pc]
    if wait >= 0:
        op.wait_queue = c[QUEUE, wait]
        op.wait_number = s.numbers[rank, wait]
        op.wait_id = t.base + wait
    op.name, op.id, op.flags, op.step = c[NAME, pc], t.base + pc, c[FLAGS, pc], t.step
    op.communicator, op.sequence, op.request = c[COMMUNICATOR, pc], c[SEQUENCE, pc], c[REQUEST, pc]
    op.link_bytes, op.flops, op.bytes = c[LINK_BYTES, pc], c[FLOPS, pc], c[BYTES, pc]
    op.matrix, op.vector, op.sram, op.conflict = w[0, pc], w[1, pc], w[2, pc], w[3, pc]
    op.noc, op.hbm, op.spill, op.fixed = w[4, pc], w[5, pc], w[6, pc], w[7, pc]
    if d.running == 0:
        settle(s, rank, now)
    d.pending += 1
    lane.last_arrival = op.arrival
    s.numbers[rank, pc] = lane.tail
    if lane.tail == lane.head:
        set_due(s.due, s.winners, s.threads.size + index, op.arrival)
    lane.tail += 1


@compiled
def _draw(seed: int, rank: int, number: int) -> int:
    """A number ≥ 0 from (seed, rank, number): the finaliser of SplitMix64 (Steele, Lea, Flood 2014), 63 bits."""
    x = np.uint64(seed) + (np.uint64(rank) + np.uint64(1)) * _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _MIX_1 + np.uint64(number) * _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * _MIX_1
    x = (x ^ (x >> np.uint64(27))) * _MIX_2
    return np.int64((x ^ (x >> np.uint64(31))) >> np.uint64(1))  # type: ignore[return-value]


@compiled
def _span(s: State, rank: int, start: int, end: int, track: int, name: int, number: int, request: int) -> None:
    out = s.host_out
    row = s.meta[HOST_ROWS]
    out[0, row] = start
    out[1, row] = end
    out[2, row] = rank
    out[3, row] = track
    out[4, row] = name
    out[5, row] = number
    out[6, row] = s.threads[rank].step
    out[7, row] = request
    s.meta[HOST_ROWS] += 1


@compiled
def _later(s: State, rank: int, now: int, work_ns: int) -> int:
    """When a thread that starts at ``now`` has done ``work_ns``, with all intervals in which its host is slow."""
    t = s.threads[rank]
    while t.cursor < t.last_slow and s.slow[t.cursor].end <= now:
        t.cursor += 1
    if t.cursor == t.last_slow or work_ns == 0:
        return now + work_ns
    left = float(work_ns)
    for i in range(t.cursor, t.last_slow):
        slow = s.slow[i]
        if now < slow.start:
            if left <= slow.start - now:
                break
            left -= slow.start - now
            now = slow.start
        room = (slow.end - now) / slow.factor
        if left <= room:
            return now + whole_ns(left * slow.factor)
        left -= room
        now = slow.end
    return now + whole_ns(left)
