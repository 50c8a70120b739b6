"""All counters of one device in the order of event time: incidents that begin and end. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import median_low
from typing import Any, Final, NamedTuple

from processors.counters.series import Series

NS: Final = 1_000_000_000
INTERVALS: Final = 5
APART_NS: Final = NS
"""Resets of a device closer together than this are one."""
GONE_READINGS: Final = 2
"""A device is gone when all its readings are missing so often in a row."""
INVALID: Final = ("sentinel", "saturated")

Row = dict[str, Any]


class Reading(NamedTuple):
    """One reading. ``top``: of the register of a monotonic counter, None for a gauge; ``limits`` of a gauge's unit."""

    time_ns: int
    counter: str
    status: str
    value: float | None
    top: int | None
    limits: tuple[float, float] | None


@dataclass(slots=True)
class Open:
    """An incident that goes on: the counters it is about, and when it was found."""

    start_ns: int
    counters: list[str]
    found_ns: int

    def plain(self) -> list[Any]:
        """As JSON has it."""
        return [self.start_ns, self.counters, self.found_ns]


@dataclass(slots=True)
class Device:
    """``open`` incidents by kind; ``reset_ns``: end of the last reset; ``missing`` readings in a row since
    ``missing_ns``; ``read_ns``: newest reading, ``intervals`` between the newest ones, ``skipped``: how
    often others were read since; ``stuck`` and ``invalid``: which
    counters are so now."""

    series: dict[str, Series] = field(default_factory=dict)
    open: dict[str, Open] = field(default_factory=dict)
    reset_ns: int | None = None
    missing: int = 0
    missing_ns: int = 0
    read_ns: int = 0
    skipped: int = 0
    intervals: list[int] = field(default_factory=list)
    stuck: list[str] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)

    def take(self, readings: Sequence[Reading], *, busy: bool) -> Iterator[Row]:
        """Readings of one moment; rows of incidents, without host and device."""
        now = readings[0].time_ns
        resets: list[tuple[int, str]] = []
        stuck, invalid = set(self.stuck), set(self.invalid)
        since = now
        for reading in readings:
            series = self.series.setdefault(reading.counter, Series())
            before = series.last_ns if series.last is not None else now
            if reading.status == "reset":
                resets.append((before, reading.counter))
                series.forget()
            if reading.status == "stuck":
                stuck.add(reading.counter)
            elif reading.status in INVALID:
                invalid.add(reading.counter)
                series.forget()
            elif reading.value is None:
                series.forget()
            else:
                invalid.discard(reading.counter)
                change = series.read(reading.value, now, None if reading.status == "wrapped" else reading.top)
                if change == "reset":
                    resets.append((before, reading.counter))
                if series.judge(change, busy=busy, at_limit=reading.value in (reading.limits or ())):
                    since = min(since, series.still_ns)
                    stuck.add(reading.counter)
                else:
                    stuck.discard(reading.counter)
        self.stuck, self.invalid = sorted(stuck), sorted(invalid)
        yield from self._reset(resets, now)
        yield from self._run("counter_invalid", invalid, now, now)
        yield from self._run("stuck_counter", stuck, since, now)
        yield from self._presence(readings, now)
        if self.read_ns:
            self.intervals = [*self.intervals[1 - INTERVALS:], now - self.read_ns]
        self.read_ns, self.skipped = now, 0

    def usual_ns(self) -> int | None:
        """The usual interval between its readings; None: not known yet."""
        return median_low(self.intervals) if len(self.intervals) >= 3 else None

    def vanish(self, start_ns: int, now_ns: int) -> Iterator[Row]:
        """No readings come of it, though others of the host do."""
        if "device_vanished" not in self.open:
            yield from self._run("device_vanished", {"all"}, start_ns, now_ns)

    def _reset(self, resets: list[tuple[int, str]], now: int) -> Iterator[Row]:
        if not resets:
            return
        begin = min(at for at, _ in resets)
        if self.reset_ns is None or begin > self.reset_ns + APART_NS:
            yield _row("counter_reset", begin, now, sorted({name for _, name in resets}), now)
        self.reset_ns = now

    def _presence(self, readings: Sequence[Reading], now: int) -> Iterator[Row]:
        if all(reading.status == "missing" for reading in readings):
            self.missing_ns = now if not self.missing else self.missing_ns
            self.missing += 1
            if self.missing >= GONE_READINGS:
                yield from self.vanish(self.missing_ns, now)
        else:
            self.missing = 0
            yield from self._run("device_vanished", set(), now, now)

    def _run(self, kind: str, counters: set[str], start_ns: int, now: int) -> Iterator[Row]:
        """Begin, go on with or end the incident of a kind, of which ``counters`` are part now."""
        known = self.open.get(kind)
        if known is None and counters:
            begun = self.open[kind] = Open(start_ns, sorted(counters), now)
            yield _row(kind, start_ns, None, begun.counters, now)
        elif known is not None and not counters:
            del self.open[kind]
            yield _row(kind, known.start_ns, now, known.counters, known.found_ns)
        elif known is not None:
            known.counters = sorted(counters | set(known.counters))

    def plain(self) -> list[Any]:
        """As JSON has it."""
        return [{name: series.plain() for name, series in sorted(self.series.items())},
                {kind: item.plain() for kind, item in sorted(self.open.items())},
                self.reset_ns, self.missing, self.missing_ns, self.read_ns, self.skipped, self.intervals,
                self.stuck, self.invalid]

    @classmethod
    def of_plain(cls, data: list[Any]) -> Device:
        """From ``plain``."""
        series, opened, *rest = data
        return cls({name: Series.of_plain(values) for name, values in series.items()},
                   {kind: Open(*values) for kind, values in opened.items()}, *rest)


_SEVERITY: Final = {"device_vanished": "critical"}


def _row(kind: str, start_ns: int, end_ns: int | None, counters: list[str], found_ns: int) -> Row:
    evidence: Row = {"detected_ns": found_ns} | ({"counters": counters} if counters != ["all"] else {})
    return {"kind": kind, "start_ns": start_ns, "end_ns": end_ns, "revision": 0 if end_ns is None else 1,
            "severity": _SEVERITY.get(kind, "warning"), "evidence": json.dumps(evidence, sort_keys=True)}
