"""What the rows of a whole host say of each collective and transfer: who came last, what its path carries, who shared.

- A collective moves from when its last member is there. Where all members are of this host (``communicator_size``) that
  is seen exactly. Otherwise the fastest of the same communicator and size in the window shows what moving takes: its
  last member waited for nobody. NCCL's tests define the same busy time.
- A transfer of s bytes alone on its path takes α + s/β (Hockney's model). β is the ceiling of the negotiated link
  unless transfers without company show that their path gives less: another link of it, the other node's memory, a host
  that takes writes slowly, a link that sends again. What is longer than α + s/β while other devices of the host
  transfer in the same direction was lost to them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from processors.windows.chunks import NUMBER_BITS, SIZE_BITS, SIZE_MASK, Rows
from processors.windows.intervals import Bools, Floats, Ints, union
from processors.windows.works import COLLECTIVE, D2H, H2D, NONE, Peaks

SETUP_NS: Final = 10_000.0
"""Set-up and latency of a transfer are below it on PCIe: descriptor, doorbell, a round trip and a completion; measured
small copies take 2 to 10 µs. A transfer says something of its path's rate only if its bytes take longer."""
LONG_SETUP_NS: Final = 5 * SETUP_NS
INTERRUPTED: Final = 5.0
"""What a transfer takes beyond so many usual set-ups, and beyond any plausible one, is no set-up."""
USUAL_SETUP_NS: Final = 3_000.0
"""Taken for α where all transfers are of one size, so that nothing tells it apart."""
ALONE: Final = 0.05
"""A transfer with company for less of its time counts as alone."""
LATENCY_NS: Final = 100_000.0
SLOWEST_BYTES_PER_NS: Final = 1.25
"""No network between hosts that collectives use is slower: 100 µs and 10 Gbit/s. What is longer waited, even if every
collective of the window did."""
LEAST_OF_BUS: Final = 0.7
"""Large collectives reach at least so much of the stated bandwidth; what is longer waited."""
MANY: Final = 8
"""From so many on the fastest but one is taken: one may be a clock's or a counter's mistake."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """An entry a row; see ``Works``."""

    arrived: Ints
    ceiling: Floats
    shared: Floats


def exchanges(work: Rows, peaks: Mapping[int, Peaks], paths: Mapping[int, frozenset[str]]) -> Exchange | None:
    """For the work of a host in a window; ``peaks`` by code of the device, and ``paths``, the links and switches
    between it and the processor (empty: not known, then it may share any). None where nothing was exchanged."""
    placed = work.err >= 0
    collectives = np.flatnonzero(placed & (work.role == COLLECTIVE))
    transfers = {role: np.flatnonzero(placed & (work.role == role) & (work.bytes > 0)) for role in (H2D, D2H)}
    if not len(collectives) and not any(len(found) for found in transfers.values()):
        return None
    found = Exchange(np.full(len(work), NONE, np.int64), np.full(len(work), np.nan), np.zeros(len(work)))
    if len(collectives):
        _collectives(found, work, collectives, peaks)
    for role, rows in transfers.items():
        if len(rows):
            _transfers(found, work, rows, peaks, paths, role)
    return found


def _collectives(found: Exchange, work: Rows, rows: Ints, peaks: Mapping[int, Peaks]) -> None:
    tag, start, duration = work.tag[rows], work.start[rows], (work.stop - work.start)[rows]
    _, group, members = np.unique(tag, return_inverse=True, return_counts=True)
    last = np.full(len(members), NONE, np.int64)
    np.maximum.at(last, group, start)
    complete = (tag != NONE) & (members[group] == (tag & SIZE_MASK))  # a size of 0 is never reached
    found.arrived[rows[complete]] = last[group][complete]
    open_ = ~complete & (work.bytes[rows] >= 0)
    if not open_.any():
        return
    # by device's communicator (what is left of the tag without its number) and size
    communicator = np.where(tag == NONE, -1, tag >> (SIZE_BITS + NUMBER_BITS))
    _, key = np.unique(np.stack((communicator[open_], work.bytes[rows][open_])), axis=1, return_inverse=True)
    length = duration[open_].astype(np.float64)
    moving = _fastest(length, np.asarray(key).reshape(-1))
    moving = np.minimum(moving, LATENCY_NS + work.bytes[rows[open_]] / SLOWEST_BYTES_PER_NS)
    for code in np.unique(work.device[rows[open_]]).tolist():
        bus = peaks.get(code, Peaks()).bus_bytes_per_s
        if bus:
            mine = work.device[rows[open_]] == code
            stated = work.bytes[rows[open_]][mine] * (1e9 / bus)
            moving[mine] = np.clip(moving[mine], stated, stated / LEAST_OF_BUS)
    found.ceiling[rows[open_]] = moving


def _fastest(length: Floats, key: Ints) -> Floats:
    """For each entry the shortest of its key (0 … n − 1, each in use), of many the second shortest."""
    order = np.lexsort((length, key))
    ordered = key[order]
    first = np.flatnonzero(np.concatenate(([True], ordered[1:] != ordered[:-1])))
    counts = np.diff(np.append(first, len(ordered)))
    chosen = length[order][first + np.where(counts >= MANY, 1, 0)]
    return np.asarray(chosen[key])


def _transfers(found: Exchange, work: Rows, rows: Ints, peaks: Mapping[int, Peaks],
               paths: Mapping[int, frozenset[str]], role: int) -> None:
    """One direction of all devices."""
    device, start, stop = work.device[rows], work.start[rows], work.stop[rows]
    duration, size = (stop - start).astype(np.float64), work.bytes[rows].astype(np.float64)
    company = np.zeros(len(rows))
    codes = np.unique(device).tolist()
    for code in codes:
        near = [other for other in codes if other != code and _share(paths.get(code), paths.get(other))]
        if near:
            mine, others = device == code, np.isin(device, near)
            company[mine] = union(start[others], stop[others]).overlap(start[mine], stop[mine])
    for code in codes:
        mine = np.flatnonzero(device == code)
        known = peaks.get(code, Peaks())
        rate = known.h2d_bytes_per_s if role == H2D else known.d2h_bytes_per_s
        if not rate:
            continue
        alone = company[mine] <= ALONE * duration[mine]
        setup, rate = _path(size[mine], duration[mine], alone, rate / 1e9)
        needed = size[mine] / rate
        # alone and far beyond any set-up: the path itself gave nothing for a while
        beyond = duration[mine] - needed - np.maximum(INTERRUPTED * setup, LONG_SETUP_NS)
        needed = needed + np.where(alone, np.maximum(beyond, 0.0), 0.0)
        found.ceiling[rows[mine]] = needed
        found.shared[rows[mine]] = np.clip(duration[mine] - needed - setup, 0.0, np.where(alone, 0.0, company[mine]))


def _share(one: frozenset[str] | None, other: frozenset[str] | None) -> bool:
    return not one or not other or bool(one & other)


def _path(size: Floats, duration: Floats, alone: Bools, rate: float) -> tuple[float, float]:
    """(α ns, β bytes/ns) of a device's path in one direction, β at most ``rate``.

    The link's own rate stands where the quickest transfers' time beyond it is a plausible set-up. A slower path shows
    in large transfers without company: by the slope between smaller and larger ones, else by their median rate.
    """
    setup = float(np.quantile(duration - size / rate, 0.25 if alone.all() else 0.05))
    large = alone & (size / rate >= SETUP_NS)
    if setup <= SETUP_NS or not large.any():
        return max(setup, 0.0), rate
    size, duration = size[large], duration[large]
    middle = float(np.median(size))
    low, high = size <= middle, size >= middle
    s0, s1 = float(np.median(size[low])), float(np.median(size[high]))
    d0, d1 = float(np.median(duration[low])), float(np.median(duration[high]))
    if s1 >= 1.5 * s0 and d1 > d0:
        found = min((s1 - s0) / (d1 - d0), rate)
        return float(np.clip(d0 - s0 / found, 0.0, LONG_SETUP_NS)), found
    return USUAL_SETUP_NS, min(float(np.median(size / np.maximum(duration - USUAL_SETUP_NS, 1.0))), rate)
