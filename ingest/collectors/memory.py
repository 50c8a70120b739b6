"""Host memory, from /proc/meminfo."""

from __future__ import annotations

from typing import Final

from fleetscope.contracts import counters
from ingest.hostroot import HostRoot
from ingest.reading import Fact, Reading, gauge, whole

_KEYS: Final = ("MemTotal", "MemFree", "MemAvailable", "Buffers", "Cached", "AnonPages", "Shmem", "Slab", "Unevictable",
                "Mlocked", "Dirty", "Writeback", "SwapTotal", "SwapFree")
_FIELDS: Final = dict(zip(_KEYS, counters.MEMORY, strict=True))
_PATH: Final = "proc/meminfo"


class Memory:
    """Sizes in bytes; a key the kernel does not print is missing."""

    name = "memory"
    descriptors = counters.MEMORY

    def collect(self, root: HostRoot) -> list[Reading]:
        """One reading a descriptor, or none at all where the file cannot be read."""
        values: dict[str, float] = {}
        lines = root.lines(_PATH, self.name)
        for number, line in enumerate(lines, 1):
            key, _, rest = line.partition(":")
            if key not in _FIELDS:
                continue
            size, *unit = rest.split() or [""]
            kibibytes = whole(size)
            if kibibytes is None or unit != ["kB"]:
                root.note(self.name, "malformed", f"{_PATH}:{number}")
                continue
            values[key] = kibibytes * 1024
        return [gauge(self.name, counter, values.get(key)) for key, counter in _FIELDS.items()] if lines else []

    def inventory(self, root: HostRoot) -> list[Fact]:
        """Nothing: the total is a gauge, as memory can be plugged."""
        return []
