"""On-chip memory: bank conflicts, and the spill of a working set that does not fit."""

from __future__ import annotations

from functools import cache
from math import factorial
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simulator.machine import Machine

Floats = NDArray[np.float64]

GATHER: Final = -1
"""Stride of accesses at unrelated addresses."""


def conflict(stride_words: Floats, banks: int) -> Floats:
    """Cycles of one access by all lanes, as many as banks: gcd(stride, banks); 1 where all read one word (stride 0)."""
    stride = np.asarray(stride_words, dtype=np.int64)
    degree = np.where(stride == 0, 1, np.gcd(np.abs(stride), banks)).astype(np.float64)
    return np.where(stride == GATHER, gather_conflict(banks), degree)


@cache
def gather_conflict(banks: int) -> float:
    """Expected load of the fullest bank when each of ``banks`` lanes draws a bank, all equally likely.

    P(max ≤ k) = n!/nⁿ · [xⁿ] (Σ_{i≤k} xⁱ/i!)ⁿ (exponential generating function of bounded occupancy). Rounded to 1e-6
    so that it is equal on every machine.
    """
    expected, at_most = 0.0, 0.0
    top = min(banks, 24)  # beyond it the chance is below 1e-20
    for k in range(1, top + 1):
        expected += 1.0 - at_most
        at_most = _share_bounded(banks, k)
        if 1.0 - at_most < 1e-12:
            break
    return round(expected, 6)


def _share_bounded(banks: int, most: int) -> float:
    """P(no bank is drawn more than ``most`` times) of ``banks`` draws."""
    # The term xⁱ/i! is weighted with e⁻¹ so that powers stay near 1: [xⁿ] of the n-th power is then P·nⁿ·e⁻ⁿ/n!.
    bounded = np.array([np.exp(-1.0) / factorial(i) for i in range(most + 1)])
    power, result, left = bounded, np.ones(1), banks
    while left:
        if left & 1:
            result = np.convolve(result, power)[: banks + 1]
        power = np.convolve(power, power)[: banks + 1]
        left >>= 1
    log_all = banks * np.log(banks) - banks - sum(np.log(i) for i in range(1, banks + 1))
    return float(result[banks] / np.exp(log_all)) if len(result) > banks else 0.0


def spilled_bytes(working_set_bytes: Floats, machine: Machine) -> Floats:
    """Part of working sets that finds no room on chip; each pass writes it to device memory and reads it back."""
    return np.maximum(working_set_bytes - machine.sram_bytes * machine.sram_usable, 0.0)
