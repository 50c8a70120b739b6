"""Idle time of a window, charged by the next work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from processors.windows.intervals import Ints, Union, apportion, overlap_of, union
from processors.windows.works import IDLE, NONE, Account, Sweep, Works

HOST_STATES: Final = ("host_contention", "host_input", "host_pageable", "host")


@dataclass(frozen=True, slots=True)
class HostWork:
    """What the threads that feed a device did: when they prepared ``inputs`` and staged ``pageable`` memory, and the
    share of their time in which they were ready and waited for a processor (0..1)."""

    inputs: Union
    pageable: Union
    waiting: float = 0.0

    def demand(self, steps: Union) -> Union:
        """When work was asked for: open steps, and the preparation of the next one."""
        if not len(self.inputs.start) and not len(self.pageable.start):
            return steps
        return union(np.concatenate((steps.start, self.inputs.start, self.pageable.start)),
                     np.concatenate((steps.stop, self.inputs.stop, self.pageable.stop)))


def charge_idle(result: Account, sweep: Sweep, works: Works, demand: Union, pending_ns: int | None, high: int,
                host: HostWork | None = None) -> None:
    """Charge gaps: before the submission of the next work to the host, or to nobody; afterwards to what it waited for.

    ``host`` tells the host's part apart; None: all of it is ``host``.
    """
    gaps = (sweep.top == IDLE) & (sweep.length > 0)
    start, stop = sweep.bounds[:-1][gaps], sweep.bounds[1:][gaps]
    submitted, awaited, err = _next_work(works.take(works.placed), stop)
    if pending_ns is not None:
        submitted = np.where((stop == high) & (submitted == NONE), pending_ns, submitted)
    queued = np.where(submitted == NONE, stop, np.clip(submitted, start, stop))
    open_from, open_to = _open_part(start, stop, submitted, queued, err)
    before, after = np.minimum(queued, open_from), np.maximum(queued, open_to)
    asked = demand if host is None else host.demand(demand)
    wanted = asked.overlap(start, before)
    ready = np.clip(awaited, after, stop)
    states = result.states
    states["unresolved"] += int((open_to - open_from).sum())
    _charge_host(result, int(wanted.sum()), start, before, host)
    states["no_demand"] += int((before - start - wanted).sum())
    states["dependency"] += int((ready - after).sum())
    states["launch_overhead"] += int((stop - ready).sum())


def _open_part(start: Ints, stop: Ints, submitted: Ints, queued: Ints, err: Ints) -> tuple[Ints, Ints]:
    """``[from, to)`` of each gap that nobody can tell: where a submission is nearer to an end of the gap than its
    bound, it may lie on the other side of it. Elsewhere the parts are as long as they seem, give or take what
    evens out over many gaps. Empty, at ``queued``, where nothing is open."""
    known = submitted != NONE
    at = np.where(known, submitted, queued)
    near_start, near_stop = known & (np.abs(at - start) < err), known & (np.abs(at - stop) < err)
    low = np.where(near_start, start, np.where(near_stop, np.maximum(at - err, start), queued))
    high = np.where(near_stop, stop, np.where(near_start, np.minimum(at + err, stop), queued))
    return low, high


def _charge_host(result: Account, total: int, start: Ints, stop: Ints, host: HostWork | None) -> None:
    """Split the host's time: waiting for a processor slows whatever it did, the rest by what it did."""
    if host is None or not total:
        result.states["host"] += total
        return
    inputs = int(host.inputs.overlap(start, stop).sum())
    both = int(overlap_of(host.inputs, host.pageable).overlap(start, stop).sum())
    pageable = int(host.pageable.overlap(start, stop).sum()) - both
    ran = 1.0 - host.waiting
    parts = np.array([total * host.waiting, inputs * ran, pageable * ran,
                      max(total - inputs - pageable, 0) * ran])
    for name, value in zip(HOST_STATES, apportion(total, parts), strict=True):
        result.states[name] += value


def _next_work(placed: Works, at: Ints) -> tuple[Ints, Ints, Ints]:
    """Submission, awaited end and error bound of the work that starts exactly ``at`` each gap's end."""
    if not len(placed):
        none = np.full(len(at), NONE, np.int64)
        return none, none, np.zeros(len(at), np.int64)
    index = np.minimum(np.searchsorted(placed.start, at, side="left"), len(placed) - 1)
    found = placed.start[index] == at
    return (np.where(found, placed.submitted[index], NONE), np.where(found, placed.awaited[index], NONE),
            np.where(found, placed.err[index], 0))
