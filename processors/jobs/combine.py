"""The accounting of a job out of that of its devices. Pure; plain values."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from fleetscope.contracts.derived import STATE_NAMES
from processors.bottleneck.rules import Rules, verdict

KERNEL_STATES: Final = ("compute", "memory_bandwidth", "on_chip_memory", "interconnect", "latency", "throttled",
                        "bank_conflict", "spill", "dma_stall", "kernel_unattributed")
IDLE_STATES: Final = ("host", "host_input", "host_contention", "host_pageable", "launch_overhead", "dependency",
                      "no_demand")
SUMMED: Final = ("kernels", "transfers", "orphans", "received_rows", "late_rows", "dropped_rows", "lost_rows")
AMOUNTS: Final = ("flops", "memory_bytes", "h2d_bytes", "d2h_bytes")
KEPT: Final = ("window_ns", "revision", *(f"{state}_ns" for state in STATE_NAMES), *SUMMED, *AMOUNTS, "err_ns",
               "coverage", "counter_errors")
_VERDICT: Final = ("cause", "share", "share_low", "share_high", "runner_up", "confidence", "recoverable_ns", "advice")

Share = Mapping[str, Any]
"""A device's window: what of ``KEPT`` is not 0, and its role."""


def kept(row: Mapping[str, Any]) -> dict[str, Any]:
    """What is remembered of a row of the contract ``job_shares``."""
    found = {name: row[name] for name in KEPT if row.get(name)}
    return found | {name: None for name in ("err_ns", *AMOUNTS) if row.get(name) is None} | {"role": row["role"]}


def combined(job: str, start_ns: int, shares: Mapping[tuple[str, str], Share], missing: int,
             rules: Rules) -> dict[str, Any]:
    """The row of the contract ``job_windows`` of the shares of a job in a window, by host and device.

    States are sums and add up to ``device_ns``. Coverage is the mean over devices; one of the ``missing`` counts as 0,
    so that a job of which more than 1 − ``min_coverage`` is silent has no verdict.
    """
    rows = list(shares.values())
    window_ns = rows[0]["window_ns"]
    states = {f"{state}_ns": sum(row.get(f"{state}_ns", 0) for row in rows) for state in STATE_NAMES}
    device_ns = sum(row["window_ns"] for row in rows)
    coverage = sum(row.get("coverage", 0.0) for row in rows) / (len(rows) + missing)
    totals = {name: sum(row.get(name, 0) for row in rows) for name in SUMMED}
    amounts = {name: _known(rows, name) for name in AMOUNTS}
    errors = [row.get("err_ns", 0) for row in rows]
    err = None if None in errors else max(errors)
    whole = {"host": "", "device": "", "job": job, "window_start_ns": start_ns, "revision": 0, "window_ns": device_ns,
             "err_ns": err, "coverage": coverage, **states, **totals, **amounts}
    found = verdict(whole, rules)
    return {
        "job": job, "window_start_ns": start_ns, "window_ns": window_ns,
        # grows with every revision of a device's window and with every device
        "revision": sum(row.get("revision", 0) + 1 for row in rows),
        "hosts": len({host for host, _ in shares}), "devices": len(rows),
        "active_devices": sum(row["role"] == "active" for row in rows), "missing_devices": missing,
        "device_ns": device_ns, "err_ns": err, "coverage": coverage, **states, **amounts,
        "kernels": totals["kernels"], "transfers": totals["transfers"], **_balance(shares, states, device_ns),
        **{name: found[name] for name in _VERDICT}, "evidence": _evidence(found["evidence"], shares, missing),
    }


def busy_ns(share: Share) -> int:
    """Time with a kernel."""
    return sum(share.get(f"{state}_ns", 0) for state in KERNEL_STATES)


def _balance(shares: Mapping[tuple[str, str], Share], states: Mapping[str, int], device_ns: int) -> dict[str, Any]:
    busy = {where: busy_ns(share) for where, share in shares.items()}
    total, known = sum(busy.values()), device_ns - states["unknown_ns"]
    host, device = max(sorted(busy), key=lambda where: busy[where])
    return {"busy_ns": total, "idle_ns": sum(states[f"{state}_ns"] for state in IDLE_STATES),
            "utilisation": total / known if known > 0 else None,
            "imbalance": busy[host, device] * len(busy) / total if total else None,
            "busiest_host": host if total else None, "busiest_device": device if total else None}


def _known(rows: Sequence[Share], name: str) -> int | None:
    found = [row.get(name, 0) for row in rows]
    told = [value for value in found if value is not None]
    return sum(told) if told else None


def _evidence(text: str, shares: Mapping[tuple[str, str], Share], missing: int) -> str:
    numbers = json.loads(text) | {"devices": len(shares), "missing_devices": missing}
    return json.dumps(numbers, sort_keys=True, separators=(",", ":"))
