"""What collectors return: readings of counters, facts of the inventory, and the protocol they follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, Protocol

from fleetscope.contracts.counters import CounterDescriptor
from ingest.hostroot import HostRoot

Status = Literal["ok", "missing", "sentinel", "saturated", "stuck", "reset", "wrapped", "jitter"]

INT63_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class Reading:
    """One counter read once. ``raw`` is the exact value of a counter, ``value`` that of a gauge; null is missing."""

    collector: str
    counter: str
    instance: str | None = None
    device: str | None = None
    raw: int | None = None
    value: float | None = None
    status: Status = "ok"

    @property
    def key(self) -> tuple[str, str | None, str | None]:
        """Which series it belongs to."""
        return self.counter, self.instance, self.device


@dataclass(frozen=True, slots=True)
class Fact:
    """One stated property of a component; becomes an inventory row."""

    kind: str
    component: str
    attribute: str
    text: str | None = None
    number: float | None = None
    unit: str | None = None
    parent: str | None = None


class Collector(Protocol):
    """Reads one kind of source. It never raises for what the host lacks: it counts that on ``root``."""

    @property
    def name(self) -> str: ...
    @property
    def descriptors(self) -> tuple[CounterDescriptor, ...]: ...

    def collect(self, root: HostRoot) -> list[Reading]:
        """Readings of this moment."""
        ...

    def inventory(self, root: HostRoot) -> list[Fact]:
        """What is there, for as long as it does not change."""
        ...


def whole(text: str) -> int | None:
    """A non-negative decimal number; None for anything else (signs, blanks, underscores, N/A)."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= 20 else None


def count(collector: str, counter: CounterDescriptor, raw: int | None, instance: str | None = None,
          device: str | None = None) -> Reading:
    """A reading of a monotonic or saturating counter, with what its value alone says about it.

    All ones in 64 bits is what a device that fell off its bus answers: a sentinel. What int64 cannot hold, and the top
    of a saturating counter, are saturated.
    """
    if raw is None:
        return Reading(collector, counter.name, instance, device, status="missing")
    if raw > INT63_MAX:
        return Reading(collector, counter.name, instance, device,
                       status="sentinel" if raw == (1 << 64) - 1 else "saturated")
    status: Status = "saturated" if counter.kind == "saturating" and raw == counter.top else "ok"
    return Reading(collector, counter.name, instance, device, raw=raw, status=status)


def gauge(collector: str, counter: CounterDescriptor, value: float | None, instance: str | None = None,
          device: str | None = None, status: Status = "ok") -> Reading:
    """A reading of a gauge; None is missing."""
    if value is None and status == "ok":
        status = "missing"
    return Reading(collector, counter.name, instance, device, value=value, status=status)
