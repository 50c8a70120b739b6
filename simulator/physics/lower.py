"""From what operators need to the times they take on each resource of a machine alone: a Program's work columns."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simulator.machine import Machine
from simulator.physics.memory import Pattern, Traffic, traffic
from simulator.physics.roofline import peak_flops_per_s, peak_hbm_bytes_per_s
from simulator.physics.sram import conflict, spilled_bytes

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Work:
    """What kernels need, one entry a kernel, columns of equal length."""

    matrix_flops: Floats
    vector_flops: Floats
    matrix_share: Floats
    """Useful share of what the matrix engine does (0..1]: padding to its tiles, `roofline.tile_share`."""
    read_bytes: Floats
    """Useful bytes read from device memory."""
    write_bytes: Floats
    run_bytes: Floats
    """Contiguous useful bytes at one place; 0: everything is one run."""
    align_bytes: Floats
    """Runs start at multiples of this; 0: at granules."""
    streams: Floats
    """Runs under way at once in a channel (≥ 1), whole."""
    skew: Floats
    """Bytes of the busiest memory channel over the mean (≥ 1)."""
    working_set_bytes: Floats
    """What has to stay on chip while the kernel runs (tiles and accumulators, not all operands)."""
    spill_passes: Floats
    """Times that what does not fit is written out and read back."""
    sram_bytes: Floats
    """Traffic of on-chip memory."""
    stride_words: Floats
    """Distance of neighbouring lanes' on-chip accesses in bank words; `sram.GATHER`: unrelated."""
    fixed_ns: Floats
    """Start-up; NaN: the machine's ``kernel_fixed_ns``."""

    def __len__(self) -> int:
        return len(self.matrix_flops)

    def __post_init__(self) -> None:
        lengths = {len(getattr(self, field.name)) for field in fields(self)}
        if len(lengths) != 1:
            raise ValueError(f"columns of work have lengths {sorted(lengths)}")


COLUMNS: Final = tuple(field.name for field in fields(Work))
_DEFAULTS: Final = {"matrix_share": 1.0, "streams": 1.0, "skew": 1.0, "spill_passes": 1.0, "stride_words": 1.0,
                    "fixed_ns": np.nan}


def work(count: int, **columns: Floats | Ints | int | float) -> Work:
    """Work of ``count`` kernels; a number holds for all, a column left out has its neutral value. Raises on others."""
    if unknown := sorted(set(columns) - set(COLUMNS)):
        raise TypeError(f"work has no columns {', '.join(unknown)}")
    values = {}
    for name in COLUMNS:
        array = np.asarray(columns.get(name, _DEFAULTS.get(name, 0.0)), dtype=np.float64)
        values[name] = array if array.ndim else np.full(count, array)
    return Work(**values)


@dataclass(frozen=True, slots=True)
class Lowered:
    """Times on each resource alone at full clock, and what counters count; one entry a kernel."""

    matrix_ns: Floats
    vector_ns: Floats
    sram_ns: Floats
    conflict: Floats
    noc_ns: Floats
    hbm_ns: Floats
    spill_ns: Floats
    fixed_ns: Floats
    flops: Ints
    """Useful operations, for the span."""
    bytes: Ints
    """Moved to and from device memory, over-fetch and spills included, for the span."""
    useful_bytes: Ints
    read_bytes: Ints
    """Moved; with ``write_bytes`` it makes ``bytes``."""
    write_bytes: Ints
    spill_bytes: Ints
    """Part of both."""
    row_hits: Ints
    row_misses: Ints
    turnarounds: Ints
    peak_channel_bytes: Ints
    matrix_cycles: Ints
    """Cycles at full clock in which the engine's pipe is occupied, padding included."""
    vector_cycles: Ints
    sram_cycles: Ints
    """Cycles at full clock of the on-chip accesses themselves, without conflicts."""
    conflict_cycles: Ints
    """Cycles at full clock by which conflicts lengthen the on-chip accesses."""

    memory_stall_ns: Ints
    """Engines wait for device memory, spills apart."""
    spill_stall_ns: Ints

    def quantities(self) -> Ints:
        """(kernels, QUANTITIES): what counters count of each."""
        return np.stack([getattr(self, name) for name in QUANTITIES], axis=1)

    def columns(self) -> dict[str, Floats | Ints]:
        """Columns of `simulator.engine.program.program`."""
        return {name: getattr(self, name) for name in PROGRAM_COLUMNS}


PROGRAM_COLUMNS: Final = ("matrix_ns", "vector_ns", "sram_ns", "conflict", "noc_ns", "hbm_ns", "spill_ns", "fixed_ns",
                          "flops", "bytes")
QUANTITIES: Final = ("read_bytes", "write_bytes", "spill_bytes", "row_hits", "row_misses", "turnarounds",
                     "peak_channel_bytes", "matrix_cycles", "vector_cycles", "sram_cycles", "conflict_cycles",
                     "memory_stall_ns", "spill_stall_ns")


def lower(needs: Work, machine: Machine) -> Lowered:
    """What the work takes on the machine."""
    matrix_ns = needs.matrix_flops / needs.matrix_share / peak_flops_per_s(machine, "matrix") * 1e9
    vector_ns = needs.vector_flops / peak_flops_per_s(machine, "vector") * 1e9
    pattern = Pattern(needs.run_bytes, needs.align_bytes, needs.streams, needs.skew)
    moved = traffic(needs.read_bytes, needs.write_bytes, pattern, machine)
    spilled = spilled_bytes(needs.working_set_bytes, machine) * needs.spill_passes
    spill = _spill_traffic(spilled, machine)
    sram_ns = needs.sram_bytes / machine.sram_bytes_per_s * 1e9
    degree = conflict(needs.stride_words, machine.sram_banks)
    read = _whole(moved.read_bytes) + _whole(spill.read_bytes)
    write = _whole(moved.write_bytes) + _whole(spill.write_bytes)
    stall_ns = np.maximum(moved.ns + spill.ns - np.maximum(matrix_ns, vector_ns), 0.0)
    spill_part = spill.ns / np.maximum(moved.ns + spill.ns, 1e-9)
    return Lowered(
        matrix_ns, vector_ns, sram_ns, degree,
        noc_ns=(read + write) / machine.noc_bytes_per_s * 1e9,
        hbm_ns=moved.ns, spill_ns=spill.ns,
        fixed_ns=np.where(np.isnan(needs.fixed_ns), machine.kernel_fixed_ns, needs.fixed_ns),
        flops=_whole(needs.matrix_flops + needs.vector_flops), bytes=read + write,
        useful_bytes=_whole(needs.read_bytes + needs.write_bytes), read_bytes=read, write_bytes=write,
        spill_bytes=_whole(spill.read_bytes) + _whole(spill.write_bytes),
        row_hits=_whole(moved.row_hits + spill.row_hits), row_misses=_whole(moved.row_misses + spill.row_misses),
        turnarounds=_whole(moved.turnarounds + spill.turnarounds),
        peak_channel_bytes=_whole(moved.peak_channel_bytes + spill.peak_channel_bytes),
        matrix_cycles=_whole(matrix_ns * machine.clock_mhz / 1e3),
        vector_cycles=_whole(vector_ns * machine.clock_mhz / 1e3),
        sram_cycles=_whole(sram_ns * machine.clock_mhz / 1e3),
        conflict_cycles=_whole(sram_ns * (degree - 1.0) * machine.clock_mhz / 1e3),
        memory_stall_ns=_whole(stall_ns * (1.0 - spill_part)), spill_stall_ns=_whole(stall_ns * spill_part))


def _spill_traffic(spilled: Floats, machine: Machine) -> Traffic:
    """Written out and read back in long runs."""
    zero, one = np.zeros_like(spilled), np.ones_like(spilled)
    return traffic(spilled, spilled, Pattern(zero, zero, one, one), machine)


def _whole(values: Floats) -> Ints:
    return np.rint(values).astype(np.int64)


def least_ns(needs: Work, machine: Machine) -> Floats:
    """Roofline of the useful work: no kernel of it can be shorter, whatever its pattern."""
    useful = (needs.read_bytes + needs.write_bytes) / peak_hbm_bytes_per_s(machine)
    arithmetic = np.maximum(needs.matrix_flops / peak_flops_per_s(machine, "matrix"),
                            needs.vector_flops / peak_flops_per_s(machine, "vector"))
    return np.maximum(arithmetic, useful) * 1e9
