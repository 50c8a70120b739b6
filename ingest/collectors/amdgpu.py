"""AMD GPUs, from the files their driver puts under /sys/class/drm/cardN/device."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from fleetscope.contracts import counters
from ingest.collectors.pci_tree import ADDRESS
from ingest.hostroot import HostRoot
from ingest.reading import Fact, Reading, count, gauge, whole

_BASE: Final = "sys/class/drm"
_CARD: Final = re.compile(r"card\d+")
_MARKER: Final = "mem_info_vram_total"
_FILES: Final = dict(zip(("gpu_busy_percent", "mem_info_vram_used", _MARKER, "mem_info_gtt_used", "mem_info_gtt_total",
                          "pcie_replay_count"), counters.AMDGPU, strict=True))


class AmdGpu:
    """Load and memory of each card. The device id is its PCI address, or the card's name where none can be told."""

    name = "amdgpu"
    descriptors = counters.AMDGPU

    def collect(self, root: HostRoot) -> list[Reading]:
        """A file that is there and cannot be read gives a missing reading: a sleeping card refuses some."""
        readings = []
        for device, base in _cards(root, self.name):
            offered = set(root.names(base, self.name))
            for file, counter in _FILES.items():
                if file not in offered:
                    continue
                text = root.text(f"{base}/{file}", self.name)
                value = whole(text.strip()) if text is not None else None
                if text is not None and value is None:
                    root.note(self.name, "malformed", f"{base}/{file}")
                readings.append(gauge(self.name, counter, value, device=device) if counter.kind == "gauge"
                                else count(self.name, counter, value, device=device))
        return readings

    def inventory(self, root: HostRoot) -> list[Fact]:
        """The card as an accelerator of the host: product, firmware and memory."""
        facts = []
        for device, base in _cards(root, self.name):
            facts.append(Fact("device", device, "driver", "amdgpu"))
            for attribute in ("product_name", "vbios_version"):
                text = root.text(f"{base}/{attribute}", self.name, optional=True)
                if text and text.strip():
                    facts.append(Fact("device", device, attribute, text.strip()))
            size = whole((root.text(f"{base}/{_MARKER}", self.name) or "").strip())
            if size is not None:
                facts.append(Fact("device", device, "memory_bytes", number=size, unit="B"))
        return facts


def _cards(root: HostRoot, collector: str) -> Iterator[tuple[str, str]]:
    """(device id, folder) of every card that has the driver's memory file."""
    for card in root.names(_BASE, collector, optional=True):
        base = f"{_BASE}/{card}/device"
        if _CARD.fullmatch(card) and root.resolve(f"{base}/{_MARKER}") is not None:
            last = (root.resolve(base) or "").rsplit("/", 1)[-1]
            yield (last if ADDRESS.fullmatch(last) else card), base
