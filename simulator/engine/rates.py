"""New rates for all that an instant's events touched, and the ends that follow from them.

Progress is brought up to date only where a rate changes: finish = anchor + ⌈remaining / rate⌉.
"""

from __future__ import annotations

from simulator.engine.agenda import set_due
from simulator.engine.charge import settle
from simulator.engine.lanes import head_op, whole_ns
from simulator.engine.layout import (
    DIRTY_COMPONENTS,
    DIRTY_DEVICES,
    DIRTY_GROUPS,
    FASTEST,
    MOVING,
    NEVER,
    State,
    compiled,
)
from simulator.engine.program import COLLECTIVE, COPY_IN, QUEUES
from simulator.engine.shares import fill, granted_rate, kernel_ns, mark_device, mark_group, memory_shares


@compiled
def flush(s: State, now: int) -> None:
    """Network first, then each touched device's memory, then collectives, which the slowest member bounds."""
    for i in range(s.meta[DIRTY_COMPONENTS]):
        _network(s, s.dirty_components[i])
    s.meta[DIRTY_COMPONENTS] = 0
    for i in range(s.meta[DIRTY_DEVICES]):
        device = s.dirty_devices[i]
        s.devices[device].dirty = 0
        if s.devices[device].running > 0:
            settle(s, device, now)
            _device(s, device, now)
    s.meta[DIRTY_DEVICES] = 0
    for i in range(s.meta[DIRTY_GROUPS]):
        group = s.dirty_groups[i]
        s.groups[group].dirty = 0
        if s.groups[group].state == MOVING:
            _group(s, group, now)
    s.meta[DIRTY_GROUPS] = 0


@compiled
def _network(s: State, index: int) -> None:
    component = s.components[index]
    component.dirty = 0
    active = s.active[component.first:component.first + component.count]
    fill(s, active)
    for flow in active:
        record = s.flows[flow]
        if record.fill != record.net:
            record.net = record.fill
            if record.group < 0:
                mark_device(s, record.device)
            else:
                for i in range(s.groups[record.group].first, s.groups[record.group].last):
                    mark_device(s, s.members[i])


@compiled
def _device(s: State, device: int, now: int) -> None:
    """Rates of kernels and copies of a device; its collective is left to the group."""
    memory_shares(s, device)
    d = s.devices[device]
    for queue in range(QUEUES):
        lane = s.lanes[device * QUEUES + queue]
        if lane.state != MOVING:
            continue
        if queue < COPY_IN:
            lane.pace = kernel_ns(head_op(s, device, queue), d.full_mhz / d.mhz, d.slowness, lane.share)
            _set_rate(s, device, queue, 1.0 / lane.pace, now)
        elif queue < COLLECTIVE:
            _set_rate(s, device, queue, granted_rate(s, device, queue), now)
        else:
            mark_group(s, s.flows[lane.flow].group)


@compiled
def _set_rate(s: State, device: int, queue: int, rate: float, now: int) -> None:
    lane = s.lanes[device * QUEUES + queue]
    if rate == lane.rate:
        return
    lane.remaining -= (now - lane.anchor) * lane.rate
    lane.anchor = now
    lane.rate = rate
    set_due(s.due, s.winners, s.threads.size + device * QUEUES + queue, end_ns(now, lane.remaining, rate))


@compiled
def end_ns(now: int, remaining: float, rate: float) -> int:
    """When what remains is done; NEVER at rate 0 or beyond all times."""
    if rate <= 0.0 or remaining > rate * NEVER / 4:
        return NEVER
    return now + max(whole_ns(remaining / rate), 0)


@compiled
def _group(s: State, group: int, now: int) -> None:
    g = s.groups[group]
    rate = FASTEST
    queue = int(COLLECTIVE)
    for i in range(g.first, g.last):
        rate = min(rate, granted_rate(s, s.members[i], queue))
    if rate == g.rate:
        return
    for i in range(g.first, g.last):
        settle(s, s.members[i], now)
        s.lanes[s.members[i] * QUEUES + COLLECTIVE].rate = rate
    g.remaining -= (now - g.anchor) * g.rate
    g.anchor = now
    g.rate = rate
    set_due(s.due, s.winners, s.threads.size * (1 + QUEUES) + group, end_ns(now, g.remaining, rate))
