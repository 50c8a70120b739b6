"""Descriptors: what a counter counts, in which unit, how wide it is and whose viewpoint it takes.

A reader needs the descriptor to turn two readings into a rate: a monotonic counter wraps at ``width_bits``, a
saturating one stops at its top (a value there is not a number), a gauge is a value by itself. Producers publish their
descriptors as inventory rows of kind ``counter``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

Kind = Literal["monotonic", "gauge", "saturating"]
Viewpoint = Literal["host", "device", "none"]
Payload = Literal["payload", "wire", "none"]


@dataclass(frozen=True, slots=True)
class CounterDescriptor:
    """One counter. ``viewpoint``: whose receive and send a direction means; ``payload``: whether bytes count headers.

    ``period_s`` is how often it is sampled by default; ``multiplexed`` counters share hardware and are extrapolated.
    """

    name: str
    unit: str
    width_bits: int
    kind: Kind = "monotonic"
    viewpoint: Viewpoint = "none"
    payload: Payload = "none"
    period_s: float = 1.0
    multiplexed: bool = False
    doc: str = ""

    def __post_init__(self) -> None:
        if not self.name or not self.unit:
            raise ValueError("a counter needs a name and a unit")
        if not 1 <= self.width_bits <= 64:
            raise ValueError(f"{self.name}: {self.width_bits} bits, not 1 to 64")
        if self.period_s <= 0:
            raise ValueError(f"{self.name}: the period must be positive")

    @property
    def top(self) -> int:
        """The largest value the register can show."""
        return (1 << self.width_bits) - 1


class Attribute(NamedTuple):
    """One stated property of a descriptor, as an inventory row has it."""

    name: str
    text: str | None = None
    number: float | None = None
    unit: str | None = None


def attributes(descriptor: CounterDescriptor) -> Iterator[Attribute]:
    """The descriptor as inventory attributes of component ``descriptor.name``, kind ``counter``."""
    yield Attribute("unit", descriptor.unit)
    yield Attribute("width_bits", number=descriptor.width_bits, unit="bits")
    yield Attribute("kind", descriptor.kind)
    yield Attribute("viewpoint", descriptor.viewpoint)
    yield Attribute("payload", descriptor.payload)
    yield Attribute("period_s", number=descriptor.period_s, unit="s")
    yield Attribute("multiplexed", "yes" if descriptor.multiplexed else "no")
    if descriptor.doc:
        yield Attribute("doc", descriptor.doc)


def _gauge(name: str, unit: str, doc: str, viewpoint: Viewpoint = "none") -> CounterDescriptor:
    return CounterDescriptor(name, unit, 64, "gauge", viewpoint, doc=doc)


CPU_MODES: Final = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
CPU: Final = tuple(
    CounterDescriptor(f"cpu_{mode}", "jiffies", 64, doc=f"processor time in mode {mode}; instance cpuN or total"
                      + ("; contained in cpu_user" if mode == "guest" else "")
                      + ("; contained in cpu_nice" if mode == "guest_nice" else ""))
    for mode in CPU_MODES
)
"""Ticks of 1/USER_HZ seconds; the rate is the inventory row (clock, jiffies, hz)."""

MEMORY: Final = (
    _gauge("memory_total", "B", "usable memory"),
    _gauge("memory_free", "B", "unused memory"),
    _gauge("memory_available", "B", "memory that new work can get without swapping, as the kernel estimates it"),
    _gauge("memory_buffers", "B", "block device cache"),
    _gauge("memory_cached", "B", "page cache"),
    _gauge("memory_anonymous", "B", "anonymous pages"),
    _gauge("memory_shared", "B", "shared memory and tmpfs"),
    _gauge("memory_slab", "B", "kernel structures"),
    _gauge("memory_unevictable", "B", "pages that cannot be reclaimed, pinned ones included"),
    _gauge("memory_locked", "B", "pages locked by mlock"),
    _gauge("memory_dirty", "B", "waiting to be written back"),
    _gauge("memory_writeback", "B", "being written back"),
    _gauge("swap_total", "B", "swap space"),
    _gauge("swap_free", "B", "unused swap space"),
)

PRESSURE: Final = (
    CounterDescriptor("pressure_some_us", "us", 64, doc="time in which at least one task waited; instance: resource"),
    CounterDescriptor("pressure_full_us", "us", 64, doc="time in which all tasks waited; instance: resource"),
    _gauge("pressure_some_avg10", "%", "share of the last 10 s in which at least one task waited"),
    _gauge("pressure_full_avg10", "%", "share of the last 10 s in which all tasks waited"),
)

INTERRUPTS: Final = (
    CounterDescriptor("interrupts_total", "interrupts", 64, doc="interrupts served, all lines"),
    CounterDescriptor("interrupts", "interrupts", 32, doc="one line over all cpus; each cpu's share wraps at 32 bits"),
    CounterDescriptor("softirqs", "softirqs", 64, doc="soft interrupts; instance: type"),
    CounterDescriptor("context_switches", "switches", 64, doc="context switches"),
    CounterDescriptor("forks", "processes", 64, doc="processes and threads made"),
)

NETWORK: Final = tuple(
    CounterDescriptor(f"network_{direction}_{what}", unit, 64, viewpoint="host",
                      payload="wire" if what == "bytes" else "none",
                      doc=f"{what} {'received' if direction == 'rx' else 'sent'}; instance: interface")
    for direction in ("rx", "tx")
    for what, unit in (("bytes", "B"), ("packets", "packets"), ("errors", "errors"), ("dropped", "packets"))
)

BLOCK: Final = (
    CounterDescriptor("disk_reads", "requests", 64, viewpoint="host", doc="reads completed; instance: block device"),
    CounterDescriptor("disk_read_bytes", "B", 64, viewpoint="host", payload="payload", doc="sectors read times 512"),
    CounterDescriptor("disk_read_ms", "ms", 32, viewpoint="host", doc="time of all reads, added up"),
    CounterDescriptor("disk_writes", "requests", 64, viewpoint="host", doc="writes completed"),
    CounterDescriptor("disk_write_bytes", "B", 64, viewpoint="host", payload="payload",
                      doc="sectors written times 512"),
    CounterDescriptor("disk_write_ms", "ms", 32, viewpoint="host", doc="time of all writes, added up"),
    CounterDescriptor("disk_busy_ms", "ms", 32, doc="time with at least one request under way"),
    _gauge("disk_in_flight", "requests", "requests under way"),
)

PCI: Final = (
    CounterDescriptor("pci_aer_correctable", "errors", 64, viewpoint="device", doc="instance: kind of error"),
    CounterDescriptor("pci_aer_nonfatal", "errors", 64, viewpoint="device", doc="instance: kind of error"),
    CounterDescriptor("pci_aer_fatal", "errors", 64, viewpoint="device", doc="instance: kind of error"),
    _gauge("pci_link_width", "lanes", "negotiated width of the device's link", "device"),
    _gauge("pci_link_speed", "GT/s", "negotiated speed of the device's link", "device"),
)

INFINIBAND: Final = (
    CounterDescriptor("ib_tx_bytes", "B", 64, viewpoint="device", payload="wire", doc="words sent times 4"),
    CounterDescriptor("ib_rx_bytes", "B", 64, viewpoint="device", payload="wire", doc="words received times 4"),
    CounterDescriptor("ib_tx_packets", "packets", 64, viewpoint="device", doc="instance: port"),
    CounterDescriptor("ib_rx_packets", "packets", 64, viewpoint="device", doc="instance: port"),
    CounterDescriptor("ib_tx_wait", "ticks", 32, viewpoint="device", doc="data ready and no credit to send it"),
    CounterDescriptor("ib_symbol_errors", "errors", 16, "saturating", "device", doc="minor link errors"),
    CounterDescriptor("ib_link_recoveries", "events", 8, "saturating", "device", doc="link error recoveries"),
    CounterDescriptor("ib_link_downed", "events", 8, "saturating", "device", doc="failed recoveries"),
    CounterDescriptor("ib_rx_errors", "packets", 16, "saturating", "device", doc="packets received with an error"),
    CounterDescriptor("ib_tx_discards", "packets", 16, "saturating", "device", doc="packets not sent"),
)

AMDGPU: Final = (
    _gauge("gpu_busy", "%", "share of time with work on the device", "device"),
    _gauge("gpu_memory_used", "B", "device memory in use", "device"),
    _gauge("gpu_memory_total", "B", "device memory", "device"),
    _gauge("gpu_host_memory_used", "B", "host memory mapped for the device, in use", "device"),
    _gauge("gpu_host_memory_total", "B", "host memory that can be mapped for the device", "device"),
    CounterDescriptor("gpu_pcie_replays", "replays", 64, viewpoint="device", doc="PCIe packets sent again"),
)

CLOCK: Final = (
    _gauge("clock_disciplined", "flag", "1: a daemon keeps REALTIME, 0: nobody does"),
    _gauge("clock_frequency", "ppb", "correction of REALTIME's rate, frequency and tick together"),
    _gauge("clock_correction", "ns", "what the kernel has still to slew away"),
    _gauge("clock_max_error", "us", "largest error of REALTIME by the kernel's estimate; its ceiling is 16 s"),
    _gauge("clock_est_error", "us", "likely error of REALTIME as its daemon told the kernel"),
    CounterDescriptor("host_suspended_us", "us", 63, doc="time asleep since boot: BOOTTIME less MONOTONIC"),
)

LINKS: Final = (
    *(CounterDescriptor(f"peer_probes_{what}", "exchanges", 63, viewpoint="host", doc=f"{doc}; instance: peer")
      for what, doc in (("sent", "questions sent"), ("answered", "answered in time"), ("lost", "not answered in 1 s"),
                        ("duplicate", "answers that came again"), ("overtaken", "left out, a later one was quicker"),
                        ("used", "published as clock samples"))),
    _gauge("peer_rtt_min", "us", "least round trip of the last 64 exchanges; instance: peer", "host"),
    _gauge("peer_rtt_median", "us", "median round trip of the last 64 exchanges; instance: peer", "host"),
    CounterDescriptor("probe_packets", "packets", 63, viewpoint="host",
                      doc="packets answered, refused or stamped by the kernel; instance: which of these, or why"),
)

AGENT: Final = (
    CounterDescriptor("agent_unreadable", "sources", 63, doc="sources that could not be read; instance: "
                      "collector/reason"),
    CounterDescriptor("agent_collect_us", "us", 63, doc="time spent reading; instance: collector"),
)

HOST_COUNTERS: Final = (*CPU, *MEMORY, *PRESSURE, *INTERRUPTS, *NETWORK, *BLOCK, *PCI, *INFINIBAND, *AMDGPU, *CLOCK,
                        *LINKS, *AGENT)
"""Every counter the agent reads from a host."""

BY_NAME: Final = {d.name: d for d in HOST_COUNTERS}

ACCELERATOR: Final = (
    _gauge("engine_active", "share", "time with work since the last reading; instance: engine or copy direction",
           "device"),
    _gauge("power_w", "W", "drawn, mean of 100 ms", "device"),
    _gauge("temperature_c", "degC", "of the chip", "device"),
    _gauge("clock_mhz", "MHz", "of the engines", "device"),
    _gauge("throttle_reasons", "bits", "1: power limit, 2: heat; since the last reading", "device"),
)
"""Gauges that every accelerator is read by under these names, whoever made it."""

NO_NUMBERS: Final = ("missing", "sentinel", "saturated", "stuck", "reset", "jitter")
"""Statuses of readings that say nothing of how much was counted. What wrapped does, at the register's width."""

KNOWN: Final = BY_NAME | {d.name: d for d in ACCELERATOR}
"""Counters whose meaning does not depend on who publishes them."""

UNIT_LIMITS: Final[dict[str, tuple[float, float]]] = {
    "share": (0.0, 1.01), "%": (0.0, 101.0), "flag": (0.0, 1.0), "bits": (0.0, 2.0 ** 53), "W": (0.0, 1e5),
    "degC": (-60.0, 200.0), "MHz": (0.0, 1e5), "GT/s": (0.0, 1e3), "lanes": (0.0, 32.0), "B": (0.0, 2.0 ** 60),
    "requests": (0.0, 2.0 ** 53),
}
"""What a gauge can show at all, by unit, both ends included. Shares may be rounded up by 1 %; chips are made for −55 °C
to 175 °C; a link has at most 32 lanes; no device draws 100 kW, and no chip is clocked at 100 GHz."""
