"""How many hosts and devices of which kinds, and what is deployed when."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from simulator.scenario.machines import MachineChoice
from simulator.scenario.part import Part
from simulator.scenario.pcie import Pcie


class Group(Part):
    """Hosts that differ from the scenario's machine or links."""

    hosts: int = Field(ge=1, le=10_000)
    devices: int | None = Field(None, ge=1, le=64, description="None: as the fleet")
    machine: MachineChoice | None = Field(None, description="None: the scenario's machine")
    pcie: Pcie | None = None


class FleetPart(Part):
    """Size where the command line gives none. Groups take hosts in order; beyond the last they repeat."""

    hosts: int = Field(2, ge=1, le=10_000)
    devices: int = Field(4, ge=1, le=64)
    seconds: float = Field(20.0, gt=0)
    network_gbit_s: float = Field(200.0, gt=0, le=100_000, description="between hosts, each, one direction")
    network_latency_us: float = Field(8.0, ge=0, le=1e6, description="added to each collective across hosts")
    groups: tuple[Group, ...] = ()


class Deployment(Part):
    """A new version at a time; ``effect`` scales what it touches (1: no change)."""

    at_s: float = Field(ge=0)
    subject: Literal["model", "driver", "firmware", "compiler"] = "model"
    name: str = "model"
    version: str
    host: int | None = Field(None, ge=0, description="None: every host")
    kernels: float = Field(1.0, gt=0, le=100, description="factor on the time of kernels")
    host_calls: float = Field(1.0, gt=0, le=100, description="factor on the time of the host's calls")
