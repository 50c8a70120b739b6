"""Device memory: what an access pattern makes of its bandwidth. Vectorised; one entry a kernel.

Addresses go round the channels in pieces of ``hbm_interleave_bytes``; a channel's pieces fill one row after the other,
and each row lies in one of its banks, which keeps one row open. Bytes come in granules: a part of one moves all of it.

A kernel reads and writes in runs of contiguous bytes at unrelated places. With g granule, I piece, r = row/I pieces a
row, C channels, and runs of L bytes that start at multiples of a:

- granules a run touches: (L + g − a)/g on average, exact for L a multiple of a and a a divisor of g
- pieces a run touches: n = (L + I − a)/I, likewise; rows it opens: n up to C pieces, else (n + C·(r − 1))/r
- S runs at once take turns piece by piece: a row is found closed because another run opened one in its bank with
  probability 1 − (1 − 1/B)^(S − 1), B banks
- time of a channel: data at its achievable rate, or its row misses, ``hbm_miss_overlap`` at a time, whichever is
  longer (within 4 % of a controller that picks the first visit that can start of 32); and 2 turnarounds for each batch
  of the rarer of reads and writes
- with a skew, the busiest channel decides: max/mean times the mean's time
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.machine import Machine

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Pattern:
    """How kernels touch device memory, one entry a kernel."""

    run_bytes: Floats
    """Contiguous useful bytes at one place; 0: everything is one run."""
    align_bytes: Floats
    """Runs start at multiples of this; 0: at granules."""
    streams: Floats
    """Runs under way at once in a channel (≥ 1), whole."""
    skew: Floats
    """Bytes of the busiest channel over the mean (≥ 1)."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """What the memory does for kernels, all channels together; one entry a kernel."""

    read_bytes: Floats
    """Moved, over-fetch included."""
    write_bytes: Floats
    row_hits: Floats
    """Granules found in an open row."""
    row_misses: Floats
    turnarounds: Floats
    peak_channel_bytes: Floats
    """Moved by the busiest channel."""
    ns: Floats
    """Time with the memory to itself."""


def traffic(read_bytes: Floats, write_bytes: Floats, pattern: Pattern, machine: Machine) -> Traffic:
    """Traffic and time of kernels that need these useful bytes."""
    read, read_misses = _side(read_bytes, pattern, machine)
    write, write_misses = _side(write_bytes, pattern, machine)
    granule, channels = machine.hbm_granule_bytes, machine.hbm_channels
    misses = read_misses + write_misses
    moved = read + write
    turns = 2.0 * np.minimum(read, write) / (granule * machine.hbm_write_batch)
    skew = np.maximum(pattern.skew, 1.0)
    data_ns = moved / (machine.hbm_bytes_per_s * machine.hbm_achievable) * 1e9
    rows_ns = misses / channels * machine.hbm_row_miss_ns / machine.hbm_miss_overlap
    turn_ns = turns / channels * machine.hbm_turnaround_ns
    return Traffic(read, write, moved / granule - misses, misses, turns, moved / channels * skew,
                   (np.maximum(data_ns, rows_ns) + turn_ns) * skew)


def _side(useful: Floats, pattern: Pattern, machine: Machine) -> tuple[Floats, Floats]:
    """Bytes moved and row misses for the useful bytes of one direction."""
    granule, piece = float(machine.hbm_granule_bytes), float(machine.hbm_interleave_bytes)
    align = np.where(pattern.align_bytes > 0, pattern.align_bytes, granule)
    whole = (pattern.run_bytes <= 0) | (pattern.run_bytes > useful)
    run = np.where(whole, useful, pattern.run_bytes)
    runs = useful / np.maximum(run, 1.0)
    moved = runs * _units(run, align, granule) * granule * (useful > 0)
    pieces = _units(run, align, piece)
    rows = rows_opened(pieces, machine.hbm_channels, machine.hbm_row_bytes / piece)
    closed = 1.0 - _untouched(pattern.streams, machine.hbm_banks)
    misses = runs * (rows + (pieces - rows) * closed) * (useful > 0)
    return moved, np.minimum(misses, moved / granule)


def _units(run: Floats, align: Floats, unit: float) -> Floats:
    """Units of a size that a run touches on average when it starts at any multiple of its alignment."""
    step = np.minimum(align, unit)
    return (np.ceil(run / step) * step + unit - step) / unit


def _untouched(streams: Floats, banks: int) -> Floats:
    """(1 − 1/B)^(S − 1), by products only: equal on every machine."""
    others = np.maximum(streams, 1.0).astype(np.int64) - 1
    powers = np.cumprod(np.concatenate([[1.0], np.full(int(others.max(initial=0)), 1.0 - 1.0 / banks)]))
    return np.asarray(powers[others])


def rows_opened(pieces: Floats, channels: int, pieces_a_row: float) -> Floats:
    """Rows that a run of ``pieces`` opens on average in all channels, from a place of any phase."""
    return np.where(pieces <= channels, pieces, (pieces + channels * (pieces_a_row - 1.0)) / pieces_a_row)


def stride_skew(stride_bytes: int, machine: Machine) -> float:
    """Skew of accesses ``stride_bytes`` apart, no larger than a piece each: channels over channels that are met.

    A stride of s whole pieces meets C / gcd(s, C) channels; other strides drift over all of them.
    """
    pieces, rest = divmod(stride_bytes, machine.hbm_interleave_bytes)
    return 1.0 if rest or not pieces else float(np.gcd(pieces, machine.hbm_channels))
