"""What a simulated host states about itself: devices, peaks, topology, links, versions, counter descriptors, marks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pyarrow as pa

from fleetscope.contracts.batch import from_rows
from fleetscope.contracts.counters import attributes
from fleetscope.contracts.raw import INVENTORY, MARKS
from simulator.clocks import NS, HostClocks
from simulator.counters.descriptors import all_descriptors
from simulator.machine import Machine
from simulator.physics.pcie import Link
from simulator.scenario import Scenario
from simulator.topology.hosts import HostSpec

Row = dict[str, object]


def inventory_rows(scenario: Scenario, host: HostSpec, clocks: HostClocks, tau_ns: int, links: Mapping[int, Link]) \
        -> pa.RecordBatch:
    """Everything the host has, read at τ on its reference clock; ``links``: of each device, as negotiated then."""
    rows = [*_host(scenario, host), *_fabric(host), *_counters(host)]
    for index, clock in enumerate(clocks.devices):
        rows += _device(host, index, clock.name, clock.hz, clock.bits)
        rows += _link(host, index, clock.name, links[index])
    ticks = clocks.raw.at(tau_ns)
    return from_rows(INVENTORY, [{"time_ticks": ticks, **row} for row in rows])


def link_rows(host: HostSpec, clocks: HostClocks, tau_ns: int, links: Mapping[int, Link]) -> pa.RecordBatch:
    """Links that have negotiated anew, read at τ."""
    ticks = clocks.raw.at(tau_ns)
    return from_rows(INVENTORY, [{"time_ticks": ticks, **row} for device, link in sorted(links.items())
                                 for row in _link(host, device, clocks.devices[device].name, link)])


def mark_rows(scenario: Scenario, host: HostSpec, clocks: HostClocks, from_ns: int, to_ns: int, *,
              fresh: bool) -> pa.RecordBatch | None:
    """Deployments in [from, to), with those of the models as the workload starts if ``fresh``; None: no mark."""
    marks: list[Row] = []
    if fresh:
        marks += [_mark(clocks, from_ns, "model", name, version, f"scenario {scenario.name}")
                  for name, version in _models(scenario, host)]
    for deployment in scenario.deployments:
        at_ns = round(deployment.at_s * NS)
        if from_ns <= at_ns < to_ns and deployment.host in (None, host.index):
            marks.append(_mark(clocks, at_ns, deployment.subject, deployment.name, deployment.version, ""))
    return from_rows(MARKS, marks) if marks else None


def _mark(clocks: HostClocks, at_ns: int, subject: str, name: str, version: str, detail: str) -> Row:
    return {"time_ticks": clocks.raw.at(at_ns), "kind": "deployment", "subject": subject, "name": name,
            "version": version, "detail": detail or None}


def _models(scenario: Scenario, host: HostSpec) -> list[tuple[str, str]]:
    """(name, version) of the models that jobs run on this host, each once."""
    models = [job.made.model for job in scenario.jobs if job.hosts is None or host.index in job.hosts]
    return sorted({(str(model.name), str(model.version)) for model in models})


def _row(kind: str, component: str, attribute: str, value: str | float, unit: str | None = None,
         parent: str | None = None) -> Row:
    text, number = (value, None) if isinstance(value, str) else (None, float(value))
    return {"kind": kind, "component": component, "attribute": attribute, "text": text, "number": number, "unit": unit,
            "parent": parent}


def _host(scenario: Scenario, host: HostSpec) -> Iterator[Row]:
    yield _row("host", "host", "kind", "simulated")
    yield _row("host", "host", "numa_nodes", max(host.tree.numa) + 1, "nodes")
    for name, version in _models(scenario, host)[:1]:
        yield _row("software", "model", "version", version)
        yield _row("software", "model", "name", name)


def _fabric(host: HostSpec) -> Iterator[Row]:
    """Root ports on their nodes, switches on what they hang on, uplinks with what they negotiated and could."""
    for port in host.tree.root_ports:
        node = f"numa{port.numa}"
        yield _row("link", port.name, "kind", "root_port", parent=node)
        yield _row("link", port.name, "max_width_lanes", port.lanes, "lanes", node)
        yield _row("link", port.name, "max_speed_gt_s", port.gt_s, "GT/s", node)
    for switch in host.tree.switches:
        yield _row("link", switch.name, "kind", "switch", parent=switch.upstream)
    for link in host.tree.links:
        if link.device is None:
            for attribute, value, unit in _speeds(link.lanes, link.gt_s, link.max_lanes, link.max_gt_s):
                yield _row("link", link.name, attribute, value, unit, link.parent)


def _speeds(lanes: int, gt_s: float, max_lanes: int, max_gt_s: float) -> list[tuple[str, float, str]]:
    return [("width_lanes", lanes, "lanes"), ("speed_gt_s", gt_s, "GT/s"), ("max_width_lanes", max_lanes, "lanes"),
            ("max_speed_gt_s", max_gt_s, "GT/s")]


def _device(host: HostSpec, index: int, device: str, hz: int, bits: int) -> Iterator[Row]:
    m = host.machine
    at = host.tree.links[host.tree.paths[index][0]].parent
    yield _row("device", device, "kind", m.kind, parent=at)
    yield _row("device", device, "numa_node", host.tree.numa[index], parent=at)
    yield _row("device", device, "memory_bytes", m.hbm_bytes, "B")
    yield _row("device", device, "clock_mhz", m.clock_mhz, "MHz")
    yield _row("clock", device, "hz", hz, "ticks/s", device)
    yield _row("clock", device, "bits", bits, "bits", device)
    yield from _peaks(m, device)
    for engine in ("matrix", "vector"):
        yield _row("engine", f"{device}/engine:{engine}", "kind", engine, parent=device)
    yield _row("software", f"{device}/driver", "version", m.driver_version, parent=device)
    yield _row("software", f"{device}/firmware", "version", m.firmware_version, parent=device)


def _peaks(m: Machine, device: str) -> Iterator[Row]:
    """Peaks, where the vendor publishes them; else analysis has to calibrate."""
    if not m.published_peaks:
        return
    yield _row("peak", device, "flops_per_s", m.matrix_flops_per_s, "flop/s")
    yield _row("peak", device, "vector_flops_per_s", m.vector_flops_per_s, "flop/s")
    yield _row("peak", device, "memory_bytes_per_s", m.hbm_bytes_per_s, "B/s")
    yield _row("peak", device, "achievable_flops_per_s", m.matrix_flops_per_s * m.matrix_achievable, "flop/s")
    yield _row("peak", device, "achievable_vector_flops_per_s", m.vector_flops_per_s * m.vector_achievable, "flop/s")
    yield _row("peak", device, "achievable_memory_bytes_per_s", m.hbm_bytes_per_s * m.hbm_achievable, "B/s")
    yield _row("peak", device, "power_w", m.max_w, "W")
    if m.fabric_bytes_per_s:
        yield _row("peak", device, "fabric_bytes_per_s", m.fabric_bytes_per_s, "B/s")


def _link(host: HostSpec, index: int, device: str, negotiated: Link) -> Iterator[Row]:
    link = host.tree.links[host.tree.paths[index][0]]
    for attribute, value, unit in (*_speeds(negotiated.lanes, negotiated.gt_s, link.max_lanes, link.max_gt_s),
                                   ("mps_bytes", float(host.mps_bytes), "B"),
                                   ("mrrs_bytes", float(host.mrrs_bytes), "B")):
        yield _row("link", f"{device}/pcie", attribute, value, unit, device)


def _counters(host: HostSpec) -> Iterator[Row]:
    for counter in all_descriptors((host.machine,)):
        for stated in attributes(counter):
            yield {"kind": "counter", "component": counter.name, "attribute": stated.name, "text": stated.text,
                   "number": stated.number, "unit": stated.unit, "parent": None}
