"""Who gets how much: max-min fair rates on the network of links, and shares of each device's memory.

Sources: progressive filling, Bertsekas and Gallager, Data Networks, 2nd ed., §6.5.2; resources of a kernel overlap as
T = fixed + (Σ t_r⁴)^¼ (docs/decisions/0008).
"""

from __future__ import annotations

import math
from typing import Any, Final

from simulator.engine.layout import (
    DIRTY_COMPONENTS,
    DIRTY_DEVICES,
    DIRTY_GROUPS,
    FASTEST,
    MOVING,
    STRIDE,
    Ints,
    State,
    compiled,
)
from simulator.engine.program import COLLECTIVE, COPY_IN, QUEUES

LEAST_SHARE: Final = 1e-9


@compiled
def overlapped_ns(matrix: float, vector: float, sram: float, noc: float, hbm: float) -> float:
    """(Σ t_r⁴)^¼: the fourth root as two square roots, exact on every machine."""
    matrix *= matrix
    vector *= vector
    sram *= sram
    noc *= noc
    hbm *= hbm
    return math.sqrt(math.sqrt(matrix * matrix + vector * vector + sram * sram + noc * noc + hbm * hbm))


@compiled
def kernel_ns(op: Any, stretch: float, slowness: float, share: float) -> float:
    """Time of a kernel at full clock / ``stretch`` with ``share`` of the device memory's rate."""
    alone = overlapped_ns(op.matrix * stretch, op.vector * stretch, op.sram * op.conflict * stretch, op.noc,
                          (op.hbm + op.spill) / share)
    return slowness * alone


@compiled
def mark_component(s: State, index: int) -> None:
    """Rates of this component's flows must be computed again."""
    if not s.components[index].dirty:
        s.components[index].dirty = 1
        s.dirty_components[s.meta[DIRTY_COMPONENTS]] = index
        s.meta[DIRTY_COMPONENTS] += 1


@compiled
def mark_device(s: State, index: int) -> None:
    """Shares of this device's memory must be computed again."""
    if not s.devices[index].dirty:
        s.devices[index].dirty = 1
        s.dirty_devices[s.meta[DIRTY_DEVICES]] = index
        s.meta[DIRTY_DEVICES] += 1


@compiled
def mark_group(s: State, index: int) -> None:
    """The rate of this group's collective must be computed again."""
    if not s.groups[index].dirty:
        s.groups[index].dirty = 1
        s.dirty_groups[s.meta[DIRTY_GROUPS]] = index
        s.meta[DIRTY_GROUPS] += 1


@compiled
def activate(s: State, flow: int) -> None:
    """Add a flow to its component's active ones, which stay in ascending order."""
    component = s.components[s.flows[flow].component]
    at = component.first + component.count
    while at > component.first and s.active[at - 1] > flow:
        s.active[at] = s.active[at - 1]
        at -= 1
    s.active[at] = flow
    component.count += 1
    s.flows[flow].net = 0.0
    mark_component(s, s.flows[flow].component)


@compiled
def deactivate(s: State, flow: int) -> None:
    """Remove a flow that has ended."""
    component = s.components[s.flows[flow].component]
    last = component.first + component.count - 1
    at = component.first
    while s.active[at] != flow:
        at += 1
    while at < last:
        s.active[at] = s.active[at + 1]
        at += 1
    component.count -= 1
    mark_component(s, s.flows[flow].component)


@compiled
def fill(s: State, active: Ints) -> None:
    """Max-min fair ``flow.fill`` of the active flows: all rise together until a link or their own cap stops them."""
    for flow in active:
        s.flows[flow].done = 0
        for i in range(s.flows[flow].first, s.flows[flow].last):
            link = s.links[s.flow_links[i]]
            link.left = link.capacity
            link.users = 0
    for flow in active:
        for i in range(s.flows[flow].first, s.flows[flow].last):
            s.links[s.flow_links[i]].users += 1
    open_flows = len(active)
    while open_flows > 0:
        level = FASTEST
        for flow in active:
            if not s.flows[flow].done:
                level = min(level, _bound(s, flow))
        level = max(level, 0.0)
        for flow in active:
            if not s.flows[flow].done and _bound(s, flow) <= level:
                s.flows[flow].done = 2
        for flow in active:
            if s.flows[flow].done == 2:
                s.flows[flow].done = 1
                s.flows[flow].fill = level
                open_flows -= 1
                for i in range(s.flows[flow].first, s.flows[flow].last):
                    link = s.links[s.flow_links[i]]
                    link.left -= level
                    link.users -= 1


@compiled
def _bound(s: State, flow: int) -> float:
    """Level at which this flow stops first: its cap or an equal part of what is left of a link."""
    record = s.flows[flow]
    bound: float = min(record.cap, FASTEST)
    for i in range(record.first, record.last):
        link = s.links[s.flow_links[i]]
        bound = min(bound, link.left / link.users)
    return bound


@compiled
def memory_shares(s: State, device: int) -> None:
    """Set ``demand`` and ``grant`` of each moving lane (parts of the device memory's rate) and ``share`` of kernels.

    Everybody demands what it would take alone; demands are met max-min fairly; a kernel finds what others leave.
    """
    base = device * QUEUES
    users = 0
    total = 0.0
    for queue in range(QUEUES):
        lane = s.lanes[base + queue]
        if lane.state == MOVING:
            users += 1
            lane.demand = _demand(s, device, queue)
            lane.grant = lane.demand
            total += lane.demand
    if total > 1.0:
        _divide(s, base, users)
    for queue in range(COPY_IN):
        if s.lanes[base + queue].state == MOVING:
            left = 1.0
            for other in range(QUEUES):
                if other != queue and s.lanes[base + other].state == MOVING:
                    left -= s.lanes[base + other].grant
            s.lanes[base + queue].share = max(left, s.lanes[base + queue].grant, LEAST_SHARE)


@compiled
def _demand(s: State, device: int, queue: int) -> float:
    """Part of the device memory's rate that the head of a queue takes with the memory to itself; copies may ask > 1."""
    d = s.devices[device]
    lane = s.lanes[device * QUEUES + queue]
    if queue < COPY_IN:
        op = s.ops[(device * QUEUES + queue) * s.meta[STRIDE] + lane.head % d.depth]
        return float(op.hbm + op.spill) / kernel_ns(op, d.full_mhz / d.mhz, d.slowness, 1.0)
    traffic = d.collective_hbm if queue == COLLECTIVE else d.copy_hbm
    return float(s.flows[lane.flow].net * traffic / d.hbm_rate)


@compiled
def _divide(s: State, base: int, users: int) -> None:
    """Replace demands that exceed 1 together by max-min fair grants."""
    for queue in range(QUEUES):
        s.lanes[base + queue].grant = -1.0
    left = 1.0
    again = True
    while again:
        again = False
        fair = left / users
        for queue in range(QUEUES):
            lane = s.lanes[base + queue]
            if lane.state == MOVING and lane.grant < 0.0 and lane.demand <= fair:
                lane.grant = lane.demand
                left -= lane.demand
                users -= 1
                again = True
    for queue in range(QUEUES):
        lane = s.lanes[base + queue]
        if lane.state == MOVING and lane.grant < 0.0:
            lane.grant = left / users


@compiled
def granted_rate(s: State, device: int, queue: int) -> float:
    """Bytes/ns of a moving copy, or a device's limit to its collective: the network's rate, unless memory grants less.

    What memory refuses is not given to others on the links.
    """
    lane = s.lanes[device * QUEUES + queue]
    net: float = s.flows[lane.flow].net
    if lane.grant >= lane.demand:
        return net
    d = s.devices[device]
    traffic = d.collective_hbm if queue == COLLECTIVE else d.copy_hbm
    return float(lane.grant * d.hbm_rate / traffic)
