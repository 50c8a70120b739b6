"""What a device and its counters state of themselves, as attributes of contract `inventory`.

A kind that does not publish its peaks leaves them out: size of memory, clock and link are all that is known of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from fleetscope.contracts.counters import CounterDescriptor, attributes
from simulator.machine import Machine
from simulator.physics.pcie import Link


class Fact(NamedTuple):
    """One row of the inventory, its time apart."""

    kind: str
    component: str
    attribute: str
    text: str | None = None
    number: float | None = None
    unit: str | None = None
    parent: str | None = None


def device_facts(machine: Machine, device: str, tick_hz: int, parent: str | None = None) -> Iterator[Fact]:
    """The device, its engines, clock and software, and its peaks where its kind publishes them."""
    yield Fact("device", device, "kind", machine.kind, parent=parent)
    yield Fact("device", device, "memory_bytes", None, float(machine.hbm_bytes), "B", parent)
    yield Fact("device", device, "clock_mhz", None, machine.clock_mhz, "MHz", parent)
    yield Fact("device", device, "power_limit_w", None, machine.max_w, "W", parent)
    yield Fact("clock", device, "hz", None, float(tick_hz), "ticks/s", device)
    for engine in ("matrix", "vector"):
        yield Fact("engine", f"{device}/engine:{engine}", "kind", engine, parent=device)
    yield Fact("software", f"{device}/driver", "version", machine.driver_version, parent=device)
    yield Fact("software", f"{device}/firmware", "version", machine.firmware_version, parent=device)
    if machine.published_peaks:
        yield from _peaks(machine, device)


def _peaks(machine: Machine, device: str) -> Iterator[Fact]:
    m = machine
    nominal = (("flops_per_s", m.matrix_flops_per_s, m.matrix_achievable, "flop/s"),
               ("vector_flops_per_s", m.vector_flops_per_s, m.vector_achievable, "flop/s"),
               ("memory_bytes_per_s", m.hbm_bytes_per_s, m.hbm_achievable, "B/s"))
    for name, peak, achievable, unit in nominal:
        yield Fact("peak", device, name, None, peak, unit)
        yield Fact("peak", device, f"achievable_{name}", None, peak * achievable, unit)
    if m.fabric_bytes_per_s:
        yield Fact("peak", device, "bus_bytes_per_s", None, m.fabric_bytes_per_s, "B/s")


def link_facts(link: Link, capable: Link, device: str) -> Iterator[Fact]:
    """The device's link as negotiated, and what device and slot are both capable of."""
    for attribute, value, unit in (
            ("width_lanes", link.lanes, "lanes"), ("speed_gt_s", link.gt_s, "GT/s"),
            ("max_width_lanes", capable.lanes, "lanes"), ("max_speed_gt_s", capable.gt_s, "GT/s"),
            ("mps_bytes", link.mps_bytes, "B"), ("mrrs_bytes", link.mrrs_bytes, "B")):
        yield Fact("link", f"{device}/pcie", attribute, None, float(value), unit, device)


def counter_facts(descriptors: Iterable[CounterDescriptor]) -> Iterator[Fact]:
    """Every property of counters."""
    for descriptor in descriptors:
        for stated in attributes(descriptor):
            yield Fact("counter", descriptor.name, stated.name, stated.text, stated.number, stated.unit)
