"""How the kernel keeps REALTIME, and how long the host slept: from adjtimex(2) and the clocks themselves."""

from __future__ import annotations

from fleetscope.contracts import counters
from ingest.clocks import HZ, REALTIME, REFERENCE, HostClocks
from ingest.hostroot import HostRoot
from ingest.reading import Fact, Reading, count, gauge
from ingest.suspend import asleep_ns

_DISCIPLINED, _FREQUENCY, _CORRECTION, _MAX_ERROR, _EST_ERROR, _SUSPENDED = counters.CLOCK


class Discipline:
    """Of the running kernel, whatever root is given."""

    name = "clock"
    descriptors = counters.CLOCK

    def __init__(self, clocks: HostClocks) -> None:
        self._clocks = clocks

    def collect(self, root: HostRoot) -> list[Reading]:
        """Errors are missing while nobody disciplines the clock: then the kernel has none to tell."""
        asleep = asleep_ns(self._clocks)
        found = [count(self.name, _SUSPENDED, asleep // 1000 if asleep >= 0 else None)]
        timex = self._clocks.discipline()
        if timex is None:
            root.note(self.name, "missing", "adjtimex")
            return found
        kept = timex.disciplined
        return [*found, gauge(self.name, _DISCIPLINED, float(kept)),
                gauge(self.name, _FREQUENCY, float(timex.steady_ppb)),
                gauge(self.name, _CORRECTION, float(timex.offset_ns + timex.slew_us * 1000)),
                gauge(self.name, _MAX_ERROR, float(timex.max_error_us) if kept else None),
                gauge(self.name, _EST_ERROR, float(timex.est_error_us) if kept else None)]

    def inventory(self, root: HostRoot) -> list[Fact]:
        """The boot, which is the life of MONOTONIC_RAW, and what changes rarely about REALTIME."""
        boot = (root.text("proc/sys/kernel/random/boot_id", self.name, optional=True) or "").strip()
        facts = [Fact("clock", REFERENCE, "hz", number=HZ, unit="ticks/s")]
        if boot:
            facts.append(Fact("clock", REFERENCE, "boot_id", text=boot))
        timex = self._clocks.discipline()
        if timex is not None:
            facts += [Fact("clock", REALTIME, "status", text=timex.flags),
                      Fact("clock", REALTIME, "tick_us", number=timex.tick_us, unit="us"),
                      Fact("clock", REALTIME, "tai_offset_s", number=timex.tai_s, unit="s")]
        return facts
