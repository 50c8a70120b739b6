"""What accounting works on: the device work that touches a window, and the pieces it cuts the window into. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

import numpy as np

from fleetscope.contracts.derived import STATE_NAMES
from processors.windows.intervals import Bools, Floats, Ints, apportion

KERNEL: Final = 0
COLLECTIVE: Final = 1
H2D: Final = 2
D2H: Final = 3
NONE: Final = np.iinfo(np.int64).min
"""No such time."""
INT64_MAX: Final = np.iinfo(np.int64).max

IDLE: Final = 4
UNPLACED: Final = 3


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

    What the rows of the whole host say more, None where it was not looked at: ``arrived``, when the last member of a
    collective came (``NONE``: not known); ``ceiling``, ns that the bytes of a collective or transfer take on its path
    with nobody else on it (NaN: by the peaks); ``shared``, ns that a transfer lost to others on its path; ``peak``,
    flop/s of the engine that ran a kernel (NaN: by the peaks).
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
    arrived: Ints | None = None
    ceiling: Floats | None = None
    shared: Floats | None = None
    peak: Floats | None = None

    def __len__(self) -> int:
        return len(self.start)

    def take(self, index: Ints | Bools) -> Works:
        """The works of an index or mask; these works themselves where a mask takes them all."""
        if index.dtype == np.bool_ and index.all():
            return self
        chosen = np.flatnonzero(index) if index.dtype == np.bool_ else index
        columns: dict[str, Any] = {name: getattr(self, name) for name in Works.__dataclass_fields__}
        taken: dict[str, Any] = {name: None if c is None else c.take(chosen) for name, c in columns.items()}
        return Works(**taken)

    def split_at_arrival(self) -> Works:
        """Collectives whose last arrival is known as two works, one that waits and one that moves."""
        if self.arrived is None or not (self.arrived != NONE).any():
            return self
        known = self.arrived != NONE
        at = np.where(known, np.clip(self.arrived, self.start, self.stop), self.start)
        cut = known & (at > self.start) & (at < self.stop)
        first, second = np.flatnonzero(cut), np.arange(len(self))
        both = self.take(np.concatenate((second, first)))
        count = len(self)
        start, stop = both.start.copy(), both.stop.copy()
        start[:count][cut] = at[cut]
        stop[count:] = at[first]
        ceiling = np.full(len(both), np.nan) if both.ceiling is None else both.ceiling.copy()
        ceiling[:count][known] = np.where(at >= self.stop, 0.0, np.inf)[known]
        ceiling[count:] = 0.0
        return replace(both, start=start, stop=stop, ceiling=ceiling)


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
class Sweep:
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


def canonical(works: Works) -> Works:
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


def sweep_of(low: int, high: int, works: Works) -> Sweep:
    count = len(works)
    bounds = np.concatenate((np.maximum(works.start, low), np.minimum(works.stop, high),
                             np.array([low, high], np.int64)))
    order = np.argsort(bounds, kind="stable")
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    group = np.where(works.placed, np.minimum(works.kind, H2D), UNPLACED)
    active = []
    for of in range(IDLE):
        delta = np.zeros(len(bounds), np.int64)
        delta[:count] = group == of
        delta[count:2 * count] = -delta[:count]
        active.append(np.cumsum(delta[order])[:-1])
    top = np.full(len(bounds) - 1, IDLE, np.int64)
    for of in reversed(range(IDLE)):
        top[active[of] > 0] = of
    ordered = bounds[order]
    return Sweep(ordered, np.diff(ordered), active, top, place)


def utilisation(work: Ints, peak: float | None, duration: Ints) -> tuple[Floats, Bools]:
    """Time at peak over duration, 0 where not known, and where it is known."""
    if peak is None or peak <= 0:
        return np.zeros(len(work)), np.zeros(len(work), bool)
    known = work >= 0
    return np.where(known, work * (1e9 / peak) / np.maximum(duration, 1), 0.0), known


def charge(result: Account, total: int, parts: Floats, names: tuple[str, ...]) -> None:
    for name, value in zip(names, apportion(total, parts), strict=True):
        result.states[name] += value
