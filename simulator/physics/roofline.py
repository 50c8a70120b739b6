"""Rooflines: achievable peaks, ridge points, and the least time that work can take.

Williams, Waterman, Patterson (2009): a kernel of intensity I flop/B reaches at most min(peak, I · bandwidth).
"""

from __future__ import annotations

from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from simulator.machine import Machine

Floats = NDArray[np.float64]
Engine = Literal["matrix", "vector"]
OVERLAP_POWER: Final = 4
"""Resources overlap only partly: work alone takes fixed + (Σ t⁴)^¼."""


def peak_flops_per_s(machine: Machine, engine: Engine) -> float:
    """What a perfect kernel reaches on an engine at full clock."""
    if engine == "matrix":
        return machine.matrix_flops_per_s * machine.matrix_achievable
    return machine.vector_flops_per_s * machine.vector_achievable


def peak_hbm_bytes_per_s(machine: Machine) -> float:
    """What long sequential reads reach."""
    return machine.hbm_bytes_per_s * machine.hbm_achievable


def ridge_flops_per_byte(machine: Machine, engine: Engine = "matrix") -> float:
    """Intensity from which an engine's peak binds and not device memory."""
    return peak_flops_per_s(machine, engine) / peak_hbm_bytes_per_s(machine)


def limit_flops_per_s(machine: Machine, intensity_flops_per_byte: Floats, engine: Engine = "matrix") -> Floats:
    """Most that kernels of an intensity reach."""
    return np.minimum(peak_flops_per_s(machine, engine), intensity_flops_per_byte * peak_hbm_bytes_per_s(machine))


def alone_ns(*resource_ns: Floats, fixed_ns: Floats | float = 0.0) -> Floats:
    """Time of work that has its resources to itself, from the time it needs of each."""
    total = np.zeros(np.broadcast_shapes(*(np.shape(ns) for ns in resource_ns)))
    for ns in resource_ns:
        square = np.square(ns)
        total = total + square * square
    return np.asarray(np.sqrt(np.sqrt(total)) + fixed_ns)


def tile_share(rows: Floats, columns: Floats, inner: Floats, machine: Machine) -> Floats:
    """Useful share of the work the matrix engine does for a rows × inner by inner × columns product.

    ``columns`` and ``inner`` are padded to whole tiles, ``rows``, which stream through the engine, to groups of 8 (or
    of a tile where that is smaller).
    """
    tile = float(machine.matrix_tile)
    padded = [(rows, min(tile, 8.0)), (columns, tile), (inner, tile)]
    share = np.ones(np.broadcast_shapes(np.shape(rows), np.shape(columns), np.shape(inner)))
    for size, unit in padded:
        size = np.asarray(size, dtype=np.float64)
        share = share * size / (np.ceil(size / unit) * unit)
    return share
