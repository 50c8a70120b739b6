"""What a simulated host states about itself: devices, peaks, links, versions, counter descriptors, and its mark."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from fleetscope.contracts.batch import from_rows
from fleetscope.contracts.raw import INVENTORY, MARKS
from simulator.clocks import HostClocks
from simulator.readings import DESCRIPTORS
from simulator.scenario import Scenario

Row = dict[str, object]


def inventory_rows(scenario: Scenario, clocks: HostClocks, tau_ns: int) -> pa.RecordBatch:
    """Everything the host has, read at τ on its reference clock."""
    rows = [*_host(scenario), *_counters()]
    for clock in clocks.devices:
        rows += _device(scenario, clock.name, clock.hz, clock.bits)
        rows += _link(scenario, clock.name)
    ticks = clocks.raw.at(tau_ns)
    return from_rows(INVENTORY, [{"time_ticks": ticks, **row} for row in rows])


def mark_rows(scenario: Scenario, clocks: HostClocks, tau_ns: int) -> pa.RecordBatch:
    """The deployment of the model that starts the workload."""
    return from_rows(MARKS, [{
        "time_ticks": clocks.raw.at(tau_ns), "kind": "deployment", "subject": "model", "name": scenario.model.name,
        "version": scenario.model.version, "detail": f"scenario {scenario.name}",
    }])


def _row(kind: str, component: str, attribute: str, value: str | float, unit: str | None = None,
         parent: str | None = None) -> Row:
    text, number = (value, None) if isinstance(value, str) else (None, float(value))
    return {"kind": kind, "component": component, "attribute": attribute, "text": text, "number": number, "unit": unit,
            "parent": parent}


def _host(scenario: Scenario) -> Iterator[Row]:
    yield _row("host", "host", "kind", "simulated")
    yield _row("software", "model", "version", scenario.model.version)
    yield _row("software", "model", "name", scenario.model.name)


def _device(scenario: Scenario, device: str, hz: int, bits: int) -> Iterator[Row]:
    spec = scenario.device
    yield _row("device", device, "kind", spec.kind)
    yield _row("device", device, "memory_bytes", spec.memory_bytes, "B")
    yield _row("device", device, "clock_mhz", spec.clock_mhz, "MHz")
    yield _row("clock", device, "hz", hz, "ticks/s", device)
    yield _row("clock", device, "bits", bits, "bits", device)
    yield _row("peak", device, "flops_per_s", spec.flops_per_s, "flop/s")
    yield _row("peak", device, "vector_flops_per_s", spec.vector_flops_per_s, "flop/s")
    yield _row("peak", device, "memory_bytes_per_s", spec.memory_bytes_per_s, "B/s")
    yield _row("peak", device, "achievable_flops_per_s", spec.flops_per_s * spec.flops_efficiency, "flop/s")
    yield _row("peak", device, "achievable_memory_bytes_per_s", spec.memory_bytes_per_s * spec.memory_efficiency, "B/s")
    for engine in ("matrix", "vector"):
        yield _row("engine", f"{device}/engine:{engine}", "kind", engine, parent=device)
    yield _row("software", f"{device}/driver", "version", spec.driver_version, parent=device)
    yield _row("software", f"{device}/firmware", "version", spec.firmware_version, parent=device)


def _link(scenario: Scenario, device: str) -> Iterator[Row]:
    link = scenario.link
    values = (("width_lanes", link.width_lanes, "lanes"), ("speed_gt_s", link.speed_gt_s, "GT/s"),
              ("max_width_lanes", link.max_width_lanes, "lanes"), ("max_speed_gt_s", link.max_speed_gt_s, "GT/s"),
              ("mps_bytes", link.mps_bytes, "B"))
    for attribute, value, unit in values:
        yield _row("link", f"{device}/pcie", attribute, float(value), unit, device)


def _counters() -> Iterator[Row]:
    for name, unit, width, kind, viewpoint, payload in DESCRIPTORS:
        yield _row("counter", name, "unit", unit)
        yield _row("counter", name, "width_bits", width, "bits")
        yield _row("counter", name, "kind", kind)
        yield _row("counter", name, "viewpoint", viewpoint)
        yield _row("counter", name, "payload", payload)
        yield _row("counter", name, "period_s", 0.1, "s")
