"""Idle time of a window, charged by the next work."""

from __future__ import annotations

import numpy as np

from processors.windows.intervals import Ints, Union
from processors.windows.works import IDLE, NONE, Account, Sweep, Works


def charge_idle(result: Account, sweep: Sweep, works: Works, demand: Union, pending_ns: int | None, high: int) -> None:
    gaps = (sweep.top == IDLE) & (sweep.length > 0)
    start, stop = sweep.bounds[:-1][gaps], sweep.bounds[1:][gaps]
    submitted, awaited, err = _next_work(works.take(works.placed), stop)
    if pending_ns is not None:
        submitted = np.where((stop == high) & (submitted == NONE), pending_ns, submitted)
    queued = np.where(submitted == NONE, stop, np.clip(submitted, start, stop))
    cut = (queued > start) & (queued < stop)
    early = cut & (queued - start < 2 * err)
    late = cut & (stop - queued < 2 * err)
    wanted = demand.overlap(start, queued)
    ready = np.clip(awaited, queued, stop)
    states = result.states
    states["unresolved"] += int((queued - start)[early].sum() + (stop - queued)[late].sum())
    states["host"] += int(wanted[~early].sum())
    states["no_demand"] += int((queued - start - wanted)[~early].sum())
    states["dependency"] += int((ready - queued)[~late].sum())
    states["launch_overhead"] += int((stop - ready)[~late].sum())


def _next_work(placed: Works, at: Ints) -> tuple[Ints, Ints, Ints]:
    """Submission, awaited end and error bound of the work that starts exactly ``at`` each gap's end."""
    if not len(placed):
        none = np.full(len(at), NONE, np.int64)
        return none, none, np.zeros(len(at), np.int64)
    index = np.minimum(np.searchsorted(placed.start, at, side="left"), len(placed) - 1)
    found = placed.start[index] == at
    return (np.where(found, placed.submitted[index], NONE), np.where(found, placed.awaited[index], NONE),
            np.where(found, placed.err[index], 0))
