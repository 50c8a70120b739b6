"""One reading of everything: collectors run in turn, each stamped, each timed, with what could not be read."""

from __future__ import annotations

from collections import Counter

from fleetscope.contracts import counters
from ingest.clocks import HostClocks
from ingest.collectors import all_collectors
from ingest.collectors.discipline import Discipline
from ingest.collectors.links import Links
from ingest.hostroot import HostRoot
from ingest.links.prober import Prober
from ingest.monotonic import Tracker
from ingest.ptp import PtpClocks
from ingest.reading import Collector, Fact, Reading, count

NAME = "agent"
_UNREADABLE, _COLLECT_US = counters.AGENT


def host_collectors(clocks: HostClocks, ptp: PtpClocks, prober: Prober | None = None) -> tuple[Collector, ...]:
    """All collectors of files, and those of the clocks and of the links to other hosts."""
    links = () if prober is None else (Links(prober),)
    return *all_collectors(), Discipline(clocks), ptp, *links


class Probe:
    """Runs the collectors over one root and keeps the state their counters need."""

    def __init__(self, root: HostRoot, clocks: HostClocks, collectors: tuple[Collector, ...] | None = None) -> None:
        self.root = root
        self._clocks = clocks
        self._collectors = all_collectors() if collectors is None else collectors
        self.descriptors = (*(d for c in self._collectors for d in c.descriptors), *counters.AGENT)
        self._trackers = {c.name: Tracker(c.descriptors) for c in self._collectors}
        self._spent_us: Counter[str] = Counter()

    def read(self) -> list[tuple[int, Reading]]:
        """(ticks, reading) pairs; a reading's ticks are those before its collector began."""
        readings: list[tuple[int, Reading]] = []
        ticks = self._clocks.monotonic_raw_ns()
        for collector in self._collectors:
            found = self._trackers[collector.name].observe(collector.collect(self.root))
            readings.extend((ticks, reading) for reading in found)
            end = self._clocks.monotonic_raw_ns()
            self._spent_us[collector.name] += (end - ticks) // 1000
            ticks = end
        readings.extend((ticks, reading) for reading in self._own())
        return readings

    def _own(self) -> list[Reading]:
        unreadable = {f"{collector}/{reason}": total for (collector, reason), total in self.root.unreadable.items()}
        return [*(count(NAME, _UNREADABLE, total, where) for where, total in unreadable.items()),
                *(count(NAME, _COLLECT_US, spent, collector) for collector, spent in self._spent_us.items())]

    def facts(self) -> list[Fact]:
        """What all collectors know of the host."""
        return [fact for collector in self._collectors for fact in collector.inventory(self.root)]
