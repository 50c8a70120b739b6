"""At what rate each engine can do the arithmetic that its kernels state.

A kernel states useful operations; an engine that works in tiles does more. Where a counter shows for how long an
engine's pipe was occupied, its useful operations came at the peak of this occupied time: what padding and issue
cost is compute.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from processors.windows.chunks import Rows
from processors.windows.intervals import Floats
from processors.windows.works import KERNEL

COUNTER_NOISE: Final = 0.05
"""Counters that take turns are estimates: a pipe that was occupied for little longer than its operations take says
nothing."""


def engine_rates(rows: Rows, span: tuple[int, int], stated: Mapping[int, float], otherwise: float | None,
                 occupied_ns: Mapping[int, float]) -> Floats | None:
    """flop/s for each row, NaN where the device's own peak stands; None where it stands for all.

    ``stated`` and ``occupied_ns`` by code of the track: the peaks of engines that have one of their own, and for how
    long their pipes were occupied in the window ``span``; ``otherwise``: the device's peak.
    """
    if not stated and not occupied_ns:
        return None
    rates = np.full(len(rows), np.nan)
    inside = np.clip(np.minimum(rows.stop, span[1]) - np.maximum(rows.start, span[0]), 0, None)
    share = inside / np.maximum(rows.stop - rows.start, 1)
    for code in {*stated, *occupied_ns}:
        peak = stated.get(code, otherwise)
        mine = (rows.role == KERNEL) & (rows.tag == code)
        if not peak or not mine.any():
            continue
        needed = float((np.maximum(rows.flops[mine], 0) * share[mine]).sum()) * 1e9 / peak
        occupied = occupied_ns.get(code, 0.0)
        slower = needed > 0 and occupied > (1 + COUNTER_NOISE) * needed
        rates[mine] = peak * needed / occupied if slower else peak
    return rates
