"""The unit `revise` between an in-memory stream and an embedded store: waits, merges, repeats, refuses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fleetscope.clock import ManualClock
from fleetscope.contracts.batch import Batch
from fleetscope.contracts.codec import Encoded, decode, encode
from fleetscope.contracts.topics import TOPICS
from fleetscope.errors import Origin, RetryError
from fleetscope.settings import StoreSettings
from fleetscope.step import Output, replay
from fleetscope.store.abstract import Parameter
from fleetscope.store.arrange import arrange, table_of
from fleetscope.store.clickhouse import ClickHouseStore, open_store
from fleetscope.store.migrate import migrate
from fleetscope.stream.memory import MemoryStream
from processors.bottleneck.step import BottleneckStep
from processors.metrics import Metrics
from processors.revise.unit import Reviser
from processors.windows.step import WindowsStep
from tests.conformance.step_suite import final_rows, numbered
from tests.unit.processors.windows.hosts import Feed, busy_host

STEP = WindowsStep(window_ns=1000, lookback_ns=500)
Row = dict[str, Any]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ClickHouseStore]:
    with open_store(StoreSettings(path=tmp_path / "store")) as opened:
        migrate(opened)
        yield opened


def late_feed() -> tuple[Feed, list[Output]]:
    """A busy host whose second message with spans came after everything else, and the windows without that delay."""
    feed = Feed()
    busy_host(feed, 4, 4000, close=False)
    expected = [o for o in replay(STEP, numbered(feed.messages), end=False) if o.topic == "windows"]
    index = [i for i, (topic, batch) in enumerate(feed.messages) if topic == "aligned.spans" and len(batch)][2]
    late = feed.messages.pop(index)
    feed.messages.append((late[0], replace(late[1])))
    return feed, expected


def put(store: ClickHouseStore, batches: list[Batch]) -> None:
    for batch in batches:
        if len(batch):
            store.insert(table_of(batch.header.contract), arrange([batch]))


def final(outputs: list[Output]) -> dict[tuple[Any, ...], Row]:
    return final_rows([o for o in outputs if o.topic == "windows"], frozenset({"late_rows"}))


@dataclass
class World:
    """A stream with one partition, a clock moved by hand, and a reviser."""

    store: Any
    clock: ManualClock = field(default_factory=ManualClock)
    stream: MemoryStream = field(default_factory=lambda: MemoryStream(1))

    def __post_init__(self) -> None:
        self.stream.ensure_topics(TOPICS)
        self.out = {topic: self.stream.consumer(f"test-{topic}", (topic,)) for topic in ("windows", "dead_letters")}
        for consumer in self.out.values():
            consumer.poll(1, 0.0)
        self.producer = self.stream.producer("test")
        self.join()

    def join(self) -> None:
        self.unit = Reviser(STEP, self.stream, self.store, instance="t", metrics=Metrics(), wait_s=10.0,
                            clock=self.clock)

    def ask(self, outputs: list[Output]) -> None:
        for output in outputs:
            if output.topic == "late_windows":
                self.producer.send(output.topic, encode(output.batch))

    def rounds(self, count: int = 4) -> None:
        for _ in range(count):
            self.unit.round(0.0)
            self.clock.advance(1.0)

    def published(self, topic: str = "windows") -> list[Output]:
        messages = self.out[topic].poll(1000, 0.0)
        return [Output(topic, decode(m.key, m.value, m.headers, Origin(m.topic, m.partition, m.offset)))
                for m in messages]


def test_a_late_batch_gives_the_windows_of_a_run_in_which_it_came_in_time_and_so_its_verdicts(
        store: ClickHouseStore) -> None:
    feed, expected = late_feed()
    batches = numbered(feed.messages)
    outputs = replay(STEP, batches, end=False)
    assert final(outputs) != final(expected)
    put(store, batches)
    world = World(store)
    world.ask(outputs)
    world.rounds()
    revised = world.published()
    assert final([*outputs, *revised]) == final(expected)
    assert {o.batch.header.producer for o in revised} == {"revise"}

    # read from the topic, as the step that names causes reads them
    messages = [replace(o.batch, origin=Origin("windows", 0, i))
                for i, o in enumerate([*(o for o in outputs if o.topic == "windows"), *revised])]
    verdicts = replay(BottleneckStep(), messages, end=False)
    in_time = replay(BottleneckStep(), [o.batch for o in expected], end=False)
    columns = frozenset({"evidence"})
    only = [[o for o in found if o.topic == "verdicts"] for found in (verdicts, in_time)]
    assert final_rows(only[0], columns) == final_rows(only[1], columns)
    assert max(r["revision"] for o in only[0] for r in o.batch.rows.to_pylist()) == max(
        r["revision"] for o in revised for r in o.batch.rows.to_pylist())


def test_a_request_waits_until_the_store_has_the_late_rows_and_all_that_was_counted_before(
        store: ClickHouseStore) -> None:
    feed, expected = late_feed()
    batches = numbered(feed.messages)
    outputs = replay(STEP, batches, end=False)
    last_counters = [b for b in batches if b.header.contract == "aligned_counters" and len(b)][-1]
    world = World(store)
    world.ask(outputs)
    put(store, [b for b in batches if b not in (batches[-1], last_counters)])
    world.rounds()
    assert world.published() == []
    assert world.unit.idle_since is None
    put(store, [batches[-1]])
    world.rounds()
    assert world.published() == []
    put(store, [last_counters])
    world.rounds()
    assert final([*outputs, *world.published()]) == final(expected)
    world.rounds()
    assert world.unit.idle_since is not None


def test_rows_that_do_not_reach_the_store_are_waited_for_again_and_nothing_is_lost(store: ClickHouseStore) -> None:
    feed, expected = late_feed()
    batches = numbered(feed.messages)
    outputs = replay(STEP, batches, end=False)
    put(store, batches[:-1])
    world = World(store)
    world.ask(outputs)
    with pytest.raises(RetryError, match=r"late_windows/0/0: spans up to offset \d+ are not in the store after 1\d s"):
        world.rounds(20)
    world.unit.abandon()
    put(store, batches[-1:])
    world.join()
    world.rounds()
    assert final([*outputs, *world.published()]) == final(expected)


def test_late_rows_that_never_come_though_later_ones_did_do_not_block_what_follows(store: ClickHouseStore) -> None:
    feed, _ = late_feed()
    batches = numbered(feed.messages)
    outputs = replay(STEP, batches, end=False)
    later = replace(batches[-1], origin=replace(batches[-1].origin, offset=batches[-1].origin.offset + 1))
    put(store, [*batches[:-1], later])
    world = World(store)
    world.ask(outputs)
    world.rounds(8)
    assert world.published() == []
    world.rounds(8)
    assert world.published() != []


def test_requests_for_one_window_that_wait_together_are_computed_once_for_the_last_and_numbered_without_gap(
        store: ClickHouseStore) -> None:
    feed, expected = late_feed()
    topic, late = feed.messages.pop()
    half = len(late) // 2
    feed.messages += [(topic, late.slice(0, half)), (topic, late.slice(half, len(late) - half))]
    batches = numbered(feed.messages)
    outputs = replay(STEP, batches, end=False)
    put(store, batches)
    world = World(store)
    world.ask(outputs)
    world.rounds()
    revised = world.published()
    assert [o.batch.header.sequence for o in revised] == [0, 1]
    assert len(revised[0].batch) == 0
    assert final([*outputs, *revised]) == final(expected)


def test_the_same_request_again_gives_the_same_rows_at_a_higher_revision(store: ClickHouseStore) -> None:
    feed, _ = late_feed()
    batches = numbered(feed.messages)
    outputs = replay(STEP, batches, end=False)
    put(store, batches)
    world = World(store)
    world.ask(outputs)
    world.rounds()
    first = [row for o in world.published() for row in o.batch.rows.to_pylist()]
    world.ask(outputs)
    world.rounds()
    second = [row for o in world.published() for row in o.batch.rows.to_pylist()]
    assert first
    assert [{**r, "revision": 0} for r in second] == [{**r, "revision": 0} for r in first]
    highest = {row["window_start_ns"]: row["revision"] for o in outputs if o.topic == "windows"
               for row in o.batch.rows.to_pylist()}
    assert all(highest[a["window_start_ns"]] < a["revision"] < b["revision"]
               for a, b in zip(first, second, strict=True))


def test_what_cannot_be_read_becomes_a_dead_letter_and_the_next_request_is_answered(store: ClickHouseStore) -> None:
    feed, expected = late_feed()
    batches = numbered(feed.messages)
    outputs = replay(STEP, batches, end=False)
    put(store, batches)
    world = World(store)
    world.producer.send("late_windows", Encoded(b"h1", b"nonsense", (("fs-schema", b"late_windows"),)))
    world.ask(outputs)
    world.rounds()
    dead, = (row for o in world.published("dead_letters") for row in o.batch.rows.to_pylist())
    assert (dead["topic"], dead["offset"], dead["step"]) == ("late_windows", 0, "revise")
    assert final([*outputs, *world.published()]) == final(expected)


@dataclass
class Away:
    """A store that is away for a while."""

    store: ClickHouseStore
    away: bool = True

    def query(self, sql: str, parameters: Mapping[str, Parameter] | None = None) -> pa.Table:
        if self.away:
            raise RetryError("the store is away")
        return self.store.query(sql, parameters)


def test_a_store_that_is_away_commits_nothing_and_the_request_is_answered_when_it_is_back(
        store: ClickHouseStore) -> None:
    feed, expected = late_feed()
    batches = numbered(feed.messages)
    outputs = replay(STEP, batches, end=False)
    put(store, batches)
    away = Away(store)
    world = World(away)
    world.ask(outputs)
    with pytest.raises(RetryError, match="away"):
        world.rounds()
    world.unit.abandon()
    away.away = False
    world.join()
    world.rounds()
    assert final([*outputs, *world.published()]) == final(expected)
