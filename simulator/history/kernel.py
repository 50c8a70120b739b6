"""The windows of one device, one after the other (compiled; no allocation, no order that could vary)."""

from __future__ import annotations

from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

from fleetscope.contracts.derived import STATE_NAMES
from simulator.history.profile import D2H, H2D, KERNEL

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

STATES: Final = len(STATE_NAMES)
NO_DEMAND: Final = STATE_NAMES.index("no_demand")
UNKNOWN: Final = STATE_NAMES.index("unknown")

COUNTS: Final = ("kernels", "transfers", "flops", "memory_bytes", "h2d_bytes", "d2h_bytes", "launch_latency_p50_ns",
                 "received_rows", "lost_rows")
"""Columns of contract `windows` after the states, in the order of the kernel's output."""
KERNELS, TRANSFERS, FLOPS, MEMORY, H2D_BYTES, D2H_BYTES, LATENCY, RECEIVED, LOST = range(STATES, STATES + len(COUNTS))

SUMS: Final = ("count", "total_ns")
"""Integer sums of an operator in a piece."""
MOMENTS: Final = ("weight", "first", "second")
"""Float sums of an operator in a piece: calls, calls·m, calls·m²·(1 + cv²); m is the mean of a window's calls [ns]."""

_LEAST_FACTOR: Final = 0.2
"""Noise never makes anything more than five times as fast."""


@numba.njit(cache=True)
def fill(out: Ints, window_ns: int, bucket: Ints, demand: Floats, known: Floats, common: Floats, device: Floats,
         white: Floats, white_sigma: float, factors: Floats, pairs: Ints, moved: Floats, role: Ints, calls: Ints,
         step_ns: Floats, launch: int, states: Ints, shares: Floats, call_cv2: Floats, call_flops: Ints,
         call_bytes: Ints, latency_ns: float, devices: int, carry: Floats, piece: Ints, sums: Ints,
         moments: Floats) -> None:
    """Write ``out`` (STATES + COUNTS, n), add to ``carry`` (K,) and to ``sums`` and ``moments`` (pieces, B, K, …).

    ``demand`` is steps a ns that are asked for; ``common`` and ``device`` are relative deviations of all times,
    ``white`` (n, K) standard normal ones of single operators. In each window: times of a step's operators → their sum →
    the share of the window that is busy → ns of each operator, of no demand and of lost data, rounded by largest
    remainder so that they add up to the window → states. Counts carry their fractions on to the next window.
    """
    operators = len(role)
    exact, whole = np.zeros(operators + 2), np.zeros(operators + 2, dtype=np.int64)
    times = np.zeros(operators)
    for w in range(out.shape[1]):
        b, general = bucket[w], 1.0 + common[w] + device[w]
        kernels_ns = 0.0
        for k in range(operators):
            factor = max(_LEAST_FACTOR, general + white_sigma * white[w, k])
            times[k] = step_ns[b, k] * factor * factors[w, k]
        for j in range(pairs.shape[0]):
            shifted = times[pairs[j, 0]] * moved[w, j]
            times[pairs[j, 0]] -= shifted
            times[pairs[j, 1]] += shifted
        for k in range(operators):
            if role[k] == KERNEL:
                kernels_ns += times[k]
        times[launch] = max(0.0, times[launch] - kernels_ns)
        step = 0.0
        for k in range(operators):
            step += times[k]
        steps = known[w] * window_ns * min(demand[w], 1.0 / step)
        busy = 0.0
        for k in range(operators):
            exact[k] = steps * times[k]
            busy += exact[k]
        exact[operators + 1] = (1.0 - known[w]) * window_ns
        exact[operators] = max(0.0, window_ns - exact[operators + 1] - busy)
        _largest_remainder(exact, whole, window_ns)
        for row in range(out.shape[0]):
            out[row, w] = 0
        out[NO_DEMAND, w] = whole[operators]
        out[UNKNOWN, w] = whole[operators + 1]
        out[LATENCY, w] = np.int64(np.rint(latency_ns * max(_LEAST_FACTOR, general) * factors[w, launch]))
        _charge(out, w, b, whole, times, steps, role, calls, states, shares, call_cv2, call_flops, call_bytes, carry,
                sums[piece[w]], moments[piece[w]])
        # Every kernel, transfer and step has a span of its own and one of the host's call.
        rows = 2 * devices * (out[KERNELS, w] + out[TRANSFERS, w] + 1)
        out[RECEIVED, w] = rows if known[w] > 0.0 else 0
        if known[w] > 0.0:
            out[LOST, w] = np.int64(np.rint(rows * (1.0 - known[w]) / known[w]))


@numba.njit(cache=True)
def _charge(out: Ints, w: int, b: int, whole: Ints, times: Floats, steps: float, role: Ints, calls: Ints, states: Ints,
            shares: Floats, call_cv2: Floats, call_flops: Ints, call_bytes: Ints, carry: Floats, sums: Ints,
            moments: Floats) -> None:
    """The operators of window ``w`` into its states and counts, and into the sums of its piece."""
    for k in range(len(role)):
        first = np.int64(np.rint(whole[k] * shares[b, k, 0]))
        second = min(np.int64(np.rint(whole[k] * shares[b, k, 1])), whole[k] - first)
        out[states[b, k, 0], w] += first
        out[states[b, k, 1], w] += second
        out[states[b, k, 2], w] += whole[k] - first - second
        carry[k] += steps * calls[k]
        count = np.int64(np.floor(carry[k]))
        carry[k] -= count
        flops, moved = count * call_flops[b, k], count * call_bytes[b, k]
        if role[k] == KERNEL:
            out[KERNELS, w] += count
            out[FLOPS, w] += flops
            out[MEMORY, w] += moved
        elif role[k] == H2D:
            out[TRANSFERS, w] += count
            out[H2D_BYTES, w] += moved
        elif role[k] == D2H:
            out[TRANSFERS, w] += count
            out[D2H_BYTES, w] += moved
        sums[b, k, 0] += count
        sums[b, k, 1] += whole[k]
        mean = times[k] / calls[k]
        moments[b, k, 0] += count
        moments[b, k, 1] += count * mean
        moments[b, k, 2] += count * mean * mean * (1.0 + call_cv2[b, k])


@numba.njit(cache=True)
def _largest_remainder(exact: Floats, whole: Ints, total: int) -> None:
    """Whole numbers that sum to ``total``: floors, then one more for the largest fractions, the first of equal ones.

    ``exact`` sums to ``total`` up to rounding and holds the fractions afterwards.
    """
    rest = np.int64(total)
    for i in range(len(exact)):
        floor = np.floor(exact[i])
        whole[i] = np.int64(floor)
        exact[i] -= floor
        rest -= whole[i]
    while rest > 0:
        best = 0
        for i in range(1, len(exact)):
            if exact[i] > exact[best]:
                best = i
        whole[best] += 1
        exact[best] -= 1.0
        rest -= 1
    while rest < 0:  # the sum of floats was a little above: take from the largest
        best = 0
        for i in range(1, len(exact)):
            if whole[i] > whole[best]:
                best = i
        whole[best] -= 1
        rest += 1


