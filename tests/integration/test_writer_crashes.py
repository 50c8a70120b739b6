"""Writers die at every point, lose replies and are replaced: the store has every row once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from fleetscope.clock import ManualClock
from fleetscope.contracts.codec import decode, encode
from fleetscope.contracts.topics import TOPICS
from fleetscope.errors import FencedError, Origin, RetryError
from fleetscope.settings import StoreSettings
from fleetscope.step import TopicPartition
from fleetscope.store.abstract import Store
from fleetscope.store.arrange import arrange
from fleetscope.store.clickhouse import open_store
from fleetscope.store.migrate import migrate
from fleetscope.stream.abstract import Position
from fleetscope.stream.memory import MemoryConsumer
from processors.metrics import Metrics
from processors.writer import POLL_MESSAGES, Plan, Target, Writer
from tests.support.faults import WRITER_POINTS, CrashError, Faults, FaultyStore, FaultyStream
from tests.support.span_messages import DAY_NS, NOON_NS, TOPIC, damaged, send, spans, spans_message

MIDNIGHT_NS = NOON_NS + DAY_NS // 2
AT = TopicPartition(TOPIC, 0)


class Bench:
    """A broker of one partition, a store and a clock; writers come and go."""

    def __init__(self, store: Store) -> None:
        self.faults = Faults()
        self.clock = ManualClock(NOON_NS)
        self.stream = FaultyStream(self.faults, 1)
        self.stream.ensure_topics(TOPICS)
        self.stream.declare_group("write", (TOPIC,))
        self.stream.declare_group("watch", ("dead_letters",))
        self.store = FaultyStore(store, self.faults)

    def writer(self, insert_rows: int = 1_000_000) -> Writer:
        return Writer("write", {TOPIC: Target("spans")}, self.stream, self.store, metrics=Metrics(),
                      insert_rows=insert_rows, linger_s=1.0, clock=self.clock)

    def drain(self, writer: Writer) -> None:
        """Turns until nothing is left; the clock moves by more than the linger time."""
        for _ in range(50):
            if not writer.round(0.0) and not sum(self.stream.group_lag("write", [TOPIC]).values()):
                return
            self.clock.advance(1.1)
        raise AssertionError("the writer does not come to an end")

    def drain_until_it_dies(self, writer: Writer) -> None:
        """The armed crash strikes, and the broker takes the dead member out of its group."""
        with pytest.raises(CrashError):
            self.drain(writer)
        self.forget(writer)

    def forget(self, writer: Writer) -> None:
        """What a broker does with a member that it does not hear of."""
        assert isinstance(writer._consumer, MemoryConsumer)
        self.stream.leave("write", writer._consumer)

    def stored(self) -> Counter[tuple[str, int, int]]:
        """How often each identity is there."""
        rows = self.store.query("SELECT host, sequence, row FROM spans").to_pylist()
        return Counter((r["host"], r["sequence"], r["row"]) for r in rows)


@pytest.fixture(scope="module")
def database(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One for the module: what it remembers of earlier tests' tokens must not matter either."""
    with open_store(StoreSettings(path=tmp_path_factory.mktemp("writer") / "store")) as store:
        migrate(store)
        yield store


@pytest.fixture
def bench(database: Store) -> Bench:
    database.command("TRUNCATE TABLE spans")
    return Bench(database)


def once(*messages: tuple[str, int, int]) -> Counter[tuple[str, int, int]]:
    """Every row of (host, sequence, rows) once."""
    return Counter((host, sequence, row) for host, sequence, rows in messages for row in range(rows))


@pytest.mark.parametrize("point", WRITER_POINTS)
@pytest.mark.parametrize("nth", [1, 2])
def test_a_writer_that_dies_at_any_point_leaves_every_row_once(bench: Bench, point: str, nth: int) -> None:
    send(bench.stream, *(spans_message("a", n, 10) for n in range(6)))
    bench.faults.arm(point, CrashError(), nth)
    bench.drain_until_it_dies(bench.writer(insert_rows=20))
    send(bench.stream, spans_message("a", 6, 10))
    bench.drain(bench.writer(insert_rows=20))
    assert bench.stored() == once(*(("a", n, 10) for n in range(7)))


def test_a_successor_with_other_block_sizes_repeats_the_planned_range_exactly(bench: Bench) -> None:
    send(bench.stream, *(spans_message("a", n, 10) for n in range(4)))
    bench.faults.arm("insert", CrashError())
    bench.drain_until_it_dies(bench.writer(insert_rows=30))
    plan = Plan.of(bench.stream.committed("write", AT))
    assert plan is not None
    assert (plan.start, plan.end) == (0, 3)
    bench.drain(bench.writer(insert_rows=10))
    _, rows, token = bench.store.inserts[0]
    assert token == plan.token
    assert rows.num_rows == 30
    assert bench.stored() == once(*(("a", n, 10) for n in range(4)))


def test_a_writer_that_dies_again_and_again_gets_through_in_the_end(bench: Bench) -> None:
    send(bench.stream, *(spans_message("a", n, 7) for n in range(12)))
    for number, point in enumerate(WRITER_POINTS * 2):
        bench.faults.arm(point, CrashError())
        bench.drain_until_it_dies(bench.writer(insert_rows=14))
        send(bench.stream, spans_message("b", number, 3))
    bench.drain(bench.writer(insert_rows=14))
    assert bench.stored() == once(*(("a", n, 7) for n in range(12)), *(("b", n, 3) for n in range(12)))
    assert not sum(bench.stream.group_lag("write", [TOPIC]).values())


def test_an_insert_whose_acknowledgement_is_lost_is_repeated_with_its_token_and_stored_once(bench: Bench) -> None:
    send(bench.stream, spans_message("a", 0, 10))
    bench.faults.arm("inserted", RetryError("no answer"))
    bench.drain(bench.writer())
    assert len(bench.store.inserts) == 2
    assert bench.store.inserts[0][2] == bench.store.inserts[1][2]
    assert bench.stored() == once(("a", 0, 10))


def test_a_store_that_stays_away_stops_the_writer_before_it_commits_past_the_rows(bench: Bench) -> None:
    send(bench.stream, spans_message("a", 0, 10))

    def away(*_: object, **__: object) -> None:
        raise RetryError("connection refused")

    bench.store.insert = away  # type: ignore[method-assign]
    writer = bench.writer()
    with pytest.raises(RetryError):
        bench.drain(writer)
    writer.abandon()
    at = bench.stream.committed("write", AT)
    assert at is not None
    assert at.offset == 0
    del bench.store.insert  # type: ignore[attr-defined]
    bench.drain(bench.writer())
    assert bench.stored() == once(("a", 0, 10))


@pytest.mark.parametrize("kept_day", [0, 1])
def test_a_block_over_two_days_that_was_stored_by_half_is_completed(bench: Bench, kept_day: int) -> None:
    starts = [MIDNIGHT_NS - 2_000, MIDNIGHT_NS - 1_000, MIDNIGHT_NS, MIDNIGHT_NS + 1_000]
    batches = [spans("a", n, starts) for n in range(3)]
    send(bench.stream, *(encode(batch) for batch in batches))
    bench.faults.arm("insert", CrashError())
    bench.drain_until_it_dies(bench.writer())
    plan = Plan.of(bench.stream.committed("write", AT))
    assert plan is not None
    messages = bench.stream.fetch({AT: 0}, frozenset(), 10, 0.0)
    block = arrange([decode(m.key, m.value, m.headers, Origin(m.topic, m.partition, m.offset)) for m in messages])
    days = [start >= MIDNIGHT_NS for start in block.column("start_ns").to_pylist()]
    half = block.filter([day == bool(kept_day) for day in days])
    assert 0 < half.num_rows < block.num_rows
    bench.store.insert("spans", half, token=plan.token)  # what a server stores that dies between two partitions
    bench.drain(bench.writer())
    assert bench.stored() == once(*(("a", n, 4) for n in range(3)))


def test_a_zombies_insert_that_lands_after_its_successors_is_dropped_and_the_zombie_is_fenced(bench: Bench) -> None:
    send(bench.stream, *(spans_message("a", n, 10) for n in range(2)))
    zombie = bench.writer()
    real_insert = bench.store.insert

    def slow_insert(table: str, rows: object, *, token: str = "") -> None:
        bench.store.insert = real_insert  # type: ignore[method-assign]
        bench.forget(zombie)
        bench.drain(bench.writer())
        real_insert(table, rows, token=token)  # type: ignore[arg-type]

    zombie.round(0.0)
    bench.clock.advance(1.1)
    bench.store.insert = slow_insert  # type: ignore[method-assign]
    with pytest.raises(FencedError):
        zombie.round(0.0)
    assert bench.stored() == once(("a", 0, 10), ("a", 1, 10))
    at = bench.stream.committed("write", AT)
    assert at is not None
    assert (at.offset, at.metadata) == (2, "")


def test_closing_a_writer_stores_what_it_took_and_commits_the_end(bench: Bench) -> None:
    send(bench.stream, *(spans_message("a", n, 10) for n in range(3)))
    writer = bench.writer()
    writer.round(0.0)
    assert bench.stored() == Counter()  # the linger time is not over
    writer.close()
    assert bench.stored() == once(*(("a", n, 10) for n in range(3)))
    assert bench.stream.committed("write", AT) == Position(3)


def test_abandoning_a_writer_leaves_what_it_took_to_the_next(bench: Bench) -> None:
    send(bench.stream, *(spans_message("a", n, 10) for n in range(3)))
    writer = bench.writer()
    writer.round(0.0)
    writer.abandon()
    assert bench.stream.committed("write", AT) is None
    bench.drain(bench.writer())
    assert bench.stored() == once(*(("a", n, 10) for n in range(3)))


def test_a_message_that_cannot_be_decoded_becomes_one_dead_letter_and_the_rest_is_stored(bench: Bench) -> None:
    send(bench.stream, spans_message("a", 0, 4), damaged(spans_message("a", 1, 4)), spans_message("a", 2, 4))
    bench.drain(bench.writer())
    assert bench.stored() == once(("a", 0, 4), ("a", 2, 4))
    (letter,) = bench.stream.fetch({TopicPartition("dead_letters", 0): 0}, frozenset(), 10, 0.0)
    (row,) = decode(letter.key, letter.value, letter.headers).rows.to_pylist()
    assert (row["topic"], row["partition"], row["offset"], row["step"]) == (TOPIC, 0, 1, "write")
    assert bench.stream.committed("write", AT) == Position(3)


def test_a_writer_in_a_long_turn_does_not_look_idle(bench: Bench) -> None:
    writer = bench.writer()
    bench.drain(writer)
    bench.clock.advance(1.0)
    writer.round(0.0)
    assert writer.idle_since is not None
    send(bench.stream, spans_message("a", 0, 4))
    seen: list[float | None] = []
    take = writer._take
    writer._take = lambda message: (seen.append(writer.idle_since), take(message))[1]  # type: ignore[method-assign]
    writer.round(0.0)
    assert seen == [None]


def test_a_range_longer_than_one_poll_is_repeated_only_when_all_of_it_was_read_again(bench: Bench) -> None:
    count = 2 * POLL_MESSAGES + 5
    send(bench.stream, *(spans_message("a", n, 2) for n in range(count)))
    first = bench.writer()
    for _ in range(3):
        first.round(0.0)
    bench.faults.arm("inserted", CrashError())
    bench.drain_until_it_dies(first)
    plan = Plan.of(bench.stream.committed("write", AT))
    assert plan is not None
    assert plan.end - plan.start == count
    bench.drain(bench.writer())
    assert bench.stored() == once(*(("a", n, 2) for n in range(count)))


def test_rows_are_not_stored_again_where_the_store_has_forgotten_the_token(bench: Bench) -> None:
    send(bench.stream, *(spans_message("a", n, 10) for n in range(3)))
    bench.faults.arm("insert", CrashError())
    bench.drain_until_it_dies(bench.writer())
    messages = bench.stream.fetch({AT: 0}, frozenset(), 2, 0.0)
    block = arrange([decode(m.key, m.value, m.headers, Origin(m.topic, m.partition, m.offset)) for m in messages])
    bench.store.insert("spans", block, token="a token that is not remembered")
    bench.drain(bench.writer())
    assert bench.stored() == once(*(("a", n, 10) for n in range(3)))
