"""Readings of one clock between two readings of another: what the clocks step turns into a bound.

MONOTONIC_RAW is the host's reference: it never steps and nobody steers it. REALTIME carries UTC and is steered and
stepped; MONOTONIC is steered with it; BOOTTIME goes on during suspend; TAI is REALTIME without leap seconds, where a
time daemon set its offset. Each exchange is (before, other, after); that the other clock was read in between is all
that is assumed, so the offset lies within half the distance of the outer stamps. Of a burst the quickest exchanges are
kept, each as it was: their intersection is narrower than any of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from ingest.timex import Timex, read_timex

REFERENCE: Final = "monotonic_raw"
REALTIME: Final = "realtime"
MONOTONIC: Final = "monotonic"
BOOTTIME: Final = "boottime"
TAI: Final = "tai"
ALWAYS: Final = (REALTIME, BOOTTIME, MONOTONIC)
HZ: Final = 1_000_000_000
BURST: Final = 16
KEPT: Final = 4
_SYSTEM: Final = {REALTIME: time.CLOCK_REALTIME, BOOTTIME: time.CLOCK_BOOTTIME, MONOTONIC: time.CLOCK_MONOTONIC,
                  TAI: time.CLOCK_TAI}


class HostClocks(Protocol):
    """The clocks of a host, in ns."""

    def monotonic_raw_ns(self) -> int: ...
    def realtime_ns(self) -> int: ...

    def reader(self, clock: str) -> Callable[[], int]:
        """What reads ``clock``; KeyError for a clock there is not."""
        ...

    def discipline(self) -> Timex | None:
        """How the kernel steers REALTIME at this moment; None where it does not say."""
        ...


class LinuxClocks:
    """The clocks of this machine."""

    def monotonic_raw_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)

    def realtime_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_REALTIME)

    def reader(self, clock: str) -> Callable[[], int]:
        number, read = _SYSTEM[clock], time.clock_gettime_ns
        return lambda: read(number)

    def discipline(self) -> Timex | None:
        return read_timex()


class Exchange(NamedTuple):
    """``other`` read between two readings of the reference, all in ns."""

    before: int
    other: int
    after: int


@dataclass(frozen=True, slots=True)
class Offset:
    """other − reference in ns, true to within ``bound_ns`` at the moment of the narrowest exchange."""

    offset_ns: int
    bound_ns: int
    samples: int


def names(timex: Timex | None) -> tuple[str, ...]:
    """The clocks that mean something: TAI only where its offset was set, else it repeats REALTIME."""
    return (*ALWAYS, TAI) if timex is not None and timex.tai_s else ALWAYS


def burst(clocks: HostClocks, other: str, count: int = BURST) -> list[Exchange]:
    """``count`` exchanges in a row against ``other``, in the order of reading; raises KeyError for an unknown clock."""
    read, reference = clocks.reader(other), clocks.monotonic_raw_ns
    return [Exchange(reference(), read(), reference()) for _ in range(count)]


def quickest(exchanges: list[Exchange], keep: int = KEPT) -> list[Exchange]:
    """The ``keep`` exchanges with the least distance between their outer stamps, in the order given.

    One within which the reference ran back or stood still is no reading of anything and is never kept.
    """
    best = sorted((e.after - e.before, i) for i, e in enumerate(exchanges) if e.after > e.before)[:keep]
    return [exchanges[i] for i in sorted(i for _, i in best)]


def narrowest(exchanges: list[Exchange]) -> Offset:
    """The offset that the exchange with the least distance between its outer stamps gives; ValueError for none.

    The bound has one tick for the clocks' resolution and rounds up.
    """
    before, other, after = min(exchanges, key=lambda e: e.after - e.before)
    distance = after - before
    return Offset(other - (before + distance // 2), distance - distance // 2 + 1, len(exchanges))
