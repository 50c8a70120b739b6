"""Block devices, from /proc/diskstats."""

from __future__ import annotations

from typing import Final

from fleetscope.contracts import counters
from ingest.hostroot import HostRoot
from ingest.reading import Fact, Reading, count, gauge, whole

MAX_DEVICES: Final = 256
SECTOR_BYTES: Final = 512
"""The unit of /proc/diskstats, whatever the device's own sector size."""
_PATH: Final = "proc/diskstats"
_FIELDS: Final = 11


class Block:
    """Whole devices and partitions. RAM disks and loop devices that never did anything are left out."""

    name = "block"
    descriptors = counters.BLOCK

    def collect(self, root: HostRoot) -> list[Reading]:
        """Devices past the limit are counted as over_limit."""
        readings: list[Reading] = []
        devices = 0
        for number, line in enumerate(root.lines(_PATH, self.name), 1):
            _, _, device, *fields = line.split() if len(line.split()) > 2 else ("", "", "")
            known = [value for value in map(whole, fields[:_FIELDS]) if value is not None]
            if len(known) < _FIELDS:
                root.note(self.name, "malformed", f"{_PATH}:{number}")
            elif device.startswith(("ram", "loop")) and not any(known):
                continue
            elif devices == MAX_DEVICES:
                root.note(self.name, "over_limit", f"{_PATH}:{number}")
            else:
                devices += 1
                readings.extend(self._device(device, known))
        return readings

    def _device(self, device: str, fields: list[int]) -> list[Reading]:
        reads, _, read_sectors, read_ms, writes, _, write_sectors, write_ms, in_flight, busy_ms, _ = fields
        values = (reads, read_sectors * SECTOR_BYTES, read_ms, writes, write_sectors * SECTOR_BYTES, write_ms, busy_ms)
        return [*(count(self.name, counter, value, device)
                  for counter, value in zip(self.descriptors, values, strict=False)),
                gauge(self.name, self.descriptors[-1], in_flight, device)]

    def inventory(self, root: HostRoot) -> list[Fact]:
        """Nothing."""
        return []
