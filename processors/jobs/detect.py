"""Whether a rank holds up its job in a window, and why. Pure; plain values.

Two ways to see it:

- Like kernels last ``min_slowdown`` times as long as elsewhere (`slowness`), beyond the modified z-score's limit.
- It comes last in most collectives of a group, more often than chance would have it (binomial), and the others wait
  ``1 − 1/min_slowdown`` of the window for it: without it the job would be ``min_slowdown`` times as fast.

The cause is what the rank spent longer on than the median of the others: slow kernels, more kernels (uneven work, which
is no fault of the rank), or a state of its windows. Stages of a pipeline wait for each other without any of these.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from statistics import median
from typing import Final

from processors.jobs.combine import busy_ns
from processors.jobs.slowness import Slowness, Where

SLOW: Final = "slow_kernels"
UNEVEN: Final = "uneven_work"
UNEXPLAINED: Final = "unexplained"
IN_KERNELS: Final = ("throttled", "bank_conflict", "spill", "dma_stall")
"""States that make like kernels longer and say why."""
OUTSIDE: Final = ("host", "host_input", "host_contention", "host_pageable", "launch_overhead", "pcie_h2d", "pcie_d2h",
                  "pcie_small", "pcie_queueing")
RAISED: Final = frozenset({SLOW, "host", "host_input", "host_pageable", "launch_overhead"})
"""Causes of an incident: slow for no reason that another kind of incident names."""


@dataclass(frozen=True, slots=True)
class Limits:
    """``min_slowdown``: least effect worth a person's time; ``z``: limit of z-scores; ``min_collectives``: of a group
    in a window; ``min_cost``: least share of a window that slower kernels must cost; ``explained``: least share of the
    effect that a cause must account for."""

    min_slowdown: float = 1.1
    z: float = 3.5
    min_collectives: int = 8
    min_cost: float = 0.01
    explained: float = 0.5

    @property
    def min_wait_share(self) -> float:
        """Share of the window that the others wait for a rank that slows the job by ``min_slowdown``."""
        return 1.0 - 1.0 / self.min_slowdown


@dataclass(frozen=True, slots=True)
class Blame:
    """A group's collectives in a window, of which ``last`` were held up by one rank for ``wait_ns`` of all others."""

    collectives: int
    size: int
    last: int
    wait_ns: int


def holds_up(blame: Blame, window_ns: int, limits: Limits) -> bool:
    """Whether a rank is late too often for chance, and what that costs is worth it."""
    n, p = blame.collectives, 1.0 / max(blame.size, 1)
    if n < limits.min_collectives or blame.size < 2 or blame.last < 0.5 * n:
        return False
    z = (blame.last - n * p) / math.sqrt(n * p * (1.0 - p))
    return z >= limits.z and blame.wait_ns / (blame.size - 1) >= limits.min_wait_share * window_ns


def is_slow(found: Slowness | None, window_ns: int, limits: Limits) -> bool:
    """Whether like kernels take it longer, in time that matters."""
    if found is None or found.ratio < limits.min_slowdown or found.z < limits.z:
        return False
    return found.compared_ns * (1.0 - 1.0 / found.ratio) >= limits.min_cost * window_ns


def cause_of(where: Where, peers: Collection[Where], states: Mapping[Where, Mapping[str, int]],
             slow: Slowness | None, limits: Limits, effect_ns: float | None = None) -> tuple[str, int | None]:
    """(cause, by how many ns it is more than the median of the peers; None where windows do not say).

    ``effect_ns``: what a member of a group waited for it; without it the effect is its slow kernels' time alone.
    """
    is_slower = slow is not None and slow.ratio >= limits.min_slowdown and slow.z >= limits.z
    others = [states[peer] for peer in peers if peer != where and peer in states]
    if where not in states or not others:
        return (SLOW, None) if is_slower else (UNEXPLAINED, None)
    own = states[where]
    excess = {name: round(own.get(f"{name}_ns", 0) - median(other.get(f"{name}_ns", 0) for other in others))
              for name in (*IN_KERNELS, *OUTSIDE)}
    busy = busy_ns(own)
    slower_ns = round(busy * (1.0 - 1.0 / slow.ratio)) if is_slower and slow is not None else 0
    reasons = {name: excess[name] for name in IN_KERNELS if excess[name] > 0}
    if slower_ns and sum(reasons.values()) >= limits.explained * slower_ns:
        reason = max(sorted(reasons), key=lambda name: reasons[name])
        candidates = {reason: reasons[reason]}
    else:
        candidates = {SLOW: slower_ns}
    if effect_ns is None:
        return next(iter(candidates.items()))
    candidates |= {name: excess[name] for name in OUTSIDE}
    candidates[UNEVEN] = round(busy - slower_ns - median(busy_ns(other) for other in others))
    chosen = max(sorted(candidates), key=lambda name: candidates[name])
    if candidates[chosen] < limits.explained * effect_ns:
        return UNEXPLAINED, None
    return chosen, candidates[chosen]
