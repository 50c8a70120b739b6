"""Network interfaces, from /proc/net/dev."""

from __future__ import annotations

from typing import Final

from fleetscope.contracts import counters
from ingest.hostroot import HostRoot
from ingest.reading import Fact, Reading, count, whole

MAX_INTERFACES: Final = 256
_PATH: Final = "proc/net/dev"
_HEADER_LINES: Final = 2
_FIELDS: Final = 16
_COLUMNS: Final = (0, 1, 2, 3, 8, 9, 10, 11)
"""bytes, packets, errs, drop of the receive side, then of the send side."""


class Network:
    """Bytes with link headers, as the driver counts them; received and sent as the host sees it."""

    name = "network"
    descriptors = counters.NETWORK

    def collect(self, root: HostRoot) -> list[Reading]:
        """The interfaces of the network namespace the agent runs in; those past the limit are counted."""
        readings: list[Reading] = []
        lines = root.lines(_PATH, self.name)
        for number, line in enumerate(lines[_HEADER_LINES:], _HEADER_LINES + 1):
            if number > MAX_INTERFACES + _HEADER_LINES:
                root.note(self.name, "over_limit", f"{_PATH}:{number}")
                continue
            interface, colon, rest = line.rpartition(":")
            values = [whole(field) for field in rest.split()]
            if not colon or not interface.strip() or len(values) != _FIELDS or None in values:
                root.note(self.name, "malformed", f"{_PATH}:{number}")
                continue
            readings.extend(count(self.name, counter, values[column], interface.strip())
                            for counter, column in zip(self.descriptors, _COLUMNS, strict=True))
        return readings

    def inventory(self, root: HostRoot) -> list[Fact]:
        """Speed and PCI device of each interface, where sysfs tells."""
        facts = []
        for interface in root.names("sys/class/net", self.name, optional=True):
            device = root.resolve(f"sys/class/net/{interface}/device")
            if device is None:
                continue
            parent = device.rsplit("/", 1)[-1]
            # An interface that is down answers EINVAL or -1: its speed is not known.
            speed = whole((root.text(f"sys/class/net/{interface}/speed", self.name, optional=True) or "").strip())
            facts.append(Fact("link", interface, "speed", number=speed, unit="Mb/s", parent=parent)
                         if speed else Fact("link", interface, "speed", text="unknown", parent=parent))
        return facts
