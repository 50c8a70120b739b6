"""Time lost waiting for processors, memory and disks, from /proc/pressure."""

from __future__ import annotations

from typing import Final

from fleetscope.contracts import counters
from ingest.hostroot import HostRoot
from ingest.reading import Fact, Reading, count, gauge, whole

RESOURCES: Final = ("cpu", "memory", "io")
_TOTALS: Final = dict(zip(("some", "full"), counters.PRESSURE[:2], strict=True))
_AVERAGES: Final = dict(zip(("some", "full"), counters.PRESSURE[2:], strict=True))


class Pressure:
    """Totals in µs since boot and the kernel's own average over 10 s."""

    name = "pressure"
    descriptors = counters.PRESSURE

    def collect(self, root: HostRoot) -> list[Reading]:
        """Older kernels have no `full` line for cpu; that is not a fault."""
        readings: list[Reading] = []
        for resource in RESOURCES:
            path = f"proc/pressure/{resource}"
            for number, line in enumerate(root.lines(path, self.name), 1):
                found = self._line(line, resource)
                if found is None:
                    root.note(self.name, "malformed", f"{path}:{number}")
                else:
                    readings.extend(found)
        return readings

    def _line(self, line: str, resource: str) -> list[Reading] | None:
        scope, *pairs = line.split() or [""]
        fields = dict(pair.partition("=")[::2] for pair in pairs)
        total, average = whole(fields.get("total", "")), _percent(fields.get("avg10", ""))
        if scope not in _TOTALS or total is None or average is None:
            return None
        return [count(self.name, _TOTALS[scope], total, resource),
                gauge(self.name, _AVERAGES[scope], average, resource)]

    def inventory(self, root: HostRoot) -> list[Fact]:
        """Nothing."""
        return []


def _percent(text: str) -> float | None:
    head, dot, tail = text.partition(".")
    return float(text) if whole(head) is not None and (not dot or whole(tail) is not None) else None
