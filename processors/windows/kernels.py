"""Kernel time of a window, split by what binds it.

Sources: the roofline (Williams, Waterman, Patterson 2009) for the binding resource; what a counter of stalls may take
is what its absence would have saved, and never more than the roofline leaves unexplained.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from processors.windows.intervals import Bools, Floats, Ints
from processors.windows.readings import Counted
from processors.windows.works import KERNEL, Account, Peaks, Sweep, Works, charge, utilisation

STATES: Final = ("compute", "memory_bandwidth", "on_chip_memory", "throttled", "bank_conflict", "spill", "dma_stall",
                 "latency", "kernel_unattributed")
STALL_NOISE: Final = 0.1
"""Counters that take turns on the same hardware are estimates: what they say of stalls beyond the bytes' own time
counts only from this share of it on."""

EXPLAINED: Final = 0.5
"""A kernel of which arithmetic and bytes explain so much is not bound by on-chip memory."""

NOTHING: Final = Counted()


def charge_kernels(result: Account, sweep: Sweep, works: Works, peaks: Peaks, counted: Counted = NOTHING) -> None:
    """Charge the time of kernels, with what the device's counters saw of the window."""
    chosen = works.placed & (works.kind == KERNEL)
    time = sweep.share(KERNEL)[chosen]
    duration = works.stop[chosen] - works.start[chosen]
    compute, has_flops = _compute(works, chosen, peaks, duration)
    memory, has_bytes = utilisation(works.bytes[chosen], peaks.memory_bytes_per_s, duration)
    bound = np.maximum(compute, memory)
    result.counter_errors += int((bound > 1.0).sum())
    over = np.maximum(bound, 1.0)
    parts = split(time, time * compute / over, time * memory / over, has_flops & has_bytes, counted)
    charge(result, sweep.total(KERNEL), np.array([parts[name] for name in STATES]), STATES)


def _compute(works: Works, chosen: Bools, peaks: Peaks,
             duration: Ints) -> tuple[Floats, Bools]:
    if works.peak is None:
        return utilisation(works.flops[chosen], peaks.flops_per_s, duration)
    peak = works.peak[chosen]
    if peaks.flops_per_s:
        peak = np.where(np.isnan(peak), peaks.flops_per_s, peak)
    known = (works.flops[chosen] >= 0) & (peak > 0)
    used = np.where(known, works.flops[chosen] * (1e9 / np.where(known, peak, 1.0)) / np.maximum(duration, 1), 0.0)
    return used, known


def split(time: Floats, compute: Floats, memory: Floats, judged: Bools,
          counted: Counted) -> dict[str, float]:
    """ns by state. Per kernel: its ``time`` in the window, and of it what arithmetic and bytes take at their peaks.

    1. Spilled bytes are those of the kernels that wait for memory longest; without them these would be shorter by them.
    2. Where engines waited for memory longer than its bytes take at the peak, memory gave less (row misses,
       imbalance): that time is the memory's.
    3. On-chip memory is used by all kernels alike, but where others explain most of the time it hides behind them; it
       binds where it is longer than the others.
    4. A lowered clock stretches what runs in the engines' clock domain. Then conflicts, copies in the way, and the rest
       is latency. What together exceeds the unexplained time is scaled to it.
    """
    spill = np.zeros_like(time)
    waits = np.maximum(memory - compute, 0.0)
    if counted.spill_share and waits.any():
        spill = _spread(counted.spill_share * float(memory.sum()), waits, waits)
    base_memory = memory - spill
    extra = _slow_memory(time, compute, memory, waits, counted)
    share = counted.spill_share or 0.0
    base_memory, spill = base_memory + extra * (1.0 - share), spill + extra * share
    base = np.maximum(compute, base_memory)
    binding = np.where(compute >= base_memory, 0, 1)
    conflict, clocked = np.zeros_like(time), compute
    if counted.on_chip_ns is not None:
        base, binding, conflict, clocked = _on_chip(time, base, binding, compute, np.maximum(base, memory + extra),
                                                    counted)
    elif counted.conflict_ns:
        rest = np.maximum(time - base - spill, 0.0)
        conflict = _spread(counted.conflict_ns, rest, rest)
    stretch = counted.stretch or 0.0
    throttled = np.maximum(clocked * (1.0 + stretch) - np.maximum(base + spill, clocked), 0.0)
    rest = np.maximum(time - base, 0.0)
    open_ = np.where(memory > 0, np.maximum(rest - spill - throttled - conflict, 0.0), 0.0)
    dma = _spread(counted.dma_ns or 0.0, open_, open_)
    saved = spill + throttled + conflict + dma
    scale = np.where(saved > rest, rest / np.where(saved > 0, saved, 1.0), 1.0)
    left = np.maximum(rest - saved * scale, 0.0)
    found = {name: float(base[binding == code].sum()) for code, name in enumerate(STATES[:3])}
    found |= {"throttled": float((throttled * scale).sum()), "bank_conflict": float((conflict * scale).sum()),
              "spill": float((spill * scale).sum()), "dma_stall": float((dma * scale).sum())}
    return found | {"latency": float(left[judged].sum()), "kernel_unattributed": float(left[~judged].sum())}


def _spread(total: float, weight: Floats, most: Floats) -> Floats:
    """``total`` in proportion to ``weight``, at most ``most`` each."""
    summed = float(weight.sum())
    return np.minimum(total * weight / summed, most) if total > 0 and summed > 0 else np.zeros_like(weight)


def _hidden_first(total: float, time: Floats, others: Floats) -> Floats:
    """``total`` in proportion to ``time``; where a kernel's time is explained by others, no more than these hide, and
    what is left lies in the kernels that are mostly unexplained."""
    busy = _spread(total, time, time)
    explained = others >= EXPLAINED * time
    if explained.all() or not explained.any():
        return np.minimum(busy, others) if explained.any() else busy
    busy = np.where(explained, np.minimum(busy, others), busy)
    open_ = np.where(explained, 0.0, time)
    return np.where(explained, busy, _spread(total - float(busy[explained].sum()), open_, open_))


def _slow_memory(time: Floats, compute: Floats, memory: Floats, waits: Floats, counted: Counted) -> Floats:
    if counted.memory_stall_ns is None:
        return np.zeros_like(time)
    stalled = counted.memory_stall_ns + (counted.spill_stall_ns or 0.0)
    beyond = stalled - float(waits.sum())
    if beyond <= STALL_NOISE * stalled:
        return np.zeros_like(time)
    rest = np.where(waits > 0, np.maximum(time - np.maximum(compute, memory), 0.0), 0.0)
    return _spread(beyond, rest, rest)


def _on_chip(time: Floats, base: Floats, binding: Ints, compute: Floats,
             others: Floats, counted: Counted) -> tuple[Floats, Ints, Floats, Floats]:
    """(base, binding, conflict, time in the clock domain) with what on-chip memory takes."""
    ideal, conflict = counted.on_chip_ns or 0.0, counted.conflict_ns or 0.0
    busy = _hidden_first(ideal + conflict, time, others)
    alone = busy * (ideal / (ideal + conflict)) if ideal + conflict > 0 else busy
    binds = alone > base
    lost = np.maximum(busy - np.maximum(alone, others), 0.0)
    return (np.where(binds, alone, base), np.where(binds, 2, binding), lost,
            np.maximum(compute, np.where(busy > others, busy, 0.0)))
