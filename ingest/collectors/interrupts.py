"""Interrupts, soft interrupts and context switches, from /proc/interrupts and /proc/stat."""

from __future__ import annotations

from typing import Final

from fleetscope.contracts import counters
from ingest.hostroot import HostRoot
from ingest.reading import Fact, Reading, count, whole

MAX_LINES: Final = 512
_TOTAL, _LINE, _SOFT, _SWITCHES, _FORKS = counters.INTERRUPTS
_SINGLE: Final = {"intr": _TOTAL, "ctxt": _SWITCHES, "processes": _FORKS}
_SOFT_TYPES: Final = ("HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU")


class Interrupts:
    """Totals over all processors. A line's instance carries its action (24/eth0-tx): numbers are given to others."""

    name = "interrupts"
    descriptors = counters.INTERRUPTS

    def collect(self, root: HostRoot) -> list[Reading]:
        """At most ``MAX_LINES`` lines of /proc/interrupts; those beyond are counted as over_limit."""
        return [*self._stat(root), *self._lines(root)]

    def _stat(self, root: HostRoot) -> list[Reading]:
        readings: list[Reading] = []
        for number, line in enumerate(root.lines("proc/stat", self.name), 1):
            # The rest of `intr` is one number a line, thousands of them: only the total is wanted.
            label, *fields = line.split(maxsplit=2 if line.startswith("intr") else -1) or [""]
            value = whole(fields[0]) if fields else None
            if label not in _SINGLE and label != "softirq":
                continue
            if value is None:
                root.note(self.name, "malformed", f"proc/stat:{number}")
            elif label in _SINGLE:
                readings.append(count(self.name, _SINGLE[label], value))
            else:
                readings.extend(count(self.name, _SOFT, whole(field), kind)
                                for kind, field in zip(_SOFT_TYPES, fields[1:], strict=False))
        return readings

    def _lines(self, root: HostRoot) -> list[Reading]:
        path = "proc/interrupts"
        lines = root.lines(path, self.name)
        if not lines:
            return []
        cpus = len(lines[0].split())
        readings: list[Reading] = []
        for number, line in enumerate(lines[1:], 2):
            if not line.strip():
                continue
            if len(readings) == MAX_LINES:
                root.note(self.name, "over_limit", f"{path}:{number}")
                continue
            reading = self._line(line, cpus)
            if reading is None:
                root.note(self.name, "malformed", f"{path}:{number}")
            else:
                readings.append(reading)
        return readings

    def _line(self, line: str, cpus: int) -> Reading | None:
        label, colon, rest = line.partition(":")
        label, fields = label.strip(), rest.split()
        counts = []
        for field in fields[:cpus]:
            value = whole(field)
            if value is None:
                break
            counts.append(value)
        # ERR and MIS have one number whatever the number of processors.
        if not colon or not label or len(counts) < (1 if label in ("ERR", "MIS") else max(cpus, 1)):
            return None
        action = fields[-1][:64] if label.isdecimal() and len(fields) > len(counts) else ""
        return count(self.name, _LINE, sum(counts), f"{label}/{action}" if action else label)

    def inventory(self, root: HostRoot) -> list[Fact]:
        """Nothing."""
        return []
