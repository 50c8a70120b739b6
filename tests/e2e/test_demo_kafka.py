"""The same fleet through real Kafka and through memory: the same rows in the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.demos import differences, every_row, small_demo
from tests.support.kafka_broker import KafkaBroker

pytestmark = pytest.mark.kafka

BY_ARRIVAL = {"dead_letters": frozenset({"time_ms"}), "coverage": frozenset({"redelivered_rows"}),
              "windows": frozenset({"redelivered_rows"})}
"""What depends on when a message came: the broker's time, and which beat of the host a repeat fell in."""


@pytest.mark.parametrize("scenario", ["serving", "lossy"])
def test_kafka_and_memory_come_to_the_same_rows_in_every_table(kafka_broker: KafkaBroker, tmp_path: Path,
                                                               scenario: str) -> None:
    through_memory = small_demo(tmp_path / "memory", scenario=scenario)
    through_kafka = small_demo(tmp_path / "kafka", "--kafka", kafka_broker.bootstrap_servers, scenario=scenario)
    assert through_kafka.document["events"] == through_memory.document["events"]
    rows = every_row(tmp_path / "memory", BY_ARRIVAL)
    assert all(rows[table] for table in ("spans", "segments", "windows", "verdicts", "coverage"))
    assert differences(rows, every_row(tmp_path / "kafka", BY_ARRIVAL)) == []
