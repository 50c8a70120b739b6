"""The pipeline's threads: units that fail are made anew or stop all, and stopping stores and commits."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, Header, constant_symbol, record_batch
from fleetscope.contracts.codec import encode
from fleetscope.contracts.topics import TOPICS
from fleetscope.errors import FencedError, RetryError, StoreError, UsageError
from fleetscope.settings import PipelineSettings, StoreSettings
from fleetscope.step import TopicPartition
from fleetscope.store.abstract import Store
from fleetscope.store.clickhouse import open_store
from fleetscope.store.migrate import migrate
from processors.runner import Pipeline
from tests.support.faults import Faults, FaultyStore, FaultyStream
from tests.support.span_messages import TOPIC, send, spans_message

AT = TopicPartition(TOPIC, 0)
QUICK = PipelineSettings(insert_linger_s=0.05, commit_interval_s=0.05)
SLOW = PipelineSettings(insert_linger_s=3_600)


class Bench:
    """A broker of one partition and a store, both with faults on demand."""

    def __init__(self, store: Store) -> None:
        self.faults = Faults()
        self.stream = FaultyStream(self.faults, 1)
        self.stream.ensure_topics(TOPICS)
        self.store = FaultyStore(store, self.faults)

    def pipeline(self, settings: PipelineSettings = QUICK) -> Pipeline:
        made = Pipeline(self.stream, self.store, settings, names=("write-spans",), with_telemetry=False)
        made.start()
        return made

    def sequences(self) -> list[int]:
        """Of every stored row, so that doubles show."""
        return [row["sequence"] for row in self.store.query("SELECT sequence FROM spans ORDER BY ALL").to_pylist()]


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with open_store(StoreSettings(path=tmp_path_factory.mktemp("runner") / "store")) as store:
        migrate(store)
        yield store


@pytest.fixture
def bench(database: Store) -> Bench:
    database.command("TRUNCATE TABLE spans")
    return Bench(database)


@pytest.mark.parametrize("point", ["plan", "insert", "end", "ended"])
@pytest.mark.parametrize("error", [FencedError("replaced"), RetryError("passing")], ids=["fenced", "passing"])
def test_a_unit_that_was_fenced_or_met_a_passing_fault_is_made_anew_and_stores_all_once(
        bench: Bench, point: str, error: Exception) -> None:
    bench.faults.arm(point, error)
    pipeline = bench.pipeline()
    send(bench.stream, *(spans_message("a", n, 1) for n in range(5)))
    assert pipeline.wait_drained(0.1, 20)
    pipeline.stop()
    assert not bench.faults.armed
    assert bench.sequences() == list(range(5))


def test_stopping_stores_what_was_taken_and_commits_it(bench: Bench) -> None:
    pipeline = bench.pipeline(SLOW)
    send(bench.stream, *(spans_message("a", n, 1) for n in range(5)))
    (slot,) = pipeline._slots
    while slot.unit is None or not slot.unit._holding():  # type: ignore[attr-defined]
        assert not pipeline.wait_drained(0.0, 0.01)
    assert bench.sequences() == []
    pipeline.stop()
    stored = bench.sequences()
    position = bench.stream.committed("write-spans", AT)
    assert stored
    assert position is not None
    assert stored == list(range(position.offset))
    rest = bench.pipeline()
    assert rest.wait_drained(0.1, 20)
    rest.stop()
    assert bench.sequences() == list(range(5))


def test_a_run_that_ends_publishes_and_stores_what_waits_for_a_host_that_died(bench: Bench) -> None:
    """Without fleet time the rows would wait for ever; at the end of the input they are accounted for."""
    pipeline = Pipeline(bench.stream, bench.store, QUICK, with_telemetry=False)
    pipeline.start()
    ticks = pa.array([10, 20], pa.int64())
    rows = record_batch(CONTRACTS["spans"], {
        "track": constant_symbol("driver", 2), "name": constant_symbol("k", 2), "start_ticks": ticks,
        "duration_ticks": ticks}, 2)
    header = Header("spans", CONTRACTS["spans"].version, "dead", "dead/agent", 1, 0, 2, "monotonic_raw",
                    flushed_ticks=30)
    producer = bench.stream.producer("test")
    producer.send("raw.spans", encode(Batch(header, rows)))
    assert not pipeline.wait_drained(0.1, 0.5)
    assert pipeline.finish(0.1, 30)
    pipeline.stop()
    letters = bench.store.query("SELECT host, code, rows FROM dead_letters").to_pylist()
    assert letters == [{"host": "dead", "code": "no_fleet_time", "rows": 2}]


def test_a_store_that_refuses_stops_the_pipeline_with_its_error_and_nothing_is_committed(bench: Bench) -> None:
    bench.faults.arm("insert", StoreError("no such column", code=16))
    pipeline = bench.pipeline()
    send(bench.stream, spans_message("a", 0, 1))
    with pytest.raises(StoreError, match="no such column"):
        pipeline.wait_drained(0.1, 20)
    with pytest.raises(StoreError, match="no such column"):
        pipeline.stop()
    position = bench.stream.committed("write-spans", AT)
    assert position is not None
    assert position.offset == 0


def test_a_step_that_does_not_exist_is_refused_with_the_names_of_those_that_do(bench: Bench) -> None:
    with pytest.raises(UsageError, match=r"there is no step alihn; steps are .*align.*write-spans"):
        Pipeline(bench.stream, bench.store, QUICK, names=("alihn",))


def test_a_writer_without_a_store_is_refused(bench: Bench) -> None:
    with pytest.raises(UsageError, match="write-spans needs a store"):
        Pipeline(bench.stream, None, QUICK, names=("write-spans",)).start()
