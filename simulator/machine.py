"""What a kind of device is: engines, memories, links, power and clocks, as read from simulator/machines/<kind>.toml."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field


class Machine(BaseModel):
    """One kind of device. Peaks are nominal; ``*_achievable`` is the share of them that a perfect kernel reaches."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: str
    description: str = ""
    source: str = Field("", description="where the figures come from")
    published_peaks: bool = Field(True, description="false: inventory does not state peaks; analysis calibrates them")

    matrix_flops_per_s: float = Field(gt=0)
    vector_flops_per_s: float = Field(gt=0)
    matrix_achievable: float = Field(0.7, gt=0, le=1)
    vector_achievable: float = Field(0.8, gt=0, le=1)
    kernel_fixed_ns: float = Field(1_500.0, ge=0, description="start-up and drain of a kernel")

    sram_bytes: int = Field(gt=0, description="on-chip memory")
    sram_bytes_per_s: float = Field(gt=0)
    sram_banks: int = Field(32, ge=1)
    noc_bytes_per_s: float = Field(gt=0, description="network on chip between engines and memory")

    hbm_bytes: int = Field(gt=0, description="device memory")
    hbm_bytes_per_s: float = Field(gt=0)
    hbm_channels: int = Field(ge=1)
    hbm_achievable: float = Field(0.85, gt=0, le=1, description="share reached by long sequential reads")
    hbm_row_bytes: int = Field(1_024, ge=64)
    hbm_row_miss_ns: float = Field(30.0, ge=0, description="precharge and activate")
    hbm_turnaround_ns: float = Field(15.0, ge=0, description="each change between reading and writing")

    dma_engines: int = Field(2, ge=1)
    dma_setup_ns: float = Field(1_200.0, ge=0, description="descriptor fetch, doorbell, completion")
    dma_tags: int = Field(256, ge=1)
    queue_depth: int = Field(1_024, ge=1, description="submissions a queue takes before the call blocks")
    launch_latency_ns: float = Field(2_500.0, ge=0, description="from the end of submission to the earliest start")

    fabric_bytes_per_s: float = Field(0.0, ge=0, description="device-to-device link, one direction; 0: none")
    fabric_latency_ns: float = Field(1_500.0, ge=0)

    pcie_gt_s: float = Field(16.0, gt=0)
    pcie_lanes: int = Field(8, ge=1, le=32)
    pcie_mps_bytes: int = Field(256, ge=128, le=4_096)
    pcie_mrrs_bytes: int = Field(512, ge=128, le=4_096)

    clock_mhz: float = Field(gt=0, description="full clock")
    clock_min_mhz: float = Field(gt=0)
    idle_w: float = Field(ge=0)
    max_w: float = Field(gt=0, description="power limit: the clock falls to hold it")
    thermal_c_per_w: float = Field(0.12, gt=0, description="rise over inlet air a watt, in the steady state")
    thermal_s: float = Field(20.0, gt=0, description="time constant")
    throttle_c: float = Field(88.0, gt=0, description="above it the clock falls")
    tick_hz: tuple[int, ...] = (1_000_000_000,)
    timestamp_bits: int = Field(64, ge=24, le=64)
    driver_version: str = "1.0.0"
    firmware_version: str = "1.0.0"
