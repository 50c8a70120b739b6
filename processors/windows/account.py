"""Where the time of one device in one window went: every nanosecond in exactly one of ``STATES``. Pure.

Precedence: kernel > exposed collective > exposed transfer > work of unknown place > idle.

- A moment with n works of the ruling class is shared by them in equal parts, so that overlapping kernels divide the
  time they cover and never count it twice.
- Kernel of duration d with t_r = work_r / peak_r: the share max(t_r) / d goes to the binding resource, the rest to
  ``latency``. Where a resource cannot be judged (work or peak not stated) the rest is ``kernel_unattributed``.
- Work without a bound on its time (``placed`` false) cannot be laid on the time axis: what its best guess covers, and
  no placed work does, is ``unknown``.
- An idle gap is charged by the next work: before the end of its submission ``host`` (``no_demand`` where the host had
  no step open), afterwards ``dependency`` until the awaited work ended, then ``launch_overhead``. Both ends of a gap
  are of the device's clock; the submission is of the host's, so a piece that it cuts off and that is shorter than
  twice the error bound is ``unresolved``.
- The gap at the end of a window has no next work yet: the earliest submission that still waits takes its place. Rows
  that start after the window are never used, so that the result does not depend on what else has arrived.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import numpy as np

from fleetscope.contracts.derived import STATE_NAMES
from processors.windows.intervals import Bools, Floats, Ints, Union, apportion, union

KERNEL: Final = 0
COLLECTIVE: Final = 1
H2D: Final = 2
D2H: Final = 3
NONE: Final = np.iinfo(np.int64).min
"""No such time."""
INT64_MAX: Final = np.iinfo(np.int64).max

_IDLE: Final = 4
_UNPLACED: Final = 3


@dataclass(frozen=True, slots=True)
class Peaks:
    """What the device can reach; None where the inventory does not say."""

    flops_per_s: float | None = None
    memory_bytes_per_s: float | None = None
    bus_bytes_per_s: float | None = None
    h2d_bytes_per_s: float | None = None
    d2h_bytes_per_s: float | None = None


@dataclass(frozen=True, slots=True)
class Works:
    """Device work that touches a window, one entry a span, in any order.

    ``start``, ``stop`` ns, half open, ``start`` before the window's end; ``kind`` KERNEL, COLLECTIVE, H2D or D2H;
    ``bytes`` and ``flops`` −1 where unknown; ``placed`` false where the span has no error bound; ``submitted`` end of
    its submission and ``awaited`` end of the last work it waited for, ``NONE`` where there is none; ``err`` bound of
    the difference between the span and its submission, ns.
    """

    start: Ints
    stop: Ints
    kind: Ints
    bytes: Ints
    flops: Ints
    placed: Bools
    submitted: Ints
    awaited: Ints
    err: Ints

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: Ints | Bools) -> Works:
        """The works of an index or mask; these works themselves where a mask takes them all."""
        if index.dtype == np.bool_ and index.all():
            return self
        chosen = np.flatnonzero(index) if index.dtype == np.bool_ else index
        return Works(*(getattr(self, name).take(chosen) for name in Works.__dataclass_fields__))


@dataclass(slots=True)
class Account:
    """``states`` holds ns by name and adds up to the window; quantities are None where no work states them."""

    states: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STATE_NAMES, 0))
    kernels: int = 0
    transfers: int = 0
    flops: int | None = None
    memory_bytes: int | None = None
    h2d_bytes: int | None = None
    d2h_bytes: int | None = None
    counter_errors: int = 0
    """Works whose stated work would have taken longer than they did."""


@dataclass(frozen=True, slots=True)
class _Sweep:
    """Elementary pieces between neighbouring boundaries: ``active`` counts by class, ``top`` the ruling class."""

    bounds: Ints
    length: Ints
    active: list[Ints]
    top: Ints
    place: Ints

    def share(self, of: int) -> Floats:
        """ns of class ``of`` that fall to each work, moments shared in equal parts."""
        each = np.where(self.top == of, self.length / np.maximum(self.active[of], 1), 0.0)
        summed = np.concatenate(([0.0], np.cumsum(each)))
        half = (len(self.place) - 2) // 2
        return np.asarray(summed[self.place[half:2 * half]] - summed[self.place[:half]])

    def total(self, of: int) -> int:
        return int(self.length[self.top == of].sum())


def account(start_ns: int, stop_ns: int, works: Works, demand: Union, pending_ns: int | None, peaks: Peaks,
            known: tuple[int, int] | None = None) -> Account:
    """Account for ``[start_ns, stop_ns)``.

    ``demand``: when the host had a step open for this device; ``pending_ns``: end of the earliest submission in the
    window whose work has not started before its end; ``known``: part of the window that was observed, all else is
    ``unknown``.
    """
    low, high = (start_ns, stop_ns) if known is None else (max(start_ns, known[0]), min(stop_ns, known[1]))
    result = Account()
    if high > low:
        works = _canonical(works)
        touching = works.take((works.stop > low) & (works.start < high) & (works.stop > works.start))
        sweep = _sweep(low, high, touching)
        _kernels(result, sweep, touching, peaks)
        _collectives(result, sweep, touching, peaks)
        _transfers(result, sweep, touching, peaks)
        _idle(result, sweep, touching, demand, pending_ns, high)
        result.states["unknown"] += sweep.total(_UNPLACED)
    result.states["unknown"] += (stop_ns - start_ns) - max(high - low, 0)
    _quantities(result, works, start_ns, stop_ns)
    return result


def _canonical(works: Works) -> Works:
    """Sorted by start; among equal starts the earliest submission leads and the order is total, so that neither the
    order of arrival nor a float sum over it shows in the result."""
    if (works.start[1:] > works.start[:-1]).all():
        return works
    order = np.argsort(works.start, kind="stable")
    start = works.start[order]
    if (start[1:] == start[:-1]).any():
        submitted = np.where(works.submitted == NONE, INT64_MAX, works.submitted)
        order = np.lexsort((works.err, works.flops, works.bytes, works.kind, works.stop, -works.awaited, submitted,
                            works.start))
    return works.take(order)


def _sweep(low: int, high: int, works: Works) -> _Sweep:
    count = len(works)
    bounds = np.concatenate((np.maximum(works.start, low), np.minimum(works.stop, high),
                             np.array([low, high], np.int64)))
    order = np.argsort(bounds, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    group = np.where(works.placed, np.minimum(works.kind, H2D), _UNPLACED)
    active = []
    for of in range(_IDLE):
        delta = np.zeros(len(bounds), np.int64)
        delta[:count] = group == of
        delta[count:2 * count] = -delta[:count]
        active.append(np.cumsum(delta[order])[:-1])
    top = np.full(len(bounds) - 1, _IDLE, np.int64)
    for of in reversed(range(_IDLE)):
        top[active[of] > 0] = of
    ordered = bounds[order]
    return _Sweep(ordered, np.diff(ordered), active, top, place)


def _utilisation(work: Ints, peak: float | None, duration: Ints) -> tuple[Floats, Bools]:
    """Time at peak over duration, 0 where not known, and where it is known."""
    if peak is None or peak <= 0:
        return np.zeros(len(work)), np.zeros(len(work), bool)
    known = work >= 0
    return np.where(known, work * (1e9 / peak) / np.maximum(duration, 1), 0.0), known


def _kernels(result: Account, sweep: _Sweep, works: Works, peaks: Peaks) -> None:
    chosen = works.placed & (works.kind == KERNEL)
    time = sweep.share(KERNEL)[chosen]
    duration = works.stop[chosen] - works.start[chosen]
    compute, has_flops = _utilisation(works.flops[chosen], peaks.flops_per_s, duration)
    memory, has_bytes = _utilisation(works.bytes[chosen], peaks.memory_bytes_per_s, duration)
    bound = np.maximum(compute, memory)
    result.counter_errors += int((bound > 1.0).sum())
    used = time * np.minimum(bound, 1.0)
    rest = time - used
    judged = has_flops & has_bytes
    parts = np.array([used[compute >= memory].sum(), used[compute < memory].sum(), rest[judged].sum(),
                      rest[~judged].sum()])
    _charge(result, sweep.total(KERNEL), parts, ("compute", "memory_bandwidth", "latency", "kernel_unattributed"))


def _collectives(result: Account, sweep: _Sweep, works: Works, peaks: Peaks) -> None:
    chosen = works.placed & (works.kind == COLLECTIVE)
    time = sweep.share(COLLECTIVE)[chosen]
    bound, _ = _utilisation(works.bytes[chosen], peaks.bus_bytes_per_s, (works.stop - works.start)[chosen])
    result.counter_errors += int((bound > 1.0).sum())
    used = time * np.minimum(bound, 1.0)
    _charge(result, sweep.total(COLLECTIVE), np.array([used.sum(), (time - used).sum()]),
            ("collective_network", "collective_wait"))


def _transfers(result: Account, sweep: _Sweep, works: Works, peaks: Peaks) -> None:
    """Time at the link's ceiling by direction; without a ceiling or a size all of it goes to the direction."""
    time = sweep.share(H2D)
    used = []
    for kind, peak in ((H2D, peaks.h2d_bytes_per_s), (D2H, peaks.d2h_bytes_per_s)):
        chosen = works.placed & (works.kind == kind)
        bound, known = _utilisation(works.bytes[chosen], peak, (works.stop - works.start)[chosen])
        result.counter_errors += int((bound > 1.0).sum())
        used.append(float((time[chosen] * np.where(known, np.minimum(bound, 1.0), 1.0)).sum()))
    all_of = float(time[works.placed & (works.kind >= H2D)].sum())
    _charge(result, sweep.total(H2D), np.array([*used, max(all_of - sum(used), 0.0)]),
            ("pcie_h2d", "pcie_d2h", "pcie_small"))


def _charge(result: Account, total: int, parts: Floats, names: tuple[str, ...]) -> None:
    for name, value in zip(names, apportion(total, parts), strict=True):
        result.states[name] += value


def _idle(result: Account, sweep: _Sweep, works: Works, demand: Union, pending_ns: int | None, high: int) -> None:
    gaps = (sweep.top == _IDLE) & (sweep.length > 0)
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


def _quantities(result: Account, works: Works, start_ns: int, stop_ns: int) -> None:
    began = (works.start >= start_ns) & (works.start < stop_ns)
    kernel = works.kind == KERNEL
    result.kernels = int((began & kernel).sum())
    result.transfers = int((began & (works.kind >= H2D)).sum())
    result.flops = _inside(works, kernel, works.flops, start_ns, stop_ns)
    result.memory_bytes = _inside(works, kernel, works.bytes, start_ns, stop_ns)
    result.h2d_bytes = _inside(works, works.kind == H2D, works.bytes, start_ns, stop_ns)
    result.d2h_bytes = _inside(works, works.kind == D2H, works.bytes, start_ns, stop_ns)


def _inside(works: Works, chosen: Bools, amount: Ints, start_ns: int, stop_ns: int) -> int | None:
    """Amounts by share of time inside; pieces of one work in neighbouring windows add up to it exactly."""
    known = chosen & (amount >= 0)
    if not known.any():
        return None
    whole = known & (works.start >= start_ns) & (works.stop <= stop_ns) & (works.start < stop_ns)
    total = int(amount[whole].sum(dtype=np.float64)) if amount.max() > 1 << 48 else int(amount[whole].sum())
    # Python integers: amount times nanoseconds passes int64
    for index in np.flatnonzero(known & ~whole):
        start, stop, value = int(works.start[index]), int(works.stop[index]), int(amount[index])
        if stop > start:
            length = stop - start
            total += (value * (min(max(stop_ns, start), stop) - start)) // length
            total -= (value * (min(max(start_ns, start), stop) - start)) // length
    return min(total, INT64_MAX)


__all__ = ["COLLECTIVE", "D2H", "H2D", "KERNEL", "NONE", "Account", "Peaks", "Works", "account", "union"]
