"""The JSON pipeline on a real broker: nothing lost, nothing twice, what is no event counted."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from kafka import KafkaProducer

from bench import broker
from bench.json_pipeline import TOPIC, StalledError, consume, prefill
from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.raw import SPANS
from fleetscope.settings import KafkaSettings, PipelineSettings, Settings

if TYPE_CHECKING:
    from tests.support.kafka_broker import KafkaBroker

pytestmark = pytest.mark.kafka
ROWS, BATCHES = 200, 12


class Recorder:
    """A store that keeps what it is given; only ``insert`` is there to be used."""

    def __init__(self) -> None:
        self.tables: dict[str, list[pa.Table]] = {"spans": [], "windows": []}
        self.tokens: list[str] = []

    def insert(self, table: str, rows: pa.Table, *, token: str = "") -> None:
        self.tables[table].append(rows)
        self.tokens.append(token)

    def rows(self, table: str) -> list[dict[str, Any]]:
        return pa.concat_tables(self.tables[table]).to_pylist()  # type: ignore[no-any-return]


def fleet() -> list[Batch]:
    batches = []
    for number in range(BATCHES):
        device, host = f"dev{number % 2}", f"host{number % 4 // 2}"
        rows = [{"device": device, "track": "engine:matrix", "name": "gemm", "duration_ticks": 40_000,
                 "start_ticks": (number * ROWS + i) * 50_000, "correlation_id": number * ROWS + i} for i in range(ROWS)]
        header = Header("spans", 1, host, f"{host}/agent", 7, number, ROWS, clock=device)
        batches.append(Batch(header, from_rows(SPANS, rows)))
    return batches


@pytest.fixture
def settings(kafka_broker: KafkaBroker) -> Settings:
    kafka = KafkaSettings(bootstrap_servers=kafka_broker.bootstrap_servers, partitions=3,
                          topic_prefix=f"{uuid.uuid4().hex[:8]}.")
    return Settings(kafka=kafka, pipeline=PipelineSettings(insert_rows=500))


@pytest.mark.parametrize("workers", [1, 2])
def test_every_event_is_stored_once_by_any_number_of_workers(settings: Settings, workers: int) -> None:
    assert prefill(settings.kafka, fleet()) == ROWS * BATCHES
    store = Recorder()
    measured = consume(settings, store, ROWS * BATCHES, workers=workers)  # type: ignore[arg-type]
    spans = store.rows("spans")
    assert sorted(row["correlation_id"] for row in spans) == list(range(ROWS * BATCHES))
    assert len({(r["host"], r["producer"], r["epoch"], r["sequence"], r["row"]) for r in spans}) == len(spans)
    assert (measured.events, measured.rejected) == (ROWS * BATCHES, 0)
    assert sum(row["kernel_unattributed_ns"] for row in store.rows("windows")) == ROWS * BATCHES * 40_000
    assert len(set(store.tokens)) == len(store.tokens)
    assert measured.wire_bytes == broker.topic_bytes(settings.kafka, [TOPIC]) > 0
    assert measured.cpu_s > 0


def test_what_is_no_event_is_counted_named_by_offset_and_costs_nothing_else(
        settings: Settings, caplog: pytest.LogCaptureFixture) -> None:
    sent = prefill(settings.kafka, fleet())
    producer = KafkaProducer(**broker.connection(settings.kafka))
    producer.send(settings.kafka.topic_prefix + TOPIC, b"{truncated", partition=1)
    producer.close()
    store = Recorder()
    measured = consume(settings, store, sent + 1)  # type: ignore[arg-type]
    assert (measured.events, measured.rejected) == (sent, 1)
    assert f"{TOPIC}[1]@" in caplog.text


def test_what_was_stored_is_not_read_again_and_a_short_topic_is_an_error(settings: Settings) -> None:
    sent = prefill(settings.kafka, fleet())
    consume(settings, Recorder(), sent)  # type: ignore[arg-type]
    with pytest.raises(StalledError, match="after 0 messages"):
        consume(settings, Recorder(), 1, idle_s=1.5)  # type: ignore[arg-type]
    with pytest.raises(StalledError, match=f"after {sent} messages"):
        consume(settings, Recorder(), sent + 1, idle_s=1.5, group="another")  # type: ignore[arg-type]
