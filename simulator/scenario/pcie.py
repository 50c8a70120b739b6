"""The PCIe fabric of a host as a scenario states it: a rule for any number of devices, or every port by name."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from simulator.machine import LANES, SPEEDS_GT_S
from simulator.scenario.part import Part


def _lanes(value: int) -> int:
    if value not in LANES:
        raise ValueError(f"a link has {', '.join(map(str, LANES))} lanes, not {value}")
    return value


def _speed(value: float) -> float:
    if value not in SPEEDS_GT_S:
        raise ValueError(f"no PCIe generation runs at {value:g} GT/s, known are "
                         f"{', '.join(f'{speed:g}' for speed in SPEEDS_GT_S)}")
    return value


Lanes = Annotated[int, AfterValidator(_lanes)]
Speed = Annotated[float, AfterValidator(_speed)]
"""GT/s of generations 1 to 6."""


class RootPort(Part):
    """A port of the processor: one link to one device or one switch."""

    name: str
    numa: int = Field(0, ge=0, description="node of the processor it belongs to")
    gt_s: Speed = 16.0
    lanes: Lanes = 16


class Switch(Part):
    """A switch; its uplink is shared by everything below."""

    name: str
    upstream: str = Field(description="root port or switch it hangs on")
    gt_s: Speed = Field(16.0, description="uplink as negotiated")
    lanes: Lanes = Field(16, description="uplink as negotiated")
    max_gt_s: Speed | None = Field(None, description="what both ends of the uplink could do; None: as negotiated")
    max_lanes: Lanes | None = None


class Endpoint(Part):
    """Where a device hangs and what its own link negotiated; capability is the device's."""

    device: int = Field(ge=0)
    upstream: str
    gt_s: Speed | None = Field(None, description="None: what the device and the section's gt_s allow")
    lanes: Lanes | None = None


class Pcie(Part):
    """Links of each host. ``layout`` makes ports for any number of devices; ``endpoints`` name every device instead."""

    layout: Literal["direct", "switched"] = Field("direct", description="direct: each device at a root port of its own")
    devices_per_switch: int = Field(4, ge=1, le=64)
    uplink_gt_s: Speed = 16.0
    uplink_lanes: Lanes = 16
    gt_s: Speed | None = Field(None, description="negotiated by every device's link; None: the device's capability")
    lanes: Lanes | None = None
    numa_nodes: int = Field(1, ge=1, le=8)
    lanes_per_node: int = Field(128, ge=1, le=1_024, description="lanes that one node of the processor has")
    mps_bytes: Literal[128, 256, 512, 1_024, 2_048, 4_096] | None = Field(None, description="None: the device's")
    mrrs_bytes: Literal[128, 256, 512, 1_024, 2_048, 4_096] | None = None
    write_share: float = Field(1.0, gt=0, le=1, description="part of their ceiling that writes to host memory reach: "
                                "the host's flow control grants no more credits")
    aspm: bool = Field(False, description="idle links sleep; the first transfer after a pause waits for them")
    aspm_idle_us: float = Field(100.0, gt=0, description="pause after which a link sleeps")
    aspm_exit_us: float = Field(8.0, ge=0, description="time to leave L1")
    root_ports: tuple[RootPort, ...] = ()
    switches: tuple[Switch, ...] = ()
    endpoints: tuple[Endpoint, ...] = ()
