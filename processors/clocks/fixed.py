"""Fixed-point products that overflow nowhere: ticks times a rate in units of 2^-32.

A 32-bit fraction times more than 2.1 s of nanosecond ticks passes 2^63, so the product is split (all arrays int64).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

ONE_Q32: Final = 1 << 32
_MASK: Final = np.int64(0xFFFF_FFFF)
_HALF: Final = np.uint64(1 << 31)
_SHIFT: Final = np.uint64(32)
_SHORT: Final = 1 << 30
_ROUND: Final = np.int64(1 << 31)


def mul_q32(ticks: Ints, rate_q32: Ints | np.int64) -> Ints:
    """round(ticks · rate_q32 / 2^32), exact, for |ticks · rate| < 2^62 · 2^32.

    With ticks = a·2^32 + b and rate = c·2^32 + d: ticks·c + a·d + round(b·d / 2^32); b·d < 2^64 is unsigned.
    """
    rate = np.asarray(rate_q32, np.int64)
    whole, fraction = rate >> np.int64(32), rate & _MASK
    if len(ticks) and ticks.min() >= 0 and ticks.max() < _SHORT:  # the usual piece: no product needs splitting
        short: Ints = ticks * whole + ((ticks * fraction + _ROUND) >> np.int64(32))
        return short
    high, low = ticks >> np.int64(32), ticks & _MASK
    product = low.astype(np.uint64) * fraction.astype(np.uint64)
    carry = (product >> _SHIFT) + ((product & np.uint64(0xFFFF_FFFF)) >= _HALF).astype(np.uint64)
    result: Ints = ticks * whole + high * fraction + carry.astype(np.int64)
    return result


def mul_q32_one(ticks: int, rate_q32: int) -> int:
    """The same for one Python integer."""
    return (ticks * rate_q32 + (1 << 31)) >> 32
