"""Kernel time of a window, split by what binds it."""

from __future__ import annotations

import numpy as np

from processors.windows.works import KERNEL, Account, Peaks, Sweep, Works, charge, utilisation


def charge_kernels(result: Account, sweep: Sweep, works: Works, peaks: Peaks) -> None:
    chosen = works.placed & (works.kind == KERNEL)
    time = sweep.share(KERNEL)[chosen]
    duration = works.stop[chosen] - works.start[chosen]
    compute, has_flops = utilisation(works.flops[chosen], peaks.flops_per_s, duration)
    memory, has_bytes = utilisation(works.bytes[chosen], peaks.memory_bytes_per_s, duration)
    bound = np.maximum(compute, memory)
    result.counter_errors += int((bound > 1.0).sum())
    used = time * np.minimum(bound, 1.0)
    rest = time - used
    judged = has_flops & has_bytes
    parts = np.array([used[compute >= memory].sum(), used[compute < memory].sum(), rest[judged].sum(),
                      rest[~judged].sum()])
    charge(result, sweep.total(KERNEL), parts, ("compute", "memory_bandwidth", "latency", "kernel_unattributed"))
