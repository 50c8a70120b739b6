"""How many hosts and devices of which kinds, and what is deployed when."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from simulator.scenario.part import Part
from simulator.scenario.pcie import Pcie


class Group(Part):
    """Hosts that differ from the scenario's machine or links."""

    hosts: int = Field(ge=1, le=10_000)
    devices: int | None = Field(None, ge=1, le=64, description="None: as the fleet")
    machine: dict[str, Any] | None = Field(None, description="kind and overrides; None: the scenario's machine")
    pcie: Pcie | None = None


class FleetPart(Part):
    """Size where the command line gives none. Groups take hosts in order; beyond the last they repeat."""

    hosts: int = Field(2, ge=1, le=10_000)
    devices: int = Field(4, ge=1, le=64)
    seconds: float = Field(20.0, gt=0)
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
