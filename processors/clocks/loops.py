"""Offsets of clocks that are compared with each other all round: bounds over every path, estimate, contradictions.

Given are intervals lo ≤ p_b − p_a ≤ hi (ns) of links, and p = 0 of a root. What they allow together is the shortest
path in both directions: p_h ≤ d(root, h) with arcs a → b of length hi and b → a of length −lo, and the mirror for the
lower bound. Where going round a loop costs less than nothing no clocks fit the links: some link lies.

The estimate is weighted least squares of the middles (weight 1 / width²), without the links that it shows to be off by
more than half their half-width, clamped into the bounds.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NONE: Final = -1
"""Stands for no link, as the one that lies."""
FAR: Final = 1 << 60
"""Distance of what is not reached."""
DOUBT_SHARE: Final = 0.5
"""Residual in half-widths from which the estimate goes without a link."""
MAX_DOUBTS: Final = 8
MAX_BLAMED: Final = 12
"""Links of a loop that are tried as the one that lies."""
ABSOLUTE_ROUNDS: Final = 12


@dataclass(frozen=True, slots=True)
class Links:
    """Links between ``count`` clocks (int64 columns); clock ``root`` is 0."""

    count: int
    root: int
    a: Ints
    b: Ints
    lo: Ints
    hi: Ints

    def without(self, dropped: Collection[int]) -> Bools:
        """Mask of the links that are not ``dropped``."""
        used = np.ones(len(self.a), np.bool_)
        used[[e for e in dropped if e != NONE]] = False
        return used


@dataclass(frozen=True, slots=True)
class Bounds:
    """``low`` and ``high`` of each clock; both FAR away where it is not reached. ``via``: the link that sets high."""

    low: Ints
    high: Ints
    via: Ints

    @property
    def reached(self) -> Bools:
        """Which clocks have bounds."""
        return (self.high < FAR) & (self.low > -FAR)


@dataclass(frozen=True, slots=True)
class Solution:
    """Bounds and estimate (ns). ``lying`` links were left out; of ``suspects`` one lies and it is not known which:
    the bounds then hold whichever it is."""

    bounds: Bounds
    value: Ints
    lying: frozenset[int]
    suspects: frozenset[int]


def solve(links: Links, suspects: Collection[int] = (), *, elsewhere: bool = False) -> Solution:
    """Bounds over all paths and the estimate; ``suspects`` are links of which one lies, as known from before, or
    (``elsewhere``) one that is not among these links."""
    lying: set[int] = set()
    hypotheses = sorted({*suspects, NONE}) if elsewhere and suspects else sorted(suspects)
    found = _hull(links, lying, hypotheses) if hypotheses else bounds(links, links.without(lying))
    while isinstance(found, list) or found is None:
        loop = found if isinstance(found, list) else _contradiction(links, lying)
        hypotheses = _blamed(links, lying, loop)
        if not hypotheses:
            lying.add(_worst(links, lying, loop))
            found = bounds(links, links.without(lying))
        else:
            found = _hull(links, lying, hypotheses)
    if len(hypotheses) > 1:
        hypotheses = [e for e in hypotheses if not isinstance(bounds(links, links.without({*lying, e})), list)]
    if len(hypotheses) == 1:
        lying.update(hypotheses)
        hypotheses = []
    hypotheses = [e for e in hypotheses if e != NONE]
    lying.discard(NONE)
    left_out = {*lying, _worst(links, lying, hypotheses)} if hypotheses else lying
    return Solution(found, estimate(links, left_out, found), frozenset(lying), frozenset(hypotheses))


def bounds(links: Links, used: Bools) -> Bounds | list[int]:
    """Bounds over all paths of the ``used`` links, or a loop (of link numbers) that contradicts itself."""
    high, via, bad = shortest(links.count, links.root, links.a, links.b, links.lo, links.hi, used)
    if bad >= 0:
        return _loop(links, via, bad)
    low, _, bad = shortest(links.count, links.root, links.b, links.a, links.lo, links.hi, used)
    assert bad < 0, "the mirrored graph has the same loops"
    return Bounds(-low, high, via)


def _loop(links: Links, via: Ints, start: int) -> list[int]:
    """The links of the loop that the predecessors of ``start`` run into."""
    at, seen = start, set()
    while at not in seen:
        seen.add(at)
        at = _before(links, via, at)
    first, loop = at, []
    while True:
        loop.append(int(via[at]))
        at = _before(links, via, at)
        if at == first:
            return loop


def _before(links: Links, via: Ints, at: int) -> int:
    link = int(via[at])
    return int(links.a[link]) if int(links.b[link]) == at else int(links.b[link])


def _contradiction(links: Links, lying: Collection[int]) -> list[int]:
    found = bounds(links, links.without(lying))
    assert isinstance(found, list)
    return found


def _blamed(links: Links, lying: Collection[int], loop: list[int]) -> list[int]:
    """The links of the loop without which nothing contradicts itself: each alone may be the one that lies."""
    tried = sorted(loop)
    if len(tried) > MAX_BLAMED:
        off = _residuals(links, lying)
        tried = sorted(sorted(tried, key=lambda e: (-off[e], e))[:MAX_BLAMED])
    return [e for e in tried if not isinstance(bounds(links, links.without({*lying, e})), list)]


def _hull(links: Links, lying: Collection[int], hypotheses: list[int]) -> Bounds | None:
    """What holds whichever of the hypotheses lies; None where none explains the links any more."""
    low = high = via = None
    for e in hypotheses:
        one = bounds(links, links.without({*lying, e}))
        if isinstance(one, list):
            continue
        if low is None or high is None:
            low, high, via = one.low, one.high, one.via
        else:
            low, high = np.minimum(low, one.low), np.maximum(high, one.high)
    if low is None or high is None or via is None:
        rest = bounds(links, links.without(lying))
        return rest if isinstance(rest, Bounds) else None
    return Bounds(low, high, via)


def _worst(links: Links, lying: Collection[int], among: Collection[int]) -> int:
    """Of the links ``among`` the one that a fit of least absolute residuals leaves furthest off, in half-widths."""
    off = _residuals(links, lying)
    return min(among, key=lambda e: (-off[e], e))


def _residuals(links: Links, lying: Collection[int]) -> Floats:
    """(links,) in half-widths, of a fit of least absolute residuals (within its bounds a link pulls by squares): so
    few links are off by much, whatever their widths."""
    middle, half = _middles(links)
    used = links.without(lying)
    weight, fit = np.where(used, 1 / half, 0.0), np.zeros(links.count)
    for _ in range(ABSOLUTE_ROUNDS):
        fit = least_squares(links.count, links.root, links.a, links.b, middle, weight, fit)
        off: Floats = np.abs(fit[links.b] - fit[links.a] - middle)
        weight = np.where(used, 1 / np.maximum(off, half), 0.0)
    return off / half


def _middles(links: Links) -> tuple[Floats, Floats]:
    return (links.lo + links.hi) / 2, np.maximum((links.hi - links.lo) / 2, 1.0)


def estimate(links: Links, left_out: Collection[int], limits: Bounds) -> Ints:
    """(count,) ns: least squares without the links left out and those in doubt, clamped; 0 where not reached."""
    middle, half = _middles(links)
    used = links.without(left_out)
    reached = limits.reached
    used &= reached[links.a] & reached[links.b]
    fit = np.where(reached, (limits.low + limits.high) / 2, 0.0)
    fit[links.root] = 0.0
    for _ in range(MAX_DOUBTS + 1):
        fit = least_squares(links.count, links.root, links.a, links.b, middle, np.where(used, 1 / half**2, 0.0), fit)
        off = np.where(used, np.abs(fit[links.b] - fit[links.a] - middle) / half, 0.0)
        if not len(off) or off.max() <= DOUBT_SHARE:
            break
        used[int(off.argmax())] = False
    value = np.clip(np.rint(fit).astype(np.int64), limits.low, limits.high)
    return np.where(reached, value, 0)


@numba.njit(cache=True)
def shortest(count: int, root: int, a: Ints, b: Ints, lo: Ints, hi: Ints, used: Bools) -> tuple[Ints, Ints, int]:
    """Distances from ``root``, the last link of each shortest path (−1: none), and a clock on (or behind) a loop of
    negative length, else −1. Bellman and Ford, links forwards and backwards by turns."""
    far, links = 1 << 60, len(a)
    distance, via = np.full(count, far, np.int64), np.full(count, -1, np.int64)
    distance[root] = 0
    for turn in range(4 * count + 8):
        changed = False
        for i in range(links):
            e = i if turn % 2 == 0 else links - 1 - i
            if not used[e]:
                continue
            u, v = a[e], b[e]
            if distance[u] < far and distance[u] + hi[e] < distance[v]:
                distance[v], via[v], changed = distance[u] + hi[e], e, True
            if distance[v] < far and distance[v] - lo[e] < distance[u]:
                distance[u], via[u], changed = distance[v] - lo[e], e, True
        if not changed:
            return distance, via, -1
        if via[root] >= 0 or turn % 8 == 7:
            bad = _on_loop(count, a, b, via)
            if bad >= 0:
                return distance, via, bad
    return distance, via, _on_loop(count, a, b, via)


@numba.njit(cache=True)
def _on_loop(count: int, a: Ints, b: Ints, via: Ints) -> int:
    """A clock from which the last links lead into a loop, −1: none."""
    mark = np.zeros(count, np.int64)
    for start in range(count):
        at = start
        while mark[at] == 0 and via[at] >= 0:
            mark[at] = start + 1
            e = via[at]
            at = a[e] if b[e] == at else b[e]
        if via[at] >= 0 and mark[at] == start + 1:
            return at
        if mark[at] == 0:
            mark[at] = start + 1
    return -1


@numba.njit(cache=True)
def least_squares(count: int, root: int, a: Ints, b: Ints, middle: Floats, weight: Floats, first: Floats) -> Floats:
    """p that minimises Σ weight · (p_b − p_a − middle)² with p_root as in ``first``: conjugate gradients, scaled by the
    diagonal, until no clock moves by more than 0.1 ns, at most 200 rounds."""
    p = first.copy()
    diagonal, rest = np.zeros(count), np.zeros(count)
    for e in range(len(a)):
        diagonal[a[e]] += weight[e]
        diagonal[b[e]] += weight[e]
        pull = weight[e] * (middle[e] - p[b[e]] + p[a[e]])
        rest[b[e]] += pull
        rest[a[e]] -= pull
    diagonal[root] = 0.0
    way, before = np.zeros(count), 0.0
    for _ in range(200):
        scaled = np.zeros(count)
        now, most = 0.0, 0.0
        for h in range(count):
            if diagonal[h] > 0:
                scaled[h] = rest[h] / diagonal[h]
                now += rest[h] * scaled[h]
                most = max(most, abs(scaled[h]))
        if most < 0.1:
            break
        for h in range(count):
            way[h] = scaled[h] + (now / before * way[h] if before > 0 else 0.0)
        product = np.zeros(count)
        for e in range(len(a)):
            pull = weight[e] * (way[b[e]] - way[a[e]])
            product[b[e]] += pull
            product[a[e]] -= pull
        along = 0.0
        for h in range(count):
            along += way[h] * product[h]
        if along <= 0:
            break
        step = now / along
        for h in range(count):
            if diagonal[h] > 0:
                p[h] += step * way[h]
                rest[h] -= step * product[h]
        before = now
    return p
