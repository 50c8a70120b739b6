"""What a kind of device is: engines, memories, links, power and clocks, as read from simulator/machines/<kind>.toml."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from fleetscope.errors import UsageError
from simulator.toml_files import find, names_in, read

MACHINES: Final = Path(__file__).parent / "machines"
SPEEDS_GT_S: Final = (2.5, 5.0, 8.0, 16.0, 32.0, 64.0)
"""PCIe generations 1 to 6."""
LANES: Final = (1, 2, 4, 8, 16, 32)


class Machine(BaseModel):
    """One kind of device. Peaks are nominal; ``*_achievable`` is the share of them that a perfect kernel reaches."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    kind: str = Field(min_length=1)
    description: str = ""
    source: str = Field("", description="where the figures come from")
    published_peaks: bool = Field(True, description="false: inventory does not state peaks; analysis calibrates them")

    hidden_counters: tuple[str, ...] = Field((), strict=False, description="counters (simulator.counters) it lacks")

    matrix_flops_per_s: float = Field(ge=1e9, le=1e18)
    vector_flops_per_s: float = Field(ge=1e8, le=1e18)
    matrix_achievable: float = Field(0.7, gt=0, le=1)
    vector_achievable: float = Field(0.8, gt=0, le=1)
    matrix_tile: int = Field(16, ge=1, le=1_024, description="rows and columns the matrix engine pads to")
    kernel_fixed_ns: float = Field(1_500.0, ge=0, le=1e9, description="start-up and drain of a kernel")

    sram_bytes: int = Field(gt=0, description="on-chip memory")
    sram_bytes_per_s: float = Field(ge=1e9, le=1e16)
    sram_banks: int = Field(32, ge=1, le=4_096)
    sram_word_bytes: int = Field(4, ge=1, le=4_096, description="what one bank serves a cycle")
    sram_usable: float = Field(0.9, gt=0, le=1, description="share a kernel's working set may take before it spills")
    noc_bytes_per_s: float = Field(ge=1e9, le=1e16, description="network on chip between engines and memory")

    hbm_bytes: int = Field(gt=0, description="device memory")
    hbm_bytes_per_s: float = Field(ge=1e9, le=1e15)
    hbm_channels: int = Field(ge=1, le=1_024)
    hbm_achievable: float = Field(0.85, gt=0, le=1, description="share reached by long sequential reads")
    hbm_granule_bytes: int = Field(64, ge=16, le=1_024, description="smallest access; a part of it moves all of it")
    hbm_interleave_bytes: int = Field(256, ge=16, description="neighbouring bytes on one channel before the next")
    hbm_banks: int = Field(16, ge=1, le=1_024, description="banks of a channel, each with one open row")
    hbm_row_bytes: int = Field(1_024, ge=64)
    hbm_row_miss_ns: float = Field(30.0, ge=0, le=1e4, description="precharge and activate")
    hbm_miss_overlap: int = Field(4, ge=1, le=64, description="row misses of a channel under way at once")
    hbm_turnaround_ns: float = Field(15.0, ge=0, le=1e4, description="each change between reading and writing")
    hbm_write_batch: int = Field(32, ge=1, le=4_096, description="accesses a channel collects before it turns around")

    dma_engines: int = Field(2, ge=1, le=64)
    dma_setup_ns: float = Field(1_200.0, ge=0, le=1e9, description="descriptor fetch, doorbell, completion")
    dma_tags: int = Field(256, ge=1, le=4_096, description="reads of host memory under way at once")
    queue_depth: int = Field(1_024, ge=1, description="submissions a queue takes before the call blocks")
    launch_latency_ns: float = Field(2_500.0, ge=0, le=1e9, description="from the end of submission to earliest start")

    fabric_bytes_per_s: float = Field(0.0, ge=0, description="device-to-device link, one direction; 0: none")
    fabric_latency_ns: float = Field(1_500.0, ge=0, le=1e9)

    pcie_gt_s: float = Field(16.0, description="speed of a lane: 2.5, 5, 8, 16, 32 or 64 GT/s")
    pcie_lanes: int = Field(8, description="1, 2, 4, 8, 16 or 32")
    pcie_mps_bytes: int = Field(256, ge=128, le=4_096, description="payload of one packet at most")
    pcie_mrrs_bytes: int = Field(512, ge=128, le=4_096, description="bytes one read request asks for at most")
    pcie_idle_gt_s: float = Field(0.0, ge=0, description="speed the link falls to while idle, to save power; 0: none")

    clock_mhz: float = Field(gt=0, le=20_000, description="full clock")
    clock_min_mhz: float = Field(gt=0)
    idle_w: float = Field(ge=0)
    max_w: float = Field(gt=0, le=20_000, description="power limit: the clock falls to hold it")
    full_load_w: float = Field(0.0, ge=0, description="drawn at full clock with everything busy, if there were no "
                               "limit; 0: the power limit")
    thermal_c_per_w: float = Field(0.12, gt=0, description="rise over inlet air a watt, in the steady state")
    thermal_s: float = Field(20.0, gt=0, description="time constant")
    throttle_c: float = Field(88.0, gt=0, le=200, description="above it the clock falls")
    tick_hz: tuple[int, ...] = Field((1_000_000_000,), min_length=1, strict=False)
    timestamp_bits: int = Field(64, ge=24, le=64)
    driver_version: str = "1.0.0"
    firmware_version: str = "1.0.0"

    @model_validator(mode="after")
    def _agrees(self) -> Machine:
        for key, reason in _contradictions(self):
            raise ValueError(f"{key}: {reason}")
        return self


def _contradictions(machine: Machine) -> list[tuple[str, str]]:
    """(key, reason) of every pair of figures that no device can have together."""
    m = machine
    powers = ("pcie_mps_bytes", "pcie_mrrs_bytes", "hbm_granule_bytes", "hbm_row_bytes", "hbm_interleave_bytes")
    checks = [
        (m.pcie_gt_s in SPEEDS_GT_S, "pcie_gt_s", f"no PCIe generation runs at {m.pcie_gt_s:g} GT/s, known are "
         + ", ".join(f"{s:g}" for s in SPEEDS_GT_S)),
        (m.pcie_idle_gt_s == 0 or m.pcie_idle_gt_s in SPEEDS_GT_S, "pcie_idle_gt_s",
         f"no PCIe generation runs at {m.pcie_idle_gt_s:g} GT/s"),
        (m.pcie_lanes in LANES, "pcie_lanes", f"a link has {', '.join(map(str, LANES))} lanes, not {m.pcie_lanes}"),
        (m.clock_min_mhz <= m.clock_mhz, "clock_min_mhz",
         f"{m.clock_min_mhz:g} MHz is above the full clock of {m.clock_mhz:g} MHz (clock_mhz)"),
        (m.idle_w < m.max_w, "idle_w", f"{m.idle_w:g} W when idle is not below the limit of {m.max_w:g} W (max_w)"),
        (m.full_load_w == 0 or m.full_load_w > m.idle_w, "full_load_w",
         f"{m.full_load_w:g} W at full load is not above {m.idle_w:g} W when idle (idle_w)"),
        (m.hbm_row_bytes >= m.hbm_granule_bytes, "hbm_row_bytes",
         f"a row of {m.hbm_row_bytes} B is smaller than one access of {m.hbm_granule_bytes} B (hbm_granule_bytes)"),
        (m.hbm_interleave_bytes >= m.hbm_granule_bytes, "hbm_interleave_bytes",
         f"{m.hbm_interleave_bytes} B is smaller than one access of {m.hbm_granule_bytes} B (hbm_granule_bytes)"),
        (m.hbm_row_bytes >= m.hbm_interleave_bytes, "hbm_row_bytes", f"a row of {m.hbm_row_bytes} B is smaller than "
         f"what a channel holds in one piece, {m.hbm_interleave_bytes} B (hbm_interleave_bytes)"),
        (m.hbm_miss_overlap <= m.hbm_banks, "hbm_miss_overlap",
         f"{m.hbm_miss_overlap} row misses at once need as many banks, there are {m.hbm_banks} (hbm_banks)"),
        (min(m.tick_hz) >= 1, "tick_hz", "a clock needs at least 1 tick/s"),
    ]
    checks += [(getattr(m, key) & (getattr(m, key) - 1) == 0, key, f"{getattr(m, key)} B is no power of two")
               for key in powers]
    return [(key, reason) for holds, key, reason in checks if not holds]


def machine_names() -> list[str]:
    """Kinds that come with the package."""
    return names_in(MACHINES)


def load_machine(name_or_path: str | Path) -> Machine:
    """A machine by kind or from a TOML file; UsageError names file, key, line where there is one, and reason."""
    path = find("machine", name_or_path, MACHINES)
    source, values = read("machine", path)
    return parse_machine({"kind": path.stem, **values}, f"machine {path}", source)


def parse_machine(values: Mapping[str, object], where: str, source: str = "") -> Machine:
    """A machine from values; ``where`` leads the error's text, ``source`` is the TOML the values come from."""
    try:
        return Machine.model_validate(dict(values))
    except ValidationError as error:
        found = error.errors()  # a misspelt key says more than the required one it leaves out
        first = next((entry for entry in found if entry["type"] == "extra_forbidden"), found[0])
        reason = first["msg"].removeprefix("Value error, ")
        if first["loc"]:
            key = ".".join(str(part) for part in first["loc"])
            given = f" (given: {first['input']!r})" if first["type"] not in ("missing", "extra_forbidden") else ""
        else:
            (key, _, reason), given = reason.partition(": "), ""
        line = _line_of(source, key.partition(".")[0])
        raise UsageError(f"{where}{f', line {line}' if line else ''}: {key}: {reason}{given}") from error


def _line_of(source: str, key: str) -> int | None:
    """Line, from 1, on which a top-level key is assigned."""
    for number, line in enumerate(source.splitlines(), start=1):
        if re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
            return number
    return None
