"""InfiniBand and RoCE ports, from /sys/class/infiniband."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fleetscope.contracts import counters
from ingest.hostroot import HostRoot
from ingest.reading import Fact, Reading, count, whole

_BASE: Final = "sys/class/infiniband"
_FILES: Final = ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets", "port_xmit_wait",
                 "symbol_error", "link_error_recovery", "link_downed", "port_rcv_errors", "port_xmit_discards")
_WORD_BYTES: Final = 4
_WORDS: Final = ("port_xmit_data", "port_rcv_data")


class InfiniBand:
    """Traffic and errors of each port. Data is counted in words of 4 bytes; error counters stop at their top."""

    name = "infiniband"
    descriptors = counters.INFINIBAND

    def collect(self, root: HostRoot) -> list[Reading]:
        """A counter the adapter does not offer ("N/A (no PMA)") is missing; none at all without adapters."""
        readings = []
        for device, port in _ports(root, self.name):
            for file, counter in zip(_FILES, self.descriptors, strict=True):
                path = f"{_BASE}/{device}/ports/{port}/counters/{file}"
                text = root.text(path, self.name, optional=True)
                if text is None:
                    continue
                value = whole(text.strip())
                if value is None and not text.startswith("N/A"):
                    root.note(self.name, "malformed", path)
                if value is not None and file in _WORDS:
                    value *= _WORD_BYTES
                readings.append(count(self.name, counter, value, f"port{port}", device))
        return readings

    def inventory(self, root: HostRoot) -> list[Fact]:
        """Rate, state and link layer of each port, as the kernel words them."""
        facts = []
        for device, port in _ports(root, self.name):
            for attribute in ("rate", "state", "link_layer"):
                text = root.text(f"{_BASE}/{device}/ports/{port}/{attribute}", self.name, optional=True)
                if text and text.strip():
                    facts.append(Fact("link", f"{device}/port{port}", attribute, text.strip(), parent=device))
        return facts


def _ports(root: HostRoot, collector: str) -> Iterator[tuple[str, str]]:
    for device in root.names(_BASE, collector, optional=True):
        for port in root.names(f"{_BASE}/{device}/ports", collector):
            yield device, port
