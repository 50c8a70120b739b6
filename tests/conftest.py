"""Fixtures that several suites share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.kafka_broker import KafkaBroker, missing_for_kafka
from tests.support.stream_case import StreamCase, kafka_case, memory_case


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[KafkaBroker]:
    """One real broker for the session; skipped where none can be started, unless FLEETSCOPE_REQUIRE_KAFKA=1."""
    missing = missing_for_kafka()
    if missing and os.environ.get("FLEETSCOPE_REQUIRE_KAFKA") == "1":
        pytest.fail(f"FLEETSCOPE_REQUIRE_KAFKA=1, but no Kafka can be started: {missing}")
    if missing:
        pytest.skip(f"no Kafka can be started: {missing}")
    with KafkaBroker() as broker:
        yield broker


@pytest.fixture(params=["memory", pytest.param("kafka", marks=pytest.mark.kafka)])
def case(request: pytest.FixtureRequest) -> Iterator[StreamCase]:
    """A fresh stream of each kind."""
    if request.param == "memory":
        made = memory_case()
    else:
        broker: KafkaBroker = request.getfixturevalue("kafka_broker")
        made = kafka_case(broker.bootstrap_servers)
    yield made
    made.close()
