"""What the host costs: times of API calls and the code between them, their noise, and time stolen by other threads."""

from __future__ import annotations

from dataclasses import dataclass, fields
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fleetscope.errors import UsageError
from simulator.causes import CODE
from simulator.engine.program import COLUMNS, NONE, WORK, Ints, Program

BITS: Final = 16
ONE: Final = 1 << BITS
"""Factors of noise are integers of 1/65,536: products are exact on every machine."""
_DRAWS: Final = 4_096


@dataclass(frozen=True, slots=True)
class HostCosts:
    """Median times of one process in ns, and how it drives its device."""

    launch_ns: int = 5_000
    """A call that launches a kernel."""
    copy_ns: int = 5_000
    collective_ns: int = 7_000
    sync_ns: int = 2_000
    """The call itself; it then waits for the device."""
    gap_ns: int = 1_500
    """Between calls: framework, interpreter."""
    scheduler_ns: int = 300_000
    """Once a step: admission, batching, metadata."""
    driver_share: float = 0.6
    """Part of a call that is driver submission."""
    call_spread: float = 0.2
    """Standard deviation of the logarithm of a call's time."""
    gap_spread: float = 0.4
    graph: bool = False
    """All kernels of a step between two waits are given by one call."""
    graph_launch_ns: int = 12_000
    graph_kernel_ns: int = 100
    """Added to the call for each kernel of the graph."""
    pageable: bool = False
    """Copies start from or end in pageable memory: the thread moves it through a pinned buffer, and waits."""
    pageable_bytes_per_s: float = 6e9
    device_noise: float = 0.01
    """Standard deviation of the share by which device times vary; they only grow."""
    slice_ns: int = 1_500_000
    """Mean time another thread keeps the processor when it takes it."""

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 0:
                raise UsageError(f"host: {field.name}: is not negative")
        if self.driver_share > 1:
            raise UsageError("host: driver_share: a share lies within 0..1")
        if self.pageable_bytes_per_s <= 0 or self.slice_ns <= 0:
            raise UsageError("host: pageable_bytes_per_s, slice_ns: are positive")


def _quantiles() -> NDArray[np.float64]:
    normal = NormalDist()
    return np.array([normal.inv_cdf((i + 0.5) / _DRAWS) for i in range(_DRAWS)])


_NORMAL: Final = _quantiles()


def spread_table(sigma: float) -> Ints:
    """Quantiles of a log-normal factor of median 1 in 1/65,536; a uniform index draws from it."""
    return np.asarray(np.rint(np.exp(sigma * _NORMAL) * ONE), dtype=np.int64)


def growth_table(sigma: float) -> NDArray[np.float64]:
    """Quantiles of 1 + |N(0, σ)|, in multiples of 1/65,536."""
    return np.asarray(np.rint((1 + np.abs(sigma * _NORMAL)) * ONE) / ONE)


def draw(rng: np.random.Generator, shape: tuple[int, ...] | int) -> NDArray[np.uint16]:
    """Indices into a table."""
    return rng.integers(0, _DRAWS, shape, dtype=np.uint16)


def contended(program: Program, contention: float, slice_ns: int, rng: np.random.Generator) -> Program:
    """The program with the processor taken away: extra host work without a span, charged to host_contention.

    Other threads take the processor in slices of exponential length, so that the host's own time is 1/``contention`` of
    its wall time in the mean. Slices fall before calls in proportion to the time up to them.
    """
    own = program.gap_ns + program.call_ns
    edges = np.cumsum(own)
    count = int(rng.poisson(edges[-1] * (contention - 1) / slice_ns))
    if not count:
        return program
    before = np.searchsorted(edges, np.sort(rng.integers(0, edges[-1], count)), side="right")
    lengths = rng.exponential(slice_ns, count).astype(np.int64) + 1
    columns = {name: np.insert(getattr(program, name), before, _IDLE.get(name, 0)) for name in COLUMNS}
    at = before + np.arange(count)
    columns["call_ns"][at] = lengths
    # a call moves by the number of slices inserted at or before it
    moved = np.arange(len(program)) + np.searchsorted(before, np.arange(len(program)), side="right")
    waits = columns["wait"]
    columns["wait"] = np.where(waits == NONE, NONE, moved[np.maximum(waits, 0)])
    counted = program.quantities
    return Program(**columns, quantities=None if counted is None else np.insert(counted, before, 0, axis=0))


_IDLE: Final = {"kind": WORK, "cause": CODE["host_contention"], "api": NONE, "name": NONE, "queue": NONE, "wait": NONE,
                "communicator": NONE, "sequence": NONE, "flops": NONE, "bytes": NONE, "request": NONE, "conflict": 1.0}
