"""Stamps of REALTIME carried to MONOTONIC_RAW, with the bound that the carrying costs.

The kernel stamps packets and PTP readings with REALTIME, which may be slewed or stepped at any time. A crossing is a
reading of both clocks: REALTIME − MONOTONIC_RAW lies in [lo, hi]. A stamp is carried by the crossing taken right after
it, widened by the largest ordinary slew over the stamp's age. That the clock kept to it is checked against the last
crossing before the stamp: where the two disagree by more, or there is none, the stamp is refused, and the caller falls
back on stamps of its own.
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

from ingest.clocks import HZ, REALTIME, Exchange, HostClocks, burst

MAX_SLEW_PPM: Final = 1_000
"""500 ppm of frequency and 500 ppm of adjtime are the kernel's ordinary limits; faster slews are refused."""
MAX_AGE_NS: Final = 2 * HZ
_READS: Final = 3
_KEPT: Final = 32


class Crossing(NamedTuple):
    """At MONOTONIC_RAW ``raw`` (give or take the width), REALTIME − MONOTONIC_RAW was in [``lo``, ``hi``] ns."""

    raw: int
    lo: int
    hi: int


def crossing(exchange: Exchange) -> Crossing:
    """Each reading stands for the ns it is in, hence one ns more on either side."""
    return Crossing(exchange.after, exchange.other - exchange.after - 1, exchange.other - exchange.before + 1)


class Bridge:
    """The last crossings of one host; not for several threads."""

    def __init__(self, clocks: HostClocks) -> None:
        self._clocks = clocks
        self._crossings: deque[Crossing] = deque(maxlen=_KEPT)

    def cross(self) -> Crossing:
        """Read both clocks now; stamps given to ``to_raw`` afterwards are older than this."""
        exchange = min(burst(self._clocks, REALTIME, _READS), key=lambda e: e.after - e.before)
        self._crossings.append(crossing(exchange))
        return self._crossings[-1]

    def to_raw(self, realtime_ns: int) -> tuple[int, int] | None:
        """[lo, hi] of MONOTONIC_RAW when REALTIME read ``realtime_ns``; None where nothing can be promised."""
        if not self._crossings:
            return None
        latest = self._crossings[-1]
        age = latest.raw + latest.hi - realtime_ns
        slack = _slew(age)
        witness = next((c for c in reversed(self._crossings) if c.raw <= latest.raw - age - slack), None)
        if witness is None or age < 0 or latest.raw - witness.raw > MAX_AGE_NS:
            return None
        if max(latest.lo - witness.hi, witness.lo - latest.hi) > _slew(latest.raw - witness.raw):
            return None
        return realtime_ns - latest.hi - slack, realtime_ns - latest.lo + slack


def _slew(ns: int) -> int:
    return ns * MAX_SLEW_PPM // 1_000_000 + 1
