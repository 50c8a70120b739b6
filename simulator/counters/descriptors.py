"""Counters that the simulated fleet publishes, and those that a kind of machine has."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from fleetscope.contracts.counters import ACCELERATOR, PCI, CounterDescriptor, Kind, Payload, Viewpoint
from fleetscope.errors import UsageError
from simulator.machine import Machine

PERIOD_NS: Final = 100_000_000
_PERIOD_S: Final = PERIOD_NS / 1e9


def _of(name: str, unit: str, doc: str, width_bits: int = 64, kind: Kind = "monotonic",
        viewpoint: Viewpoint = "device", payload: Payload = "none", *, multiplexed: bool = False) -> CounterDescriptor:
    return CounterDescriptor(name, unit, width_bits, kind, viewpoint, payload, _PERIOD_S, multiplexed, doc)


def _gauge(name: str, unit: str, doc: str, viewpoint: Viewpoint = "device") -> CounterDescriptor:
    return _of(name, unit, doc, kind="gauge", viewpoint=viewpoint)


_GAUGES: Final = {d.name: replace(d, period_s=_PERIOD_S) for d in ACCELERATOR}
ENGINES: Final = (
    _GAUGES["engine_active"],
    _of("pipe_active_cycles", "cycles", "an engine's pipe was occupied; instance: matrix, vector", 48,
        multiplexed=True),
    _of("sram_access_cycles", "cycles", "on-chip accesses, without waits", 48, multiplexed=True),
    _of("sram_conflict_cycles", "cycles", "on-chip accesses that waited for a bank", 48, multiplexed=True),
    _of("stall_cycles", "cycles", "engines waited; instance: memory, spill, dma", 48, multiplexed=True),
    _of("spill_bytes", "B", "moved because on-chip memory was full", payload="payload"),
)
MEMORY: Final = (
    _of("hbm_bytes", "B", "moved by kernels, read and written", payload="payload"),
    _of("hbm_read_bytes", "B", "read by kernels, over-fetch included", payload="payload"),
    _of("hbm_write_bytes", "B", "written by kernels", payload="payload"),
    _of("hbm_row_hits", "accesses", "found their row open", 48, multiplexed=True),
    _of("hbm_row_misses", "accesses", "had to open their row", 48, multiplexed=True),
    _of("hbm_turnarounds", "changes", "changes between reading and writing", 40, multiplexed=True),
    _of("hbm_channel_bytes", "B", "moved by one channel; instance: max, mean", 48, payload="payload"),
)
LINK: Final = (
    _of("pcie_rx_bytes", "B", "received from the host", payload="payload"),
    _of("pcie_tx_bytes", "B", "sent to the host", payload="payload"),
    _of("pcie_rx_bytes_32", "B", "as pcie_rx_bytes in a narrow register", 32, payload="payload"),
    _of("pcie_rx_wire_bytes_32", "B", "received with packet headers", 32, payload="wire"),
    _of("pcie_tx_wire_bytes_32", "B", "sent with packet headers and read requests", 32, payload="wire"),
    _of("pcie_replays", "packets", "sent again after an error", 32),
    _of("fabric_tx_bytes", "B", "sent to peers over their own links", payload="payload"),
)
"""With those of `fleetscope.contracts.counters.PCI`, which the agent reads from real hosts under the same names."""
STATE: Final = tuple(_GAUGES[name] for name in ("power_w", "temperature_c", "clock_mhz", "throttle_reasons"))
HOST: Final = (
    _gauge("requests_running", "requests", "being served; instance: rank", "host"),
    _gauge("requests_waiting", "requests", "queued; instance: rank", "host"),
    _of("cpu_run_wait_us", "us", "the serving thread was ready and waited for a processor; instance: rank",
        viewpoint="host"),
)
_PCI: Final = tuple(d for d in PCI if d.name != "pci_aer_fatal")
DEVICE: Final = (*ENGINES, *MEMORY, *LINK, *_PCI, *STATE)
DESCRIPTORS: Final = (*DEVICE, *HOST)
"""Every counter of the fleet; those of the host are of its serving processes."""
BY_NAME: Final = {descriptor.name: descriptor for descriptor in DESCRIPTORS}


def device_descriptors(machine: Machine) -> tuple[CounterDescriptor, ...]:
    """Counters a kind has; UsageError names one it hides that does not exist."""
    if unknown := sorted(set(machine.hidden_counters) - {d.name for d in DEVICE}):
        raise UsageError(f"machine {machine.kind}: hidden_counters: there is no counter {unknown[0]!r}")
    hidden = set(machine.hidden_counters) | (set() if machine.fabric_bytes_per_s else {"fabric_tx_bytes"})
    return tuple(descriptor for descriptor in DEVICE if descriptor.name not in hidden)


def all_descriptors(machines: Iterator[Machine] | tuple[Machine, ...]) -> tuple[CounterDescriptor, ...]:
    """What a host with these machines publishes, in the order of `DESCRIPTORS`."""
    names = {descriptor.name for machine in machines for descriptor in device_descriptors(machine)}
    return (*(d for d in DEVICE if d.name in names), *HOST)
