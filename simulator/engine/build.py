"""The state a world starts with, from its specification."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from simulator.engine import layout
from simulator.engine.agenda import start_tree, tree_size
from simulator.engine.core import CAP_CHANGE, INLET_CHANGE, LINK_CHANGE, POWER_CHANGE, SLOWNESS_CHANGE
from simulator.engine.layout import CAUSE_COUNT, NEVER, Ints, Records, State
from simulator.engine.program import NONE, QUEUES
from simulator.engine.spec import Device, WorldSpec

_ROWS: Final = 1 << 14
_CALLS: Final = 256
_CLOCK_STEPS: Final = 64
_WHAT: Final = {"link": LINK_CHANGE, "clock_cap": CAP_CHANGE, "slowness": SLOWNESS_CHANGE,
                "power_limit": POWER_CHANGE, "inlet": INLET_CHANGE}


def build(spec: WorldSpec) -> State:
    """State at time 0: every rank needs a program, every device idles at full clock and inlet temperature."""
    ranks, groups = len(spec.devices), len(spec.groups)
    paths = _paths(spec)
    components = _components(paths, len(spec.links))
    stride = max(device.queue_depth for device in spec.devices)
    size = tree_size(ranks * (1 + QUEUES) + groups + 2)
    flows, flow_links, active, component_table = _flows(spec, paths, components)
    slow, threads = _threads(spec)
    changes = _changes(spec)
    state = State(
        meta=_meta(spec, stride), due=np.zeros(size, np.int64), winners=np.zeros(size, np.int64), threads=threads,
        calls=np.zeros((ranks, len(layout.CALL_COLUMNS), _CALLS), np.int64),
        works=np.zeros((ranks, len(layout.WORK_COLUMNS), _CALLS), np.float64),
        numbers=np.zeros((ranks, _CALLS), np.int64), lanes=np.zeros(ranks * QUEUES, layout.LANE),
        ops=np.zeros(ranks * QUEUES * stride, layout.OP), devices=_devices(spec), flows=flows, flow_links=flow_links,
        active=active, links=_links(spec, paths, components), groups=_groups(spec),
        members=_ints([rank for group in spec.groups for rank in group.members]), components=component_table,
        dirty_devices=np.zeros(ranks, np.int64), dirty_components=np.zeros(len(component_table), np.int64),
        dirty_groups=np.zeros(groups, np.int64), changes=changes, slow=slow,
        tick=np.zeros((ranks, len(layout.SERIES))), charged=np.zeros((ranks, CAUSE_COUNT)),
        host_out=np.zeros((len(layout.HOST_COLUMNS), _ROWS), np.int64),
        device_out=np.zeros((len(layout.DEVICE_COLUMNS), _ROWS + ranks), np.int64),
        slot_out=np.zeros((_ROWS // 16 + ranks, 2 + CAUSE_COUNT), np.int64),
        reading_out=np.zeros((_ROWS // 16 + ranks, 2 + len(layout.SERIES))))
    state.due[:] = NEVER
    first = ranks * (1 + QUEUES) + groups
    if len(changes):
        state.due[first] = changes["at"][0]
    state.due[first + 1] = spec.tick_ns
    start_tree(state.due, state.winners)
    return state


def _ints(values: list[int]) -> Ints:
    return np.array(values, dtype=np.int64)


def _meta(spec: WorldSpec, stride: int) -> Ints:
    meta = np.zeros(layout.META, np.int64)
    meta[layout.SEED] = spec.seed % (1 << 63)
    meta[layout.TICK_NS], meta[layout.READING_NS] = spec.tick_ns, spec.reading_ns
    meta[layout.SLOT_NS], meta[layout.STRIDE] = spec.slot_ns, stride
    meta[layout.NEEDY] = len(spec.devices)
    return meta


def _paths(spec: WorldSpec) -> list[tuple[tuple[int, ...], float]]:
    """(links, cap) of every flow: 4 a device (in, in remote, out, out remote), then one a group."""
    paths: list[tuple[tuple[int, ...], float]] = []
    for d in spec.devices:
        for near, far, cap, far_cap in ((d.copy_in, d.copy_in_remote, d.copy_in_cap, d.copy_in_remote_cap),
                                        (d.copy_out, d.copy_out_remote, d.copy_out_cap, d.copy_out_remote_cap)):
            paths += [(near, cap), (near if far is None else far, min(cap, far_cap))]
    return paths + [(group.path, group.cap) for group in spec.groups]


def _components(paths: list[tuple[tuple[int, ...], float]], links: int) -> list[int]:
    """Component of each flow: flows that share a link, directly or through others, are in one."""
    parent = list(range(len(paths) + links))

    def root(node: int) -> int:
        while parent[node] != node:
            parent[node] = parent[parent[node]]
            node = parent[node]
        return node

    for flow, (path, _) in enumerate(paths):
        for link in path:
            parent[root(len(paths) + link)] = root(flow)
    number: dict[int, int] = {}
    return [number.setdefault(root(flow), len(number)) for flow in range(len(paths))]


def _flows(spec: WorldSpec, paths: list[tuple[tuple[int, ...], float]], components: list[int]) \
        -> tuple[Records, Ints, Ints, Records]:
    flows = np.zeros(len(paths), layout.FLOW)
    ends = np.cumsum([len(path) for path, _ in paths])
    flows["last"] = ends
    flows["first"] = ends - [len(path) for path, _ in paths]
    flows["cap"] = [cap for _, cap in paths]
    flows["component"] = components
    copies = 4 * len(spec.devices)
    flows["group"] = NONE
    flows["group"][copies:] = range(len(spec.groups))
    flows["device"][:copies] = np.arange(copies) // 4
    table = np.zeros(max(components) + 1, layout.COMPONENT)
    sizes = np.bincount(components)
    table["first"] = np.cumsum(sizes) - sizes
    return flows, _ints([link for path, _ in paths for link in path]), np.zeros(len(paths), np.int64), table


def _links(spec: WorldSpec, paths: list[tuple[tuple[int, ...], float]], components: list[int]) -> Records:
    links = np.zeros(len(spec.links), layout.LINK)
    links["capacity"] = spec.links
    links["component"] = NONE
    for (path, _), component in zip(paths, components, strict=True):
        links["component"][list(path)] = component
    return links


def _groups(spec: WorldSpec) -> Records:
    groups = np.zeros(len(spec.groups), layout.GROUP)
    sizes = np.array([len(group.members) for group in spec.groups], dtype=np.int64)
    groups["last"] = np.cumsum(sizes)
    groups["first"] = groups["last"] - sizes
    return groups


def _devices(spec: WorldSpec) -> Records:
    table = np.zeros(len(spec.devices), layout.DEVICE)
    for record, device in zip(table, spec.devices, strict=True):
        _device(record, device, spec.tick_ns)
    return table


def _device(record: Any, device: Device, tick_ns: int) -> None:
    for name in ("copy_hbm", "collective_hbm", "idle_w", "max_w", "matrix_w", "vector_w", "hbm_w", "throttle_c",
                 "full_mhz", "min_mhz"):
        record[name] = getattr(device, name)
    record["mhz"] = record["cap_mhz"] = device.full_mhz
    record["step_mhz"] = max(1, device.full_mhz // _CLOCK_STEPS)
    record["depth"], record["latency"] = device.queue_depth, device.launch_latency_ns
    record["noise"], record["hbm_rate"] = device.launch_noise_ns, device.hbm_bytes_per_ns
    record["slowness"] = 1.0
    record["c_per_w"], record["inlet"], record["celsius"] = device.thermal_c_per_w, device.inlet_c, device.inlet_c
    record["alpha"] = tick_ns / (device.thermal_s * 1e9 + tick_ns)


def _threads(spec: WorldSpec) -> tuple[Records, Records]:
    """(intervals of slowness by rank and start, threads)."""
    ordered = sorted(spec.host_slow, key=lambda slow: (slow.rank, slow.start_ns))
    slow = np.array([(item.start_ns, item.end_ns, item.factor) for item in ordered], dtype=layout.SLOW)
    threads = np.zeros(len(spec.devices), layout.THREAD)
    ranks = [item.rank for item in ordered]
    threads["cursor"] = np.searchsorted(ranks, np.arange(len(threads)), side="left")
    threads["last_slow"] = np.searchsorted(ranks, np.arange(len(threads)), side="right")
    threads["needs"] = 1
    return slow, threads


def _changes(spec: WorldSpec) -> Records:
    ordered = sorted(spec.changes, key=lambda change: change.at_ns)
    rows = [(change.at_ns, _WHAT[change.what], change.index, change.value) for change in ordered]
    return np.array(rows, dtype=layout.CHANGE)
