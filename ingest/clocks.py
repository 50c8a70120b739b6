"""Readings of one clock between two readings of another: what the clocks step turns into a bound.

MONOTONIC_RAW is the host's reference: it never steps and nobody steers it. REALTIME carries UTC and is steered;
BOOTTIME goes on during suspend. Each exchange is (before, other, after); that the other clock was read in between is
all that is assumed, so the offset lies within half the distance of the outer stamps. All readings of a burst are kept:
the narrowest one gives the bound, the others show the noise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

REFERENCE: Final = "monotonic_raw"
REALTIME: Final = "realtime"
BOOTTIME: Final = "boottime"
HZ: Final = 1_000_000_000
BURST: Final = 8


class HostClocks(Protocol):
    """The clocks of a host, in ns."""

    def monotonic_raw_ns(self) -> int: ...
    def realtime_ns(self) -> int: ...
    def boottime_ns(self) -> int: ...


class LinuxClocks:
    """The clocks of this machine."""

    def monotonic_raw_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)

    def realtime_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_REALTIME)

    def boottime_ns(self) -> int:
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


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


def burst(clocks: HostClocks, other: str, count: int = BURST) -> list[Exchange]:
    """``count`` exchanges in a row against ``other`` (realtime or boottime); raises KeyError for another name."""
    read: Callable[[], int] = {REALTIME: clocks.realtime_ns, BOOTTIME: clocks.boottime_ns}[other]
    reference = clocks.monotonic_raw_ns
    return [Exchange(reference(), read(), reference()) for _ in range(count)]


def narrowest(exchanges: list[Exchange]) -> Offset:
    """The offset that the exchange with the least distance between its outer stamps gives; ValueError for none.

    The bound has one tick for the clocks' resolution and rounds up.
    """
    before, other, after = min(exchanges, key=lambda e: e.after - e.before)
    distance = after - before
    return Offset(other - (before + distance // 2), distance - distance // 2 + 1, len(exchanges))
