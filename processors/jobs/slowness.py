"""Which devices take longer than others for the same kernels. Pure; plain values.

Kernels are alike that have the same name, engine, flops and bytes on devices of one kind in one job. Of each sort a
device's mean length is compared with the median of the other devices; over its sorts, the median weighted by time is
the device's slowdown. It is an outlier by the modified z-score (Iglewicz and Hoaglin 1993: median, MAD, limit 3.5).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Final

Where = tuple[str, str]
"""Host and device."""
Sort = tuple[Any, ...]
"""Device kind, name, engine, flops, bytes."""

MAD_TO_SIGMA: Final = 1.4826
"""σ of a normal distribution over its median absolute deviation."""
LEAST_SIGMA: Final = 0.01
"""Lengths of like kernels are known no better than this share: clocks, rounding, other work on the device."""
MIN_CALLS: Final = 3


@dataclass(frozen=True, slots=True)
class Slowness:
    """``ratio``: length over that of others; ``z``: modified z-score of its logarithm; ``compared_ns``: time of the
    kernels compared; ``sorts``: how many."""

    ratio: float
    z: float
    compared_ns: int
    sorts: int


def slowness(kernels: Mapping[Sort, Mapping[Where, Sequence[int]]]) -> dict[Where, Slowness]:
    """By device, of [calls, ns] by sort and device; devices without a comparable one are left out."""
    found: defaultdict[Where, list[tuple[float, int]]] = defaultdict(list)
    for sort in sorted(kernels, key=repr):
        means = {where: ns / calls for where, (calls, ns) in kernels[sort].items() if calls >= MIN_CALLS and ns > 0}
        for where, mean in sorted(means.items()) if len(means) > 1 else ():
            others = median(value for other, value in means.items() if other != where)
            found[where].append((math.log(mean / others), kernels[sort][where][1]))
    centre = {where: weighted_median(values) for where, values in found.items()}
    return {where: Slowness(math.exp(value), modified_z(value, [v for other, v in centre.items() if other != where]),
                            sum(ns for _, ns in found[where]), len(found[where]))
            for where, value in centre.items()}


def weighted_median(values: Sequence[tuple[float, int]]) -> float:
    """The value at which half of the weight is reached."""
    half, seen = sum(weight for _, weight in values) / 2, 0.0
    for value, weight in sorted(values):
        seen += weight
        if seen >= half:
            return value
    raise ValueError("no values")


def modified_z(value: float, others: Sequence[float]) -> float:
    """Distance to the median of the others in their σ by MAD, which is taken to be no less than ``LEAST_SIGMA``."""
    if not others:
        return 0.0
    centre = median(others)
    return (value - centre) / max(MAD_TO_SIGMA * median(abs(v - centre) for v in others), LEAST_SIGMA)
