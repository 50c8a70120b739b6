"""A whole scenario, and what its sections must agree on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import Field, PrivateAttr

from simulator.faults.plan import impossible
from simulator.faults.settings import Clocks, Collection
from simulator.scenario.faults import LinkDowngrade, PhysicalFault
from simulator.scenario.fleet import Deployment, FleetPart
from simulator.scenario.jobs import AnyJob
from simulator.scenario.lines import Path
from simulator.scenario.machines import DEFAULT, MachineChoice
from simulator.scenario.part import Part
from simulator.scenario.pcie import Pcie
from simulator.scenario.source import Source

Finding = tuple[Path, str]
_DEFAULT_JOB: Any = {"kind": "serving", "per_host": True, "batch": {"running_at_start": 10}}


class Scenario(Part):
    """What runs on what, and what goes wrong. Every section has defaults."""

    name: str = "serving"
    description: str = ""
    fleet: FleetPart = FleetPart()
    machine: MachineChoice = Field(DEFAULT, validate_default=True)
    pcie: Pcie = Pcie()
    jobs: tuple[AnyJob, ...] = Field((_DEFAULT_JOB,), min_length=1, validate_default=True)
    faults: tuple[PhysicalFault, ...] = ()
    deployments: tuple[Deployment, ...] = ()
    clocks: Clocks = Clocks()
    collection: Collection = Collection()

    _source: Source = PrivateAttr(default=Source("(made in code)"))

    @property
    def source(self) -> Source:
        """Where it was read."""
        return self._source

    def __reduce__(self) -> tuple[Any, ...]:
        """Sections made from planners' settings have no importable class of their own: values travel instead."""
        return _restored, (self.model_dump(), self._source)

    def checked(self, source: Source) -> Scenario:
        """The scenario itself, from ``source``. UsageError where sections contradict each other."""
        self._source = source
        for path, reason in self._contradictions():
            raise source.error(path, reason)
        self.check_run(self.fleet.hosts, self.fleet.devices, self.fleet.seconds)
        return self

    def check_run(self, hosts: int, devices: int, seconds: float) -> None:
        """UsageError where a run of this size cannot have what the scenario plans. Hosts' own fabrics included."""
        from simulator.topology.hosts import host_specs
        from simulator.topology.jobs import placements

        specs = host_specs(self, hosts, devices)
        counts = [spec.devices for spec in specs]
        for path, reason in (*self._outside(hosts, counts, seconds),
                             *impossible(self.clocks, self.collection, hosts, max(counts), seconds)):
            raise self._source.error(path, reason)
        placements(self, specs)

    def _contradictions(self) -> Iterator[Finding]:
        names = [job.name for job in self.jobs]
        for index, job in enumerate(self.jobs):
            if names.index(job.name) != index:
                yield ("jobs", index, "name"), f"there are two jobs called {job.name}"
        for index, fault in enumerate(self.faults):
            if isinstance(fault, LinkDowngrade) and fault.gt_s is None and fault.lanes is None:
                yield ("faults", index), "a link_downgrade needs gt_s or lanes"

    def _outside(self, hosts: int, devices: list[int], seconds: float) -> Iterator[Finding]:
        for key, events in (("faults", self.faults), ("deployments", self.deployments)):
            for index, event in enumerate(events):
                if event.at_s >= seconds:
                    yield (key, index, "at_s"), f"{event.at_s:g} s is outside the run of {seconds:g} s"
                if event.host is not None and event.host >= hosts:
                    yield (key, index, "host"), f"there is no host {event.host}: the fleet has {hosts}"
        for index, fault in enumerate(self.faults):
            most = max(devices) if fault.host is None else devices[fault.host]
            if fault.device is not None and fault.device >= most:
                yield ("faults", index, "device"), f"there is no device {fault.device}: the host has {most}"


def _restored(values: dict[str, Any], source: Source) -> Scenario:
    scenario = Scenario.model_validate(values)
    scenario._source = source
    return scenario
