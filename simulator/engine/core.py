"""The event loop: one compiled function that runs a world until a time or until somebody needs a program."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numba

from simulator import causes
from simulator.engine.agenda import set_due
from simulator.engine.charge import settle
from simulator.engine.lanes import group_event, lane_event
from simulator.engine.layout import (
    DEVICE_FULL,
    DEVICE_ROWS,
    ERROR_CODE,
    HOST_FULL,
    HOST_ROWS,
    NEED_PROGRAM,
    NEEDY,
    NEVER,
    NEXT_CHANGE,
    NOW,
    OPTIONS,
    REACHED,
    READING_ROWS,
    SERIES_FULL,
    SLOT_ROWS,
    TICK_NS,
    State,
    compiled,
)
from simulator.engine.power import cap_clock, tick
from simulator.engine.program import QUEUES
from simulator.engine.rates import flush
from simulator.engine.shares import mark_component, mark_device
from simulator.engine.threads import admit, thread_event

LINK_CHANGE, CAP_CHANGE, SLOWNESS_CHANGE, POWER_CHANGE, INLET_CHANGE = range(5)


@compiled
def dispatch(s: State, entity: int, now: int) -> None:
    """Handle the event of one entity."""
    ranks = s.threads.size
    lanes = ranks * (1 + QUEUES)
    if entity < ranks:
        thread_event(s, entity, now)
    elif entity < lanes:
        lane = entity - ranks
        lane_event(s, lane // QUEUES, lane % QUEUES, now)
    elif entity < lanes + s.groups.size:
        group_event(s, entity - lanes, now)
    elif entity == lanes + s.groups.size:
        _change(s, entity, now)
    else:
        set_due(s.due, s.winners, entity, now + s.meta[TICK_NS])
        tick(s, now)


@compiled
def _change(s: State, entity: int, now: int) -> None:
    """A scheduled physical change takes place."""
    change = s.changes[s.meta[NEXT_CHANGE]]
    s.meta[NEXT_CHANGE] += 1
    after = s.meta[NEXT_CHANGE]
    set_due(s.due, s.winners, entity, s.changes[after].at if after < s.changes.size else int(NEVER))
    if change.what == CAP_CHANGE:
        cap_clock(s, change.index, int(change.value), now)
    elif change.what == SLOWNESS_CHANGE:
        settle(s, change.index, now)
        s.devices[change.index].slowness = change.value
        mark_device(s, change.index)
    elif change.what == POWER_CHANGE:
        s.devices[change.index].max_w = change.value  # the next tick acts on it, as on the air
    elif change.what == INLET_CHANGE:
        s.devices[change.index].inlet = change.value
    elif change.what == LINK_CHANGE:
        component = s.links[change.index].component
        if component >= 0:
            _settle_component(s, component, now)
            mark_component(s, component)
        s.links[change.index].capacity = change.value


@compiled
def _settle_component(s: State, index: int, now: int) -> None:
    """Charge all copies that use it under the old capacity."""
    component = s.components[index]
    for flow in s.active[component.first:component.first + component.count]:
        if s.flows[flow].group < 0:
            settle(s, s.flows[flow].device, now)


@compiled
def _full(s: State) -> int:
    """Which output has no room for all that one event can hand out; REACHED: none."""
    ranks = s.threads.size
    if s.meta[HOST_ROWS] + 4 > s.host_out.shape[1]:
        return HOST_FULL
    if s.meta[DEVICE_ROWS] + ranks + 1 > s.device_out.shape[1]:
        return DEVICE_FULL
    if max(s.meta[SLOT_ROWS] - s.slot_out.shape[0], s.meta[READING_ROWS] - s.reading_out.shape[0]) + ranks > 0:
        return SERIES_FULL
    return REACHED


@functools.cache
def core() -> Callable[[State, int], int]:
    """The loop, compiled on first use and cached on disk under a fingerprint of the sources it is made of.

    numba's own key covers only the file of the cached function, not what it calls.
    """
    digest = hashlib.sha256()
    for path in [Path(causes.__file__), *sorted(Path(__file__).parent.glob("*.py"))]:
        digest.update(path.read_bytes())
    fingerprint = int(digest.hexdigest()[:15], 16)

    def advance(s: State, until_ns: int) -> int:
        """Handle all events before ``until_ns``; stop after the instant at which a rank runs out of work."""
        if fingerprint < 0:
            return fingerprint
        admit(s)
        while True:
            entity = s.winners[1]
            at = s.due[entity]
            if at > s.meta[NOW] or at >= until_ns:
                flush(s, s.meta[NOW])
                entity = s.winners[1]
                at = s.due[entity]
                if at > s.meta[NOW] or at >= until_ns:
                    if s.meta[NEEDY] > 0:
                        s.meta[NEEDY] = 0
                        return NEED_PROGRAM
                    if at >= until_ns:
                        s.meta[NOW] = max(until_ns, s.meta[NOW])
                        return REACHED
            full = _full(s)
            if full != REACHED:
                return full
            s.meta[NOW] = at
            dispatch(s, entity, at)
            if s.meta[ERROR_CODE] != 0:
                return int(s.meta[ERROR_CODE])

    try:
        return cast(Callable[[State, int], int], numba.njit(cache=True, **OPTIONS)(advance))
    except RuntimeError:  # no folder to cache in can be written: compile for this process alone
        return cast(Callable[[State, int], int], numba.njit(**OPTIONS)(advance))
