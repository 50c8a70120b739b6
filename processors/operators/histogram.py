"""Lengths and intensities in logarithmic bins: sketches that merge by adding. Pure.

A length of d ns is in bin floor(8·log2 d), so a quantile read from the bins is within a factor 2^(1/16), 4.5 %, of the
true one (as in HdrHistogram and DDSketch, the error is relative). An intensity of flops/bytes is in bin
floor(8·log2(flops/bytes)): work of one bin has the same binding resource but where the ridge falls into the bin.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np

from processors.operators.intake import Bools, Ints

STEPS: Final = 8
"""Bins for each doubling."""
ZERO: Final = -1
"""The bin of lengths of 0 ns."""
NO_FLOPS: Final = -(1 << 20)
NO_BYTES: Final = 1 << 20
UNJUDGED: Final = 1 << 21
"""Bins of intensities: no arithmetic, no traffic, and work of which one is not stated."""


def duration_bins(duration_ns: Ints) -> Ints:
    """The bin of each length."""
    positive = np.maximum(duration_ns, 1).astype(np.float64)
    return np.where(duration_ns > 0, np.floor(np.log2(positive) * STEPS), ZERO).astype(np.int64)


def intensity_bins(flops: Ints, bytes_: Ints) -> Ints:
    """The bin of each work; −1 stands for work that is not stated."""
    judged: Bools = (flops >= 0) & (bytes_ >= 0)
    ratio = np.log2(np.maximum(flops, 1).astype(np.float64)) - np.log2(np.maximum(bytes_, 1).astype(np.float64))
    bins = np.floor(ratio * STEPS).astype(np.int64)
    bins = np.where(bytes_ == 0, NO_BYTES, np.where(flops == 0, NO_FLOPS, bins))
    return np.where(judged, bins, UNJUDGED)


def quantile_ns(calls: Mapping[int, int], q: float) -> int:
    """The length that a share ``q`` of calls does not exceed: the geometric middle of its bin, 0 for no calls."""
    total = sum(calls.values())
    rank, seen = max(q * total, 1e-9), 0
    for place in sorted(calls):
        seen += calls[place]
        if seen >= rank:
            return 0 if place == ZERO else round(2.0 ** ((place + 0.5) / STEPS))
    return 0
