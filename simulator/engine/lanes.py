"""Queues of a device: in order, one op at a time each, waiting for other ops and, for collectives, for peers."""

from __future__ import annotations

import math
from typing import Any

from simulator.engine.agenda import clear_due, set_due
from simulator.engine.charge import account, settle
from simulator.engine.layout import (
    AWAIT_ROOM,
    BAD_SEQUENCE,
    BLOCKED,
    DEVICE_ROWS,
    EMPTY,
    ERROR,
    ERROR_CODE,
    FIXED,
    MEETING,
    MOVING,
    ROUNDING_NS,
    STRIDE,
    State,
    compiled,
)
from simulator.engine.program import COLLECTIVE, COPY_IN, QUEUES, REMOTE_NUMA
from simulator.engine.shares import activate, deactivate, mark_device, mark_group


@compiled
def whole_ns(ns: float) -> int:
    """Rounded up, unless it exceeds a whole number by rounding of floating point only."""
    return math.ceil(ns - ROUNDING_NS)


@compiled
def head_op(s: State, device: int, queue: int) -> Any:
    """Record of the op at the head of a queue."""
    lane = device * QUEUES + queue
    return s.ops[lane * s.meta[STRIDE] + s.lanes[lane].head % s.devices[device].depth]


@compiled
def lane_event(s: State, device: int, queue: int, now: int) -> None:
    """The head of a queue arrives, need no longer wait, ends its fixed part or ends."""
    lane = s.lanes[device * QUEUES + queue]
    if lane.state <= BLOCKED:
        _try_start(s, device, queue, now)
    elif lane.state == FIXED and _has_work(head_op(s, device, queue), queue):
        settle(s, device, now)
        _move(s, device, queue, now)
    else:
        settle(s, device, now)
        finish(s, device, queue, now)


@compiled
def _has_work(op: Any, queue: int) -> bool:
    if queue < COPY_IN:
        return bool(op.matrix + op.vector + op.sram + op.noc + op.hbm + op.spill > 0.0)
    return bool(op.link_bytes > 0)


@compiled
def _try_start(s: State, device: int, queue: int, now: int) -> None:
    """Start the head unless the op it waits for is unfinished."""
    index = device * QUEUES + queue
    lane = s.lanes[index]
    op = head_op(s, device, queue)
    if op.wait_queue >= 0 and s.lanes[device * QUEUES + op.wait_queue].head <= op.wait_number:
        lane.state = BLOCKED
        clear_due(s.due, s.winners, s.threads.size + index)
        return
    settle(s, device, now)
    d = s.devices[device]
    d.pending -= 1
    d.running += 1
    lane.start = now
    if queue == COLLECTIVE:
        lane.state = MEETING
        clear_due(s.due, s.winners, s.threads.size + index)
        _meet(s, op, now)
        return
    fixed = whole_ns(op.fixed)
    work = _has_work(op, queue)
    if fixed > 0 or not work:
        lane.state = FIXED
        set_due(s.due, s.winners, s.threads.size + index, now + max(fixed, 1))
    else:
        _move(s, device, queue, now)


@compiled
def _move(s: State, device: int, queue: int, now: int) -> None:
    """The head's rate phase begins; `flush` gives it its rate and its end."""
    index = device * QUEUES + queue
    lane = s.lanes[index]
    op = head_op(s, device, queue)
    lane.state = MOVING
    lane.anchor = now
    lane.rate = 0.0
    lane.share = 1.0
    lane.remaining = 1.0
    mark_device(s, device)
    if queue >= COPY_IN:
        lane.remaining = float(op.link_bytes)
        lane.flow = 4 * device + 2 * (queue - COPY_IN) + (1 if op.flags & REMOTE_NUMA else 0)
        activate(s, lane.flow)
    clear_due(s.due, s.winners, s.threads.size + index)


@compiled
def finish(s: State, device: int, queue: int, now: int) -> None:
    """End the head of a queue, hand out its span, start the next and wake who may have waited for it."""
    index = device * QUEUES + queue
    lane = s.lanes[index]
    if lane.state == MOVING:
        if queue != COLLECTIVE:
            # The end is rounded up: take back what the last ns counted too much.
            account(s, device, queue, min(0.0, lane.remaining - (now - lane.anchor) * lane.rate))
            if queue >= COPY_IN:
                deactivate(s, lane.flow)
        mark_device(s, device)
    _hand_out(s, device, queue, now)
    s.devices[device].running -= 1
    lane.state = EMPTY
    lane.head += 1
    if lane.tail == lane.head:
        clear_due(s.due, s.winners, s.threads.size + index)
    else:
        arrival = head_op(s, device, queue).arrival
        if arrival > now:
            set_due(s.due, s.winners, s.threads.size + index, arrival)
        else:
            _try_start(s, device, queue, now)
    for other in range(QUEUES):
        if s.lanes[device * QUEUES + other].state == BLOCKED:
            set_due(s.due, s.winners, s.threads.size + device * QUEUES + other, now)
    if s.threads[device].state >= AWAIT_ROOM:
        set_due(s.due, s.winners, device, now)


@compiled
def _hand_out(s: State, device: int, queue: int, now: int) -> None:
    op = head_op(s, device, queue)
    out = s.device_out
    row = s.meta[DEVICE_ROWS]
    out[0, row] = s.lanes[device * QUEUES + queue].start
    out[1, row] = now
    out[2, row] = device
    out[3, row] = queue
    out[4, row] = op.flags
    out[5, row] = op.name
    out[6, row] = op.id
    out[7, row] = op.wait_id
    out[8, row] = op.bytes
    out[9, row] = op.flops
    out[10, row] = op.communicator
    out[11, row] = op.sequence
    out[12, row] = op.step
    out[13, row] = op.request
    s.meta[DEVICE_ROWS] += 1


# Collectives


@compiled
def _meet(s: State, op: Any, now: int) -> None:
    """A member has arrived; the last one starts the transfer, of the largest payload and fixed time stated."""
    g = s.groups[op.communicator]
    if g.arrived == 0:
        g.sequence = op.sequence
        g.bytes = 0.0
        g.fixed = 0.0
    elif g.sequence != op.sequence:
        s.meta[ERROR_CODE] = BAD_SEQUENCE
        s.meta[ERROR] = op.communicator
    g.arrived += 1
    g.bytes = max(g.bytes, float(op.link_bytes))
    g.fixed = max(g.fixed, op.fixed)
    if g.arrived < g.last - g.first:
        return
    fixed = whole_ns(g.fixed)
    for i in range(g.first, g.last):
        settle(s, s.members[i], now)
        s.lanes[s.members[i] * QUEUES + COLLECTIVE].state = FIXED
    g.state = FIXED
    if fixed > 0 or g.bytes == 0.0:
        set_due(s.due, s.winners, s.threads.size * (1 + QUEUES) + op.communicator, now + max(fixed, 1))
    else:
        _move_group(s, op.communicator, now)


@compiled
def _move_group(s: State, group: int, now: int) -> None:
    """The rate phase of a collective begins."""
    g = s.groups[group]
    g.state = MOVING
    g.remaining = g.bytes
    g.rate = 0.0
    g.anchor = now
    flow = 4 * s.threads.size + group
    for i in range(g.first, g.last):
        lane = s.lanes[s.members[i] * QUEUES + COLLECTIVE]
        lane.state = MOVING
        lane.flow = flow
        lane.rate = 0.0
        mark_device(s, s.members[i])
    activate(s, flow)
    mark_group(s, group)
    clear_due(s.due, s.winners, s.threads.size * (1 + QUEUES) + group)


@compiled
def group_event(s: State, group: int, now: int) -> None:
    """A collective ends its fixed part, or ends on all its members."""
    g = s.groups[group]
    for i in range(g.first, g.last):
        settle(s, s.members[i], now)
    if g.state == FIXED and g.bytes > 0.0:
        _move_group(s, group, now)
        return
    clear_due(s.due, s.winners, s.threads.size * (1 + QUEUES) + group)
    moving = g.state == MOVING
    over = min(0.0, g.remaining - (now - g.anchor) * g.rate)
    queue = int(COLLECTIVE)  # int: numba would compile copies of what follows for the literal
    g.state = EMPTY
    g.arrived = 0
    if moving:
        deactivate(s, 4 * s.threads.size + group)
    for i in range(g.first, g.last):
        if moving:
            account(s, s.members[i], queue, over)
        finish(s, s.members[i], queue, now)
