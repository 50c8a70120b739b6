"""Processor time by mode, from /proc/stat, in ticks of 1/USER_HZ seconds as the kernel gives them."""

from __future__ import annotations

import os

from fleetscope.contracts import counters
from ingest.hostroot import HostRoot
from ingest.reading import Fact, Reading, count, whole

_MODES_ALWAYS = 4


class Cpu:
    """Every mode of every processor, and their total as the kernel adds it up."""

    name = "cpu"
    descriptors = counters.CPU

    def collect(self, root: HostRoot) -> list[Reading]:
        """Modes an old kernel does not have are missing; a malformed line is counted and left out."""
        readings: list[Reading] = []
        for number, line in enumerate(root.lines("proc/stat", self.name), 1):
            label, *fields = line.split() or [""]
            if not label.startswith("cpu"):
                continue
            ticks = [whole(field) for field in fields[:len(self.descriptors)]]
            known = [tick for tick in ticks if tick is not None]
            if len(known) < max(len(ticks), _MODES_ALWAYS) or (label != "cpu" and whole(label[3:]) is None):
                root.note(self.name, "malformed", f"proc/stat:{number}")
                continue
            instance = "total" if label == "cpu" else label
            padded = [*ticks, *[None] * (len(self.descriptors) - len(ticks))]
            readings.extend(count(self.name, counter, tick, instance)
                            for counter, tick in zip(self.descriptors, padded, strict=True))
        return readings

    def inventory(self, root: HostRoot) -> list[Fact]:
        """The rate of the ticks, and how many processors there are."""
        cpus = sum(line[:3] == "cpu" and line[3:4].isdigit() for line in root.lines("proc/stat", self.name))
        return [Fact("clock", "jiffies", "hz", number=os.sysconf("SC_CLK_TCK"), unit="ticks/s"),
                Fact("host", "cpu", "cpus_online", number=cpus, unit="cpus")]
