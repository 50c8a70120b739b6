"""One file a source; ``all_collectors`` is the list the agent runs."""

from __future__ import annotations

from ingest.collectors.amdgpu import AmdGpu
from ingest.collectors.block import Block
from ingest.collectors.cpu import Cpu
from ingest.collectors.infiniband import InfiniBand
from ingest.collectors.interrupts import Interrupts
from ingest.collectors.memory import Memory
from ingest.collectors.network import Network
from ingest.collectors.pci import Pci
from ingest.collectors.pressure import Pressure
from ingest.reading import Collector


def all_collectors() -> tuple[Collector, ...]:
    """A fresh instance of every collector."""
    return Cpu(), Memory(), Pressure(), Interrupts(), Network(), Block(), Pci(), InfiniBand(), AmdGpu()
