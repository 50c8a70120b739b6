"""What the counters of a device say of a window: amounts by interpolation between readings.

A window is closed when every reading before its end is there, but no later one need be: amounts between the last
reading and the end go on at the rate of the last interval, whatever has arrived besides. So the result depends on
neither the order nor the cut of the input.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

import numpy as np

from fleetscope.contracts.batch import Batch
from processors.windows.intervals import Bools

Readings = dict[str, list[list[float]]]
"""[time ns, value] by series, see ``series_of``; times as integers."""

RUN_WAIT: Final = "cpu_run_wait_us"
USED: Final = frozenset({"clock_mhz", "engine_active", "pipe_active_cycles", "stall_cycles", "sram_access_cycles",
                         "sram_conflict_cycles", "spill_bytes", "hbm_bytes", RUN_WAIT})
"""Counters that accounting looks at."""
NOT_ENGINES: Final = frozenset({"pcie_h2d", "pcie_d2h", "collective"})
"""Instances of ``engine_active`` that run no kernels."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What counters saw of a device in a window; ns where nothing else is said, None where no counter says it.

    ``stretch``: how much longer work in the engines' clock domain took than at full clock, minus 1; ``on_chip_ns``:
    on-chip memory at work, at full clock and without conflicts; ``spill_share``: of the bytes of device memory, those
    of spills; ``dma_ns``: kernels waited for the memory traffic of copies; ``occupied_ns``: by track, for how long an
    engine's pipe was occupied, at full clock.
    """

    stretch: float | None = None
    on_chip_ns: float | None = None
    conflict_ns: float | None = None
    spill_share: float | None = None
    memory_stall_ns: float | None = None
    spill_stall_ns: float | None = None
    dma_ns: float | None = None
    occupied_ns: Mapping[str, float] = field(default_factory=dict)


def series_of(device: str, counter: str, instance: str) -> str:
    """Key of a series; the device is empty for counters of the host."""
    return f"{device}\x00{counter}\x00{instance}"


def keep(readings: Readings, batch: Batch, new: Bools, from_ns: int | None) -> None:
    """Take the ``new`` rows of a batch of aligned counters that accounting looks at, none before ``from_ns``."""
    codes, words = batch.symbols("counter")
    wanted = [code for code, word in enumerate(words.to_pylist()) if word in USED]
    if not wanted:
        return
    rows = batch.rows.filter(np.isin(codes.to_numpy(zero_copy_only=False), wanted) & new)
    columns = [rows.column(name).to_pylist()
               for name in ("time_ns", "device", "counter", "instance", "raw", "value", "err_ns", "status")]
    for time_ns, device, counter, instance, raw, value, err_ns, status in zip(*columns, strict=True):
        number = raw if raw is not None else value
        if number is None or err_ns is None or status not in ("ok", "wrapped") \
                or (from_ns is not None and time_ns < from_ns):
            continue
        readings.setdefault(series_of(device or "", counter, instance or ""), []).append([time_ns, number])


def forget(readings: Readings, before_ns: int) -> None:
    """Drop readings before a time, and series that have none left."""
    for key in list(readings):
        left = [entry for entry in readings[key] if entry[0] >= before_ns]
        if left:
            readings[key] = left
        else:
            del readings[key]


def touches(times: Iterable[int], lookback_ns: int, window_ns: int, before_ns: int) -> set[int]:
    """Starts of the windows before ``before_ns`` that look at readings of ``times``."""
    return {window * window_ns for time in times
            for window in range(time // window_ns, min(time + lookback_ns, before_ns - 1) // window_ns + 1)}


def counted(readings: Mapping[str, list[list[float]]], device: str, start_ns: int, stop_ns: int, lookback_ns: int,
            full_mhz: float | None) -> Counted:
    """What the device's counters say of ``[start_ns, stop_ns)``; readings from ``start_ns - lookback_ns`` on are used.

    Cycles become time at full clock ``full_mhz``; without it no counter of cycles says anything.
    """
    def amount(counter: str, instance: str = "") -> float | None:
        found = readings.get(series_of(device, counter, instance))
        return _amount(found, start_ns, stop_ns, lookback_ns) if found else None

    def cycles(counter: str, instance: str = "") -> float | None:
        found = amount(counter, instance)
        return None if found is None or not full_mhz else found * 1e3 / full_mhz

    prefix = series_of(device, "pipe_active_cycles", "")
    pipes = {f"engine:{engine}": busy for engine in (key[len(prefix):] for key in readings if key.startswith(prefix))
             if (busy := cycles("pipe_active_cycles", engine)) is not None}
    moved, spilled = amount("hbm_bytes"), amount("spill_bytes")
    return Counted(
        _stretch(readings, device, start_ns, stop_ns, lookback_ns, full_mhz), cycles("sram_access_cycles"),
        cycles("sram_conflict_cycles"), min(spilled / moved, 1.0) if moved and spilled is not None else None,
        cycles("stall_cycles", "memory"), cycles("stall_cycles", "spill"), cycles("stall_cycles", "dma"), pipes)


def run_wait_share(readings: Mapping[str, list[list[float]]], rank: int | None, start_ns: int, stop_ns: int,
                   lookback_ns: int) -> float:
    """Share of the window in which the thread that serves a rank was ready and waited for a processor; 0: not known."""
    found = readings.get(series_of("", RUN_WAIT, "" if rank is None else str(rank)))
    amount = _amount(found, start_ns, stop_ns, lookback_ns) if found else None
    return min(amount * 1e3 / (stop_ns - start_ns), 1.0) if amount else 0.0


def _within(entries: list[list[float]], start_ns: int, stop_ns: int, lookback_ns: int) -> list[list[float]]:
    """In order of time: the last reading before the window and all inside it."""
    found = sorted(entry for entry in entries if start_ns - lookback_ns <= entry[0] < stop_ns)
    first = next((at for at in range(len(found) - 1, -1, -1) if found[at][0] <= start_ns), 0)
    return found[first:]


def _amount(entries: list[list[float]], start_ns: int, stop_ns: int, lookback_ns: int) -> float | None:
    """How far a monotonic counter moved in the window; None without two readings. Steps back tell nothing: the rest of
    the window stands for them."""
    found = _within(entries, start_ns, stop_ns, lookback_ns)
    moved, seen, rate = 0.0, 0, None
    for (t0, v0), (t1, v1) in pairwise(found):
        if v1 < v0 or t1 <= t0:
            continue
        overlap = min(t1, stop_ns) - max(t0, start_ns)
        rate = (v1 - v0) / (t1 - t0)
        moved += rate * overlap
        seen += int(overlap)
    if rate is None:
        return None
    tail = stop_ns - max(int(found[-1][0]), start_ns)
    moved, seen = moved + rate * tail, seen + tail
    return moved * (stop_ns - start_ns) / seen if seen else None


def _mean(entries: list[list[float]], start_ns: int, stop_ns: int, lookback_ns: int) -> dict[int, float]:
    """Gauge by time of reading."""
    return {int(time): value for time, value in _within(entries, start_ns, stop_ns, lookback_ns)}


def _stretch(readings: Mapping[str, list[list[float]]], device: str, start_ns: int, stop_ns: int, lookback_ns: int,
             full_mhz: float | None) -> float | None:
    """Mean of full clock / clock − 1, weighted by how busy the engines were at each reading."""
    clock = readings.get(series_of(device, "clock_mhz", ""))
    if not clock or not full_mhz:
        return None
    prefix = series_of(device, "engine_active", "")
    engines = [_mean(entries, start_ns, stop_ns, lookback_ns) for key, entries in readings.items()
               if key.startswith(prefix) and key[len(prefix):] not in NOT_ENGINES]
    weighed = total = 0.0
    for time, mhz in _mean(clock, start_ns, stop_ns, lookback_ns).items():
        weight = sum(busy.get(time, 0.0) for busy in engines) if engines else 1.0
        if mhz > 0:
            weighed += weight * max(full_mhz / mhz - 1.0, 0.0)
            total += weight
    return weighed / total if total else None


__all__ = ["Counted", "Readings", "counted", "forget", "keep", "run_wait_share", "series_of", "touches"]
