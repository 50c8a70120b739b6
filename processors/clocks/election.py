"""Who is the reference: whose REALTIME the others confirm, and who can be reached.

Readings of UTC are compared in fleet time. Those that lie within the tolerance of each other form a camp (Marzullo's
largest set of intervals that overlap); only members of the largest camp are elected, and of those the lowest id.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from processors.clocks.links import Key


def camp(offsets: Mapping[str, int], tolerance_ns: int) -> set[str]:
    """Hosts of the largest set of UTC offsets that lie within ``tolerance_ns`` of each other.

    Of equally large sets the one around the median is taken, then the earlier one.
    """
    order = sorted(offsets, key=lambda h: (offsets[h], h))
    if not order:
        return set()
    median = offsets[order[(len(order) - 1) // 2]]
    best: tuple[int, int, int] | None = None
    chosen: Sequence[str] = ()
    first = 0
    for last, name in enumerate(order):
        while offsets[name] - offsets[order[first]] > tolerance_ns:
            first += 1
        away = max(offsets[order[first]] - median, median - offsets[name], 0)
        rank = (-(last - first + 1), away, first)
        if best is None or rank < best:
            best, chosen = rank, order[first:last + 1]
    return set(chosen)


def has_majority(members: int, voters: int) -> bool:
    """True where a camp of ``members`` stands against fewer than half of ``voters``."""
    return members * 2 > voters


def parts(hosts: Iterable[str], links: Iterable[Key]) -> list[list[str]]:
    """Hosts that links connect, directly or over others; the largest part first, then by lowest id."""
    near: dict[str, list[str]] = {h: [] for h in hosts}
    for one, other in links:
        if one in near and other in near:
            near[one].append(other)
            near[other].append(one)
    found, seen = [], set[str]()
    for start in near:
        if start in seen:
            continue
        seen.add(start)
        part, queue = [start], [start]
        while queue:
            for other in near[queue.pop()]:
                if other not in seen:
                    seen.add(other)
                    part.append(other)
                    queue.append(other)
        found.append(sorted(part))
    return sorted(found, key=lambda p: (-len(p), p))
