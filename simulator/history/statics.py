"""What hosts state of themselves in a history: inventory at the start and after each deployment, and its marks."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa

from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.derived import ALIGNED_INVENTORY, ALIGNED_MARKS
from fleetscope.contracts.schema import Contract
from fleetscope.errors import Origin
from simulator.history.plan import PURPOSE, Plan, Served, Versions
from simulator.physics.roofline import peak_flops_per_s, peak_hbm_bytes_per_s

Row = dict[str, object]

CLOCK: Final = "monotonic_raw"
_EPOCH: Final = 20


def static_batches(plan: Plan) -> Iterator[Batch]:
    """Aligned batches of inventory and marks, host by host; each carries an origin, as if it had been published."""
    for host, name in enumerate(plan.host_names):
        job = plan.job_of(host)
        timeline = plan.versions_of(host)
        inventory = _timed(plan, 0, [*_hardware(plan, job), *_software(plan, job, timeline[0][1])])
        for (_, before), (window, after) in pairwise(timeline):
            known = {tuple(row.items()) for row in _software(plan, job, before)}
            inventory += _timed(plan, window, [row for row in _software(plan, job, after)
                                               if tuple(row.items()) not in known])
        yield _batch(plan, ALIGNED_INVENTORY, host, name, inventory)
        marks = [row for event in plan.by_host[host] if event.kind == "deployment"
                 for row in _timed(plan, event.start, [_mark(event.subject, job, event.version)])]
        first = _timed(plan, 0, [_mark("model", job, job.versions.model)])
        yield _batch(plan, ALIGNED_MARKS, host, name, first + marks)


def _mark(subject: str, job: Served, version: str) -> Row:
    return {"kind": "deployment", "subject": subject, "name": job.model.name if subject == "model" else subject,
            "version": version}


def _timed(plan: Plan, window: int, rows: list[Row]) -> list[Row]:
    time_ns = plan.start_ns + window * plan.window_ns
    bound = plan.history.clock_err_ns
    return [{"time_ticks": time_ns, "time_ns": time_ns, "err_ns": bound, "utc_err_ns": bound, "alignment": "settled",
             **row} for row in rows]


def _row(kind: str, component: str, attribute: str, value: str | float, unit: str | None = None,
         parent: str | None = None) -> Row:
    text, number = (value, None) if isinstance(value, str) else (None, float(value))
    return {"kind": kind, "component": component, "parent": parent, "attribute": attribute, "text": text,
            "number": number, "unit": unit}


def _hardware(plan: Plan, job: Served) -> Iterator[Row]:
    machine = job.machine
    yield _row("host", "host", "kind", "simulated")
    for device in plan.device_names:
        yield _row("device", device, "kind", machine.kind)
        yield _row("device", device, "memory_bytes", machine.hbm_bytes, "B")
        yield _row("link", f"{device}/pcie", "width_lanes", machine.pcie_lanes, "lanes", device)
        yield _row("link", f"{device}/pcie", "speed_gt_s", machine.pcie_gt_s, "GT/s", device)
        if machine.published_peaks:
            yield _row("peak", device, "flops_per_s", machine.matrix_flops_per_s, "flop/s")
            yield _row("peak", device, "memory_bytes_per_s", machine.hbm_bytes_per_s, "B/s")
            yield _row("peak", device, "achievable_flops_per_s", peak_flops_per_s(machine, "matrix"), "flop/s")
            yield _row("peak", device, "achievable_memory_bytes_per_s", peak_hbm_bytes_per_s(machine), "B/s")


def _software(plan: Plan, job: Served, versions: Versions) -> Iterator[Row]:
    yield _row("software", "model", "name", job.model.name)
    yield _row("software", "model", "version", versions.model)
    yield _row("software", "compiler", "version", versions.compiler)
    for device in plan.device_names:
        yield _row("software", f"{device}/driver", "version", versions.driver, parent=device)
        yield _row("software", f"{device}/firmware", "version", versions.firmware, parent=device)


def _batch(plan: Plan, contract: Contract, host: int, name: str, rows: list[Row]) -> Batch:
    epoch = int(np.random.default_rng([plan.seed, PURPOSE, _EPOCH, host]).integers(1, 1 << 40))
    times = pa.array([row["time_ns"] for row in rows], pa.int64()).to_numpy()
    header = Header(contract.name, contract.version, name, f"history/{name}", epoch, 0, len(rows), CLOCK,
                    min_time=int(times.min()), max_time=int(times.max()))
    return Batch(header, from_rows(contract, rows), Origin("history", 0, host))
