"""What is added up for each operator, and the row it becomes. Pure; plain values.

The split by what binds is the one of `windows`: of a kernel the longer of flops over peak and bytes over peak goes to
its resource, the rest is latency, or unattributed where work or peaks are not known. It is made for all kernels of a
bin of intensity together, so that peaks may become known after the kernels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from processors.operators.histogram import UNJUDGED, quantile_ns
from processors.windows.intervals import apportion
from processors.windows.inventory import Inventory

OTHER: Final = "(other)"

Key = tuple[str, str | None, str | None, str, str]
"""Device, job, team, name, engine."""


@dataclass(slots=True)
class Sum:
    """Calls of one operator. ``lengths``: calls by bin; ``work``: [ns, flops, bytes] by bin of intensity; ``flops`` and
    ``bytes`` None where no call states them."""

    calls: int = 0
    total_ns: int = 0
    flops: int | None = None
    bytes: int | None = None
    lengths: dict[int, int] = field(default_factory=dict)
    work: dict[int, list[int]] = field(default_factory=dict)

    def plain(self) -> list[Any]:
        """As JSON takes it."""
        return [self.calls, self.total_ns, self.flops, self.bytes, sorted(self.lengths.items()),
                sorted(self.work.items())]

    @classmethod
    def of(cls, plain: list[Any]) -> Sum:
        """Of ``plain``."""
        calls, total, flops, bytes_, lengths, work = plain
        return cls(calls, total, flops, bytes_, dict(map(tuple, lengths)), {place: list(v) for place, v in work})


@dataclass(slots=True)
class Bucket:
    """One window of one host. ``rows``: spans counted; ``told``: of these, when it was published last."""

    sums: dict[Key, Sum] = field(default_factory=dict)
    rows: int = 0
    told: int = -1

    def sum(self, key: Key, max_names: int) -> Sum:
        """The sum of an operator; past ``max_names`` of a device all that are new go into one."""
        found = self.sums.get(key)
        if found is None:
            device, job, team, _, engine = key
            if sum(1 for known in self.sums if known[0] == device) >= max_names:
                key = (device, job, team, OTHER, engine)
                found = self.sums.get(key)
        if found is None:
            found = self.sums[key] = Sum()
        return found


@dataclass(frozen=True, slots=True)
class Reach:
    """What an engine can reach; None where the inventory does not say."""

    flops_per_s: float | None
    bytes_per_s: float | None
    full_clock_mhz: float | None


def reach(inventory: Inventory, device: str, engine: str) -> Reach:
    """Achievable peaks of an engine of a device."""
    peaks = inventory.peaks(device)
    return Reach(inventory.engine_peaks(device).get(engine) or peaks.flops_per_s, peaks.memory_bytes_per_s,
                 inventory.full_mhz(device))


def bound_ns(total: Sum, limits: Reach) -> tuple[int, int, int, int]:
    """(compute, memory, latency, unattributed) ns; they add up to ``total_ns``."""
    parts = np.zeros(4)
    for place, (time_ns, flops, bytes_) in sorted(total.work.items()):
        compute = flops * 1e9 / limits.flops_per_s if limits.flops_per_s else 0.0
        memory = bytes_ * 1e9 / limits.bytes_per_s if limits.bytes_per_s else 0.0
        used = min(max(compute, memory), float(time_ns))
        parts[0 if compute >= memory else 1] += used
        judged = place != UNJUDGED and limits.flops_per_s and limits.bytes_per_s
        parts[2 if judged else 3] += time_ns - used
    compute_ns, memory_ns, latency_ns, unattributed_ns = apportion(total.total_ns, parts)
    return int(compute_ns), int(memory_ns), int(latency_ns), int(unattributed_ns)


def row(host: str, key: Key, total: Sum, limits: Reach, kind: str | None) -> dict[str, Any]:
    """A row of the contract ``operators`` without its window and revision."""
    device, job, team, name, engine = key
    compute, memory, latency, unattributed = bound_ns(total, limits)
    places = sorted(total.lengths)
    return {
        "host": host, "device": device, "device_kind": kind, "job": job, "team": team, "name": name, "engine": engine,
        "calls": total.calls, "total_ns": total.total_ns, "flops": total.flops, "bytes": total.bytes,
        "compute_ns": compute, "memory_ns": memory, "latency_ns": latency, "unattributed_ns": unattributed,
        "p50_ns": quantile_ns(total.lengths, 0.5), "p99_ns": quantile_ns(total.lengths, 0.99),
        "duration_bins": places, "duration_calls": [total.lengths[place] for place in places],
        "peak_flops_per_s": limits.flops_per_s, "peak_bytes_per_s": limits.bytes_per_s,
        "full_clock_mhz": limits.full_clock_mhz,
    }
