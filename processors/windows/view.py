"""The rows of a host as one window sees them: submissions joined to work, waits resolved, demand by device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from processors.windows.chunks import (
    ACTIVITY,
    BLOCKED,
    INPUT,
    NO_CODE,
    ON_HOST_CLOCK,
    OPEN_STEP,
    PAGEABLE,
    SUBMISSION,
    Chunk,
    Rows,
    concat,
)
from processors.windows.exchanges import Exchange
from processors.windows.idle import HostWork
from processors.windows.intervals import Bools, Ints, Union, union
from processors.windows.works import D2H, NONE, Works


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Rows by start, with the longest time a row stays relevant, to find those of a window without a scan."""

    rows: Rows
    reach: int

    def touching(self, start_ns: int, stop_ns: int) -> Rows:
        low, high = np.searchsorted(self.rows.start, [start_ns - self.reach, stop_ns])
        part = self.rows.take(slice(int(low), int(high)))
        needed = part.keep > start_ns
        return part if needed.all() else part.take(needed)


def _sorted(rows: Rows, chosen: Bools) -> _Sorted:
    index = np.flatnonzero(chosen)
    ordered = rows.take(index[np.argsort(rows.start[index], kind="stable")])
    return _Sorted(ordered, int((ordered.keep - ordered.start).max()) if len(ordered) else 0)


@dataclass(frozen=True, slots=True)
class HostRows:
    """All buffered rows of a host that start before a time, sorted once for all windows that close together."""

    work: _Sorted
    submissions: _Sorted
    steps: _Sorted
    activities: _Sorted

    def window(self, start_ns: int, stop_ns: int) -> WindowRows:
        """What touches ``[start_ns, stop_ns)`` and starts before its end."""
        work = self.work.touching(start_ns, stop_ns)
        submissions = self.submissions.touching(start_ns, stop_ns)
        return _join(work, submissions, self.steps.touching(start_ns, stop_ns),
                     self.activities.touching(start_ns, stop_ns), start_ns)

    def silent(self, start_ns: int, stop_ns: int) -> bool:
        """True where no row touches ``[start_ns, stop_ns)``."""
        return not any(len(part.touching(start_ns, stop_ns)) for part in (self.work, self.submissions, self.steps))

    def next_start(self, from_ns: int) -> int | None:
        """Start of the first row from ``from_ns`` on."""
        starts = [part.rows.start[part.rows.start >= from_ns] for part in (self.work, self.submissions, self.steps)]
        return min((int(start[0]) for start in starts if len(start)), default=None)


def host_rows(chunks: Sequence[Chunk], before_ns: int) -> HostRows:
    """The rows of ``chunks`` that start before ``before_ns``."""
    rows = concat([c.rows for c in chunks])
    early = rows.start < before_ns
    return HostRows(*(_sorted(rows, early & chosen) for chosen in
                      (rows.role <= D2H, rows.role == SUBMISSION, rows.role == OPEN_STEP, rows.role == ACTIVITY)))


@dataclass(frozen=True, slots=True)
class WindowRows:
    """Work of all devices with its submissions; ``waiting`` are placed submissions that ended in the window and whose
    work has not started in it."""

    work: Rows
    submitted: Ints
    awaited: Ints
    pair_err: Ints
    submissions: Rows
    waiting: Rows
    steps: Rows
    activities: Rows

    def works_of(self, device: int, exchange: Exchange | None) -> tuple[Works, Rows]:
        """The work of one device, for accounting and as rows."""
        mine = np.flatnonzero(self.work.device == device)
        rows = self.work.take(mine)
        works = Works(rows.start, rows.stop, rows.role, rows.bytes, rows.flops, rows.err >= 0, self.submitted[mine],
                      self.awaited[mine], self.pair_err[mine])
        if exchange is not None:
            works = replace(works, arrived=exchange.arrived[mine], ceiling=exchange.ceiling[mine],
                            shared=exchange.shared[mine])
        return works, rows

    def host_work(self, job: int | None, rank: int | None, run_wait: float, start_ns: int, stop_ns: int) -> HostWork:
        """What threads of a job and rank did, chosen as in ``demand``. ``run_wait``: share of the window in which they
        were ready and waited for a processor; they could while they were not blocked."""
        rows = self.activities
        chosen = _of(rows, job, rank)
        inputs, pageable, blocked = (union(rows.start[mine], rows.stop[mine]) for mine in
                                     (chosen & (rows.tag == tag) for tag in (INPUT, PAGEABLE, BLOCKED)))
        if run_wait:
            asleep = int(blocked.overlap(np.array([start_ns]), np.array([stop_ns]))[0]) / (stop_ns - start_ns)
            run_wait = min(run_wait / max(1.0 - asleep, run_wait), 1.0)
        return HostWork(inputs, pageable, run_wait)

    def pending(self, device: int, job: int, rank: int, *, alone: bool) -> int | None:
        """End of the earliest waiting submission for a device: by its name, else by job and rank, else (``alone``)
        because the host has no other."""
        waiting = self.waiting
        if not len(waiting):
            return None
        labelled = (waiting.rank == rank) & ((waiting.job == job) | (waiting.job == NO_CODE)) & (rank != NONE)
        mine = (waiting.device == device) | ((waiting.device == NO_CODE) & (labelled | alone))
        return int(waiting.stop[mine].min()) if mine.any() else None

    def demand(self, job: int | None, rank: int | None) -> Union:
        """When a step was open: with ``rank`` those of this rank (and job), else with ``job`` those of the job."""
        chosen = _of(self.steps, job, rank)
        return union(self.steps.start[chosen], self.steps.stop[chosen])


def _of(rows: Rows, job: int | None, rank: int | None) -> Bools:
    chosen = np.ones(len(rows), bool)
    if rank is not None:
        chosen &= rows.rank == rank
    if job is not None:
        chosen &= (rows.job == job) | (rows.job == NO_CODE)
    return chosen


def _join(work: Rows, submissions: Rows, steps: Rows, activities: Rows, start_ns: int) -> WindowRows:
    keys, submission_keys, wait_keys = _keys(work, submissions)
    usable = (submissions.err >= 0) & (submission_keys >= 0)
    used, used_keys = submissions.take(usable), submission_keys[usable]
    order = np.lexsort((used.stop, used_keys))
    ordered = used_keys[order]
    at = np.searchsorted(ordered, keys)
    inside = np.minimum(at, max(len(ordered) - 1, 0))
    found = (keys >= 0) & (at < len(ordered))
    if len(ordered):
        found &= ordered[inside] == keys
    row = order[inside] if len(ordered) else np.zeros(len(keys), np.int64)
    submitted = np.full(len(work), NONE, np.int64)
    submitted[found] = used.stop[row[found]]
    pair_err = _pair_bounds(work, used, row, found)
    started = _used_by_any(ordered, order, at[found])
    waiting = used.take(~started & (used.stop >= start_ns))
    return WindowRows(work, submitted, _awaited(work, keys, wait_keys), pair_err, submissions, waiting, steps,
                      activities)


def _pair_bounds(work: Rows, submissions: Rows, row: Ints, found: Bools) -> Ints:
    """Bound of each work's time against its submission ``row`` where one is ``found``.

    One map leads from the host's clock to fleet time, so its bound is no part of a difference within the host: against
    a submission on the host's clock what is left of the work's bound is that of its own clock's map. The host's map is
    as good then as the better of the submissions before and after it says.
    """
    bound = work.err.copy()
    bound[found] = np.maximum(bound[found], submissions.err[row[found]])
    own = np.flatnonzero(submissions.tag == ON_HOST_CLOCK)
    if not len(own) or not found.any():
        return bound
    pairs = np.flatnonzero(found)
    pairs = pairs[(submissions.tag[row[pairs]] == ON_HOST_CLOCK) & (work.err[pairs] >= 0)]
    order = own[np.argsort(submissions.start[own], kind="stable")]
    times, errors = submissions.start[order], submissions.err[order]
    after = np.searchsorted(times, work.start[pairs])
    shared = np.minimum(errors[np.maximum(after - 1, 0)], errors[np.minimum(after, len(order) - 1)])
    bound[pairs] = np.maximum(work.err[pairs] - shared, 0)
    return bound


def _used_by_any(ordered: Ints, order: Ints, at: Ints) -> Bools:
    """Which submissions share their key with one at ``at``, where each key's first stands in the sorted keys."""
    started = np.zeros(len(ordered), bool)
    if len(ordered):
        begins = np.concatenate(([True], ordered[1:] != ordered[:-1]))
        run = np.cumsum(begins) - 1
        hit = np.zeros(int(run[-1]) + 1, bool)
        hit[run[at]] = True
        started[order] = hit[run]
    return started


def _awaited(work: Rows, keys: Ints, wait_keys: tuple[Ints, Ints]) -> Ints:
    """End of the last work each row waited for, of those that touch the window."""
    result = np.full(len(work), NONE, np.int64)
    owner, wanted = wait_keys
    placed = (work.err >= 0) & (keys >= 0)
    if not len(owner) or not placed.any():
        return result
    order = np.lexsort((work.stop[placed], keys[placed]))
    ordered, stops = keys[placed][order], work.stop[placed][order]
    last = np.searchsorted(ordered, wanted, side="right") - 1
    found = (last >= 0) & (ordered[np.maximum(last, 0)] == wanted) & (wanted >= 0)
    np.maximum.at(result, owner[found], stops[last[found]])
    return result


def _keys(work: Rows, submissions: Rows) -> tuple[Ints, Ints, tuple[Ints, Ints]]:
    """(process, correlation id) of work, submissions and waits as one integer each, −1 where there is none; for waits
    with the row that waits."""
    count = work.wait_to - work.wait_from
    owner = np.repeat(np.arange(len(work)), count)
    within = np.arange(len(owner)) - np.repeat(np.cumsum(count) - count, count)
    waits = work.waits[np.repeat(work.wait_from, count) + within]
    ids = np.concatenate((work.correlation, submissions.correlation, waits))
    process = np.concatenate((work.process, submissions.process, work.process[owner]))
    known = ids != NONE
    codes = ids
    if len(ids) and (ids[known].min(initial=0) < 0 or ids.max(initial=0) >= 1 << 40):
        codes = np.unique(ids, return_inverse=True)[1]
    keys = np.where(known, ((process + 1) << 40) | codes, -1)
    first, second = len(work), len(work) + len(submissions)
    return keys[:first], keys[first:second], (owner, keys[second:])
