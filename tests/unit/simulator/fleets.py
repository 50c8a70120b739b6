"""Small fleets for the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fleetscope.contracts.batch import Batch
from fleetscope.contracts.codec import decode
from simulator.fleet import Fleet, FleetConfig
from simulator.producer import Publication
from simulator.scenario import load_scenario
from simulator.truth import Sink

START_NS = 1_767_225_600_000_000_000


def config(scenario: str = "serving", **changes: object) -> FleetConfig:
    """Two hosts with two devices for two seconds."""
    values: dict[str, object] = {"hosts": 2, "devices": 2, "seconds": 2.0, "seed": 5, "start_unix_ns": START_NS,
                                 "scenario": load_scenario(scenario), "drain_seconds": 1.0, **changes}
    return FleetConfig(**values)  # type: ignore[arg-type]


def run(settings: FleetConfig, sink: Sink | None = None) -> list[Publication]:
    """All publications of a run."""
    return list(Fleet(settings, sink).publications())


def batches(publications: list[Publication]) -> Iterator[Batch]:
    """Every publication decoded by the codec."""
    for publication in publications:
        message = publication.message
        yield decode(message.key, message.value, message.headers)


@pytest.fixture(scope="module")
def serving() -> list[Publication]:
    """The publications of the default small fleet."""
    return run(config())
