"""Small fleets with faults, and what they publish."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from fleetscope.contracts.batch import Batch
from fleetscope.contracts.codec import decode, decode_header
from fleetscope.errors import Origin, RejectedError
from fleetscope.step import Output
from processors.align.step import AlignStep
from processors.clocks.fleet import FleetClockStep
from simulator.faults.settings import Clocks, Collection
from simulator.fleet import Fleet, FleetConfig
from simulator.producer import Publication
from simulator.truth import NoSink, Tally
from tests.unit.simulator.fleets import config

Row = dict[str, Any]
NS = 1_000_000_000


class Notes(NoSink):
    """Keeps what the truth says of incidents, clocks and missed rows."""

    def __init__(self) -> None:
        self.incidents: list[tuple[str, str, str | None, int, int]] = []
        self.steps: list[tuple[str, str, int, int, str]] = []
        self.missing: dict[str, int] = {}

    def incident(self, kind: str, host: str, device: str | None, start_true_ns: int, end_true_ns: int,
                 severity: str = "warning") -> None:
        self.incidents.append((kind, host, device, start_true_ns, end_true_ns))

    def clock_step(self, host: str, clock: str, true_ns: int, size_ns: int, kind: str) -> None:
        self.steps.append((host, clock, true_ns, size_ns, kind))

    def missed(self, host: str, fate: str, start_ns: Any) -> None:
        self.missing[fate] = self.missing.get(fate, 0) + len(start_ns)


def faulty(clocks: dict[str, Any] | None = None, collection: dict[str, Any] | None = None, *, devices: int = 1,
           **changes: object) -> FleetConfig:
    """Two hosts that serve for two seconds, with these sections."""
    settings = config(devices=devices, **changes)
    scenario = settings.scenario.model_copy(update={"clocks": Clocks.model_validate(clocks or {}),
                                                    "collection": Collection.model_validate(collection or {})})
    return replace(settings, scenario=scenario)


def simulated(settings: FleetConfig) -> tuple[list[Publication], dict[str, Tally], Notes]:
    """What a fleet publishes, its tallies and its truth."""
    notes = Notes()
    fleet = Fleet(settings, notes)
    return list(fleet.publications()), fleet.tallies, notes


def decoded(publications: Sequence[Publication], contract: str, host: str | None = None) -> Iterator[Batch]:
    """Batches of one contract in the order of delivery, those that cannot be decoded left out."""
    for p in publications:
        if p.contract == contract and host in (None, (p.message.key or b"").decode()):
            try:
                yield decode(p.message.key, p.message.value, p.message.headers)
            except RejectedError:
                continue


def rows(publications: Sequence[Publication], contract: str, host: str | None = None) -> list[Row]:
    """Rows of one contract, with the header's ``producer``, ``epoch`` and ``sequence``."""
    return [{**row, "producer": batch.header.producer, "epoch": batch.header.epoch, "sequence": batch.header.sequence}
            for batch in decoded(publications, contract, host) for row in batch.rows.to_pylist()]


def accounted(publications: Sequence[Publication]) -> dict[str, int]:
    """Rows of spans as the pipeline's alignment accounts for them, in memory."""
    fleet, align = FleetClockStep(), AlignStep()
    links, hosts = fleet.start(), align.start()
    found = {"stored": 0, "dead_letter": 0, "dropped": 0, "lost": 0, "redelivered": 0}

    def note(outputs: Sequence[Output]) -> None:
        for output in outputs:
            if output.topic == "aligned.spans":
                found["stored"] += len(output.batch)
            elif output.topic == "coverage":
                for row in output.batch.rows.to_pylist():
                    if row["contract"] == "spans":
                        for name in ("dropped", "lost", "redelivered"):
                            found[name] += row[f"{name}_rows"]

    for offset, p in enumerate(publications):
        origin = Origin(p.topic, 0, offset)
        try:
            batch = decode(p.message.key, p.message.value, p.message.headers, origin)
        except RejectedError:
            header = decode_header(p.message.headers)
            found["dead_letter"] += header.rows if header.contract == "spans" else 0
            hosts = align.on_rejected(hosts, header)
            continue
        if p.topic == "raw.clock_links":
            links, outputs = fleet.on_batch(links, batch)
            for output in outputs:
                if output.topic in align.broadcast:
                    hosts, out = align.on_batch(hosts, output.batch)
                    note(out)
        else:
            hosts, out = align.on_batch(hosts, batch)
            note(out)
    for output in fleet.on_end(links):
        if output.topic in align.broadcast:
            hosts, out = align.on_batch(hosts, output.batch)
            note(out)
    note(align.on_end(hosts))
    return found
