"""Counters that go backwards: wrap, reset or jitter, never a spike.

A step backwards has three causes that want different things of a reader. A register that *wrapped* at its width went
on counting: the difference is known. A *reset* (driver reload, hot-plug) lost count: the difference is unknown and
counting starts anew. *Jitter* (a sum read while its parts move, estimated times) is a small step back that the next
readings make good: the difference is unknown and the baseline stays where it was, or the same amount counts twice.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from fleetscope.contracts.counters import CounterDescriptor
from ingest.reading import Reading, Status

JITTER_FLOOR: Final = 8
JITTER_SHARE: Final = 1024
JITTER_READINGS: Final = 3
WRAP_SHARE: Final = 16
PACE: Final = 16


def classify(previous: int, current: int, width_bits: int, largest_step: int | None = None) -> Status:
    """ok, wrapped, reset or jitter for a counter of ``width_bits`` that went from ``previous`` to ``current``.

    wrapped: the step across the top is at most 1/16 of the range and, where the largest step seen so far is known, at
    most 16 times that. A drop to zero near the top can be either; taking it for a reset loses one difference, taking a
    reset for a wrap would invent one, so the narrow rule. jitter: back by at most 8 or 1/1024 of the value, not to 0.
    """
    if current >= previous:
        return "ok"
    back = previous - current
    if current and back <= max(JITTER_FLOOR, previous // JITTER_SHARE):
        return "jitter"
    across = (1 << width_bits) - back
    limit = (1 << width_bits) // WRAP_SHARE
    if largest_step is not None:
        limit = min(limit, max(PACE * largest_step, 1))
    return "wrapped" if 0 <= across <= limit else "reset"


def delta(previous: int, current: int, status: str, width_bits: int) -> int | None:
    """How far the counter counted from a baseline to ``current``; None where the status says nobody knows.

    The baseline is the last reading that was ok, wrapped or reset, not one that was jitter. Never negative.
    """
    if status == "wrapped":
        return current - previous + (1 << width_bits)
    return current - previous if status == "ok" and current >= previous else None


@dataclass(slots=True)
class _Series:
    baseline: int
    largest_step: int | None = None
    behind: int = 0


class Tracker:
    """Remembers every series' last good value and gives each reading its status; bounded by the series alive.

    A series that stops coming yields one reading with status missing and is then forgotten.
    """

    def __init__(self, descriptors: tuple[CounterDescriptor, ...]) -> None:
        self._descriptors = {d.name: d for d in descriptors}
        self._series: dict[tuple[str, str | None, str | None], _Series] = {}
        self._alive: dict[tuple[str, str | None, str | None], Reading] = {}

    def observe(self, readings: list[Reading]) -> list[Reading]:
        """The readings of one moment with statuses set, and a missing one for each series that vanished."""
        result = [self._judge(reading) for reading in readings]
        alive = {reading.key: reading for reading in readings}
        for key, last in self._alive.items():
            if key not in alive:
                self._series.pop(key, None)
                if last.status != "missing":
                    result.append(replace(last, raw=None, value=None, status="missing"))
        self._alive = alive
        return result

    def _judge(self, reading: Reading) -> Reading:
        descriptor = self._descriptors[reading.counter]
        if reading.raw is None or descriptor.kind != "monotonic":
            return reading
        series = self._series.get(reading.key)
        if series is None:
            self._series[reading.key] = _Series(reading.raw)
            return reading
        status = _advance(series, reading.raw, descriptor.width_bits)
        return reading if status == reading.status else replace(reading, status=status)


def _advance(series: _Series, raw: int, width_bits: int) -> Status:
    status = classify(series.baseline, raw, width_bits, series.largest_step)
    if status == "jitter":
        series.behind += 1
        if series.behind <= JITTER_READINGS:
            return "jitter"
        # It does not come back: the counter was reset to a value close below.
        status = "reset"
    step = delta(series.baseline, raw, status, width_bits)
    if step is None:
        series.largest_step = None
    elif step > (series.largest_step or 0):
        series.largest_step = step
    series.baseline, series.behind = raw, 0
    return status
