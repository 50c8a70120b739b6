"""Nominal time of a counter: ticks over its frequency, also where the frequency changes and the changes are known.

A counter that counts core cycles runs at a share of its frequency that the driver sets and publishes. Nominal time is
what is left when those changes are taken out: the assumptions on rate and curvature hold for it.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final, NamedTuple

NS: Final = 1_000_000_000
PPB: Final = 1_000_000_000
MIN_PPB: Final = -990_000_000
MAX_PPB: Final = 100 * PPB
"""Known rates against nominal: a hundredth of it to a hundred times as much."""


class Change(NamedTuple):
    """From tick ``x`` on, at nominal time ``w`` (ns), the counter runs ``ppb`` faster than it says."""

    x: int
    w: int
    ppb: int


@dataclass(slots=True)
class Nominal:
    """Ticks to nominal ns and back, both rounded down. ``changes`` ascend; before the first the rate is nominal."""

    hz: int
    changes: list[Change] = field(default_factory=list)

    def time(self, x: int) -> int:
        """Nominal ns at tick ``x``."""
        change = self._before(x)
        if change is None:
            return x * NS // self.hz
        return change.w + (x - change.x) * NS * PPB // (self.hz * (PPB + change.ppb))

    def tick(self, w: int) -> int:
        """The tick at nominal time ``w``."""
        at = bisect_right(self.changes, w, key=lambda c: c.w)
        if at == 0:
            return w * self.hz // NS
        change = self.changes[at - 1]
        return change.x + (w - change.w) * self.hz * (PPB + change.ppb) // (NS * PPB)

    def next_change(self, x: int) -> int | None:
        """The first tick after ``x`` at which the rate changes."""
        if not self.changes or self.changes[-1].x <= x:
            return None
        return self.changes[bisect_right(self.changes, x, key=lambda c: c.x)].x

    def piece(self, x: int) -> int:
        """Number of the piece of constant rate that holds ``x``, good until changes are forgotten."""
        return bisect_right(self.changes, x, key=lambda c: c.x) if self.changes else 0

    def rate_q32(self, x: int) -> int:
        """Nominal ns a tick at ``x`` in units of 2^-32."""
        change = self._before(x)
        return (NS * PPB << 32) // (self.hz * (PPB + (change.ppb if change else 0)))

    def longest_ns(self, ticks: int) -> int:
        """How long ``ticks`` take at the slowest of the known rates, and at least at the nominal one; rounded up."""
        slowest = min((c.ppb for c in self.changes if c.ppb < 0), default=0)
        return -(-NS * PPB * ticks // (self.hz * (PPB + slowest)))

    def change(self, x: int, ppb: int, grain: int = 1) -> int:
        """The rate changes at ``x``, later than every change before; the possible error of this in ns.

        The ``grain`` ticks, shown as one, in which it changed were begun at one rate and ended at the other.
        """
        before = self.changes[-1].ppb if self.changes else 0
        self.changes.append(Change(x, self.time(x), ppb))
        slow, fast = sorted((PPB + before, PPB + ppb))
        return NS * PPB * grain * (fast - slow) // (self.hz * slow * fast) + 2

    def restart(self, x: int) -> None:
        """The counter was set to ``x``; it keeps its rate."""
        if self.changes:
            ppb = self.changes[-1].ppb
            self.changes = [Change(x, x * NS // self.hz, ppb)] if ppb else []

    def forget_before(self, x: int) -> None:
        """Drop changes that matter only before ``x``."""
        while len(self.changes) > 1 and self.changes[1].x <= x:
            del self.changes[0]

    def _before(self, x: int) -> Change | None:
        if not self.changes:
            return None
        at = bisect_right(self.changes, x, key=lambda c: c.x)
        return self.changes[at - 1] if at else None
