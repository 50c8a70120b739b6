"""Faults of the machines themselves and when they hold. Times are seconds since the start of the run."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from simulator.scenario.part import Part
from simulator.scenario.pcie import Lanes, Speed


class Timed(Part):
    """When and where a fault holds."""

    at_s: float = Field(ge=0)
    for_s: float | None = Field(None, gt=0, description="None: to the end of the run")
    host: int | None = Field(None, ge=0, description="None: every host")
    device: int | None = Field(None, ge=0, description="None: every device of the host")


class LinkDowngrade(Timed):
    """The device's link renegotiates to less than both ends can do."""

    kind: Literal["link_downgrade"]
    gt_s: Speed | None = None
    lanes: Lanes | None = None


class LinkRetraining(Timed):
    """The link retrains again and again; nothing passes meanwhile."""

    kind: Literal["link_retraining"]
    every_ms: float = Field(50.0, gt=0)
    stall_ms: float = Field(4.0, gt=0)


class Replays(Timed):
    """Corrupt packets are sent again: bandwidth is lost and the replay counter rises."""

    kind: Literal["replays"]
    per_s: float = Field(200.0, ge=0, description="replays while the link is busy")
    share: float = Field(0.05, ge=0, lt=1, description="bandwidth they take")


class ThermalThrottle(Timed):
    """Cooling fails: the air that enters is hotter, and the clock falls when the device reaches its limit."""

    kind: Literal["thermal_throttle"]
    inlet_c: float = Field(70.0, ge=-20, le=120)


class PowerCap(Timed):
    """The power limit is lowered; the clock falls to hold it."""

    kind: Literal["power_cap"]
    watts: float = Field(gt=0)


class NoisyNeighbour(Timed):
    """Traffic of somebody else on the path between device and host memory."""

    kind: Literal["noisy_neighbour"]
    share: float = Field(0.5, gt=0, lt=1, description="of the bandwidth of the device's path nearest to the host")


class CpuContention(Timed):
    """The host's threads wait for a processor."""

    kind: Literal["cpu_contention"]
    share: float = Field(0.5, gt=0, lt=1, description="of the time in which a thread is ready but does not run")


class Straggler(Timed):
    """A device works slower than its kind for no reason that it states."""

    kind: Literal["straggler"]
    slowdown: float = Field(1.5, gt=1, le=100)


PhysicalFault = Annotated[
    LinkDowngrade | LinkRetraining | Replays | ThermalThrottle | PowerCap | NoisyNeighbour | CpuContention | Straggler,
    Field(discriminator="kind")]
"""Tables ``[[faults]]`` by their ``kind``."""
