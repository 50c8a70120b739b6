"""Workers die between sending and committing, are fenced, and share partitions: what comes out is what one undisturbed
run brings, each row once."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from fleetscope.clock import ManualClock
from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.codec import decode
from fleetscope.contracts.derived import TELEMETRY
from fleetscope.contracts.topics import DEAD_LETTERS_TOPIC, SNAPSHOTS, Topic
from fleetscope.errors import FencedError, Origin, RetryError
from fleetscope.snapshots import dump, load
from fleetscope.step import Output, TopicPartition
from fleetscope.stream.memory import MemoryConsumer
from fleetscope.stream.partition import partition_of
from processors.metrics import Metrics
from processors.worker import Worker
from tests.support.faults import CrashError, Faults, FaultyStream
from tests.support.span_messages import NOON_NS, TOPIC, damaged, send, spans_message

PARTITIONS = 3
HOSTS = [next(f"h{i}" for i in range(99) if partition_of(f"h{i}".encode(), PARTITIONS) == p) for p in range(PARTITIONS)]
"""A host in each partition."""

OUT = Topic("out", ("telemetry",))
Row = tuple[str, int, float]


@dataclass
class RunningState:
    """Counted per host, the next offset of each partition, and batches that wait."""

    totals: dict[str, int] = field(default_factory=dict)
    following: dict[TopicPartition, int] = field(default_factory=dict)
    released: dict[TopicPartition, int] = field(default_factory=dict)
    waiting: list[Batch] = field(default_factory=list)


@dataclass(frozen=True)
class RunningTotal:
    """Tells of each batch how many rows its host had sent by then, but only when ``delay`` later ones have come."""

    delay: int = 0
    name: ClassVar[str] = "running_total"
    inputs: ClassVar[tuple[str, ...]] = (TOPIC,)
    broadcast: ClassVar[tuple[str, ...]] = ()

    def start(self) -> RunningState:
        return RunningState()

    def on_batch(self, state: RunningState, batch: Batch) -> tuple[RunningState, list[Output]]:
        assert batch.origin is not None
        at = TopicPartition(batch.origin.topic, batch.origin.partition)
        if batch.origin.offset < state.following.get(at, 0):  # read again after a restart
            if batch.origin.offset >= state.released.get(at, 0):
                state.waiting.append(batch)
            return state, []
        state.following[at] = batch.origin.offset + 1
        state.waiting.append(batch)
        outputs = []
        while len(state.waiting) > self.delay:
            first = state.waiting.pop(0)
            assert first.origin is not None
            state.released[at] = first.origin.offset + 1
            host = first.header.host
            state.totals[host] = state.totals.get(host, 0) + len(first)
            outputs.append(told(host, first.header.sequence, state.totals[host]))
        return state, outputs

    def on_end(self, state: RunningState) -> list[Output]:
        return []

    def held(self, state: RunningState) -> Mapping[TopicPartition, int]:
        origins = [batch.origin for batch in state.waiting if batch.origin]
        return {TopicPartition(o.topic, o.partition): min(x.offset for x in origins) for o in origins}

    def snapshot(self, state: RunningState) -> bytes:
        plain: dict[str, Any] = {"totals": state.totals}
        for name in ("following", "released"):
            plain[name] = [[*at, offset] for at, offset in getattr(state, name).items()]
        return dump(self.name, 1, plain)

    def restore(self, data: bytes) -> RunningState:
        plain = load(data, self.name, 1)
        positions = [{TopicPartition(t, p): o for t, p, o in plain[name]} for name in ("following", "released")]
        return RunningState(plain["totals"], *positions)


def told(host: str, sequence: int, total: int) -> Output:
    row: dict[str, object] = {"time_ns": NOON_NS, "step": host, "partition": sequence, "metric": "rows", "value": total}
    header = Header(TELEMETRY.name, TELEMETRY.version, host, "running_total", 0, sequence, 1)
    return Output(OUT.name, Batch(header, from_rows(TELEMETRY, [row])))


class Bench:
    """A broker, a clock, and workers that come and go; ``delay`` as in ``RunningTotal``."""

    def __init__(self, delay: int = 0) -> None:
        self.faults = Faults()
        self.clock = ManualClock(NOON_NS)
        self.step = RunningTotal(delay)
        self.stream = FaultyStream(self.faults, PARTITIONS, keep=("snapshots", "out", "dead_letters"))
        self.stream.ensure_topics([Topic(TOPIC, ("aligned_spans",)), OUT, SNAPSHOTS, DEAD_LETTERS_TOPIC])
        self.stream.declare_group(self.step.name, self.step.inputs)
        self.made = 0

    def worker(self, instance: str = "") -> Worker:
        self.made += 1
        return Worker(self.step, self.stream, instance=instance or f"w{self.made}", metrics=Metrics(),
                      commit_interval_s=1.0, held_bytes=1 << 30, clock=self.clock)

    def forget(self, worker: Worker) -> None:
        """What a broker does with a member that it does not hear of."""
        assert isinstance(worker._consumer, MemoryConsumer)
        self.stream.leave(self.step.name, worker._consumer)

    def drain(self, worker: Worker) -> None:
        for _ in range(50):
            worker.round(0.0)
            self.clock.advance(0.3)
            if not self.left():
                return
        raise AssertionError(f"{self.left()} messages are left")

    def left(self) -> int:
        """Messages before the ends that no commit covers, but for those that the step holds back."""
        lags = self.stream.group_lag(self.step.name, [TOPIC])
        return sum(max(lag - self.step.delay, 0) for lag in lags.values())

    def told(self) -> Counter[Row]:
        """What stands in the output topic, with how often."""
        return Counter((row["step"], row["partition"], row["value"])
                       for message in self.messages(OUT.name)
                       for row in decode(message.key, message.value, message.headers,
                                         Origin(OUT.name, message.partition, message.offset)).rows.to_pylist())

    def messages(self, topic: str) -> list[Any]:
        at = {TopicPartition(topic, p): 0 for p in range(self.stream.partitions(topic))}
        return self.stream.fetch(at, frozenset(), 100_000, 0.0)


def feed(bench: Bench, sequences: range, rows: int = 3) -> None:
    """A message of every host for every sequence."""
    send(bench.stream, *(spans_message(host, n, rows + n % 2) for n in sequences for host in HOSTS))


def expected(count: int, rows: int = 3, *, delay: int = 0) -> Counter[Row]:
    """What ``count`` messages of every host come to."""
    totals = [sum(rows + i % 2 for i in range(n + 1)) for n in range(count - delay)]
    return Counter((host, n, float(total)) for host in HOSTS for n, total in enumerate(totals))


@pytest.fixture(params=[0, 2], ids=["without rows that wait", "with rows that wait"])
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    return Bench(request.param)


@pytest.mark.parametrize("point", ["transaction", "transacted"])
def test_a_worker_that_dies_around_its_commit_loses_and_repeats_nothing(bench: Bench, point: str) -> None:
    feed(bench, range(4))
    first = bench.worker()
    bench.drain(first)
    feed(bench, range(4, 8))
    bench.faults.arm(point, CrashError())
    with pytest.raises(CrashError):
        bench.drain(first)
    bench.forget(first)
    feed(bench, range(8, 10))
    bench.drain(bench.worker())
    assert bench.told() == expected(10, delay=bench.step.delay)


@pytest.mark.parametrize("seed", range(4))
def test_workers_that_die_at_any_commit_come_to_the_same_as_one_that_lives(bench: Bench, seed: int) -> None:
    rng = random.Random(seed)
    worker, fed = bench.worker(), 0
    for _ in range(12):
        more = rng.randrange(1, 4)
        feed(bench, range(fed, fed + more))
        fed += more
        bench.faults.arm(rng.choice(["transaction", "transacted"]), CrashError(), rng.randrange(1, 3))
        try:
            for _ in range(rng.randrange(1, 6)):
                worker.round(0.0)
                bench.clock.advance(rng.choice([0.0, 0.4, 1.2]))
        except CrashError:
            bench.forget(worker)
            worker = bench.worker()
        bench.faults.disarm()
    bench.drain(worker)
    assert bench.faults.reached["transacted"] > 5
    assert bench.told() == expected(fed, delay=bench.step.delay)


def test_nothing_is_visible_before_the_commit(bench: Bench) -> None:
    feed(bench, range(6))
    bench.faults.arm("transaction", CrashError())
    with pytest.raises(CrashError):
        bench.drain(bench.worker())
    assert bench.told() == Counter()
    assert bench.messages(SNAPSHOTS.name) == []
    assert bench.stream.committed(bench.step.name, TopicPartition(TOPIC, 0)) is None


def test_a_worker_that_was_taken_for_dead_cannot_commit_beside_its_successor(bench: Bench) -> None:
    feed(bench, range(5))
    zombie = bench.worker()
    zombie.round(0.0)  # taken, the commit is still to come
    assert bench.told() == Counter()
    bench.forget(zombie)
    bench.drain(bench.worker())
    with pytest.raises(FencedError):
        zombie.commit()
    zombie.abandon()
    assert bench.told() == expected(5, delay=bench.step.delay)


def test_a_second_worker_of_the_same_name_fences_the_first(bench: Bench) -> None:
    feed(bench, range(5))
    first = bench.worker("same")
    first.round(0.0)
    second = bench.worker("same")
    with pytest.raises(FencedError):
        first.round(0.0)
    first.abandon()
    bench.drain(second)
    assert bench.told() == expected(5, delay=bench.step.delay)


def test_two_workers_that_share_partitions_come_to_the_same_as_one(bench: Bench) -> None:
    workers: list[Worker | None] = [bench.worker()]
    for turn in range(60):
        if turn < 20:
            feed(bench, range(turn, turn + 1))
        if turn == 8:
            workers.append(bench.worker())
        if turn == 15 and (leaving := workers[0]) is not None:
            workers[0] = None
            leave(leaving)
        if turn == 18:
            workers[0] = bench.worker()
        workers = [turned(bench, worker) for worker in workers]
        bench.clock.advance(0.6)
    assert bench.left() == 0
    owned = [worker._consumer.assignment() for worker in workers if worker is not None]
    assert sorted(len(own) for own in owned) == [1, 2]
    assert bench.told() == expected(20, delay=bench.step.delay)


def leave(worker: Worker) -> None:
    """In good order, unless the group was changing at that moment."""
    try:
        worker.close()
    except FencedError:
        worker.abandon()


def turned(bench: Bench, worker: Worker | None) -> Worker | None:
    """A turn; one that was replaced joins again, as the runner has it."""
    if worker is None:
        return None
    try:
        worker.round(0.0)
    except FencedError:
        worker.abandon()
        return bench.worker()
    return worker


def test_closing_a_worker_commits_what_it_took_and_the_next_goes_on_from_there(bench: Bench) -> None:
    feed(bench, range(6))
    worker = bench.worker()
    worker.round(0.0)
    worker.close()
    assert bench.told() == expected(6, delay=bench.step.delay)
    feed(bench, range(6, 9))
    bench.drain(bench.worker())
    assert bench.told() == expected(9, delay=bench.step.delay)


def test_abandoning_a_worker_after_a_passing_fault_leaves_all_of_it_to_the_next(bench: Bench) -> None:
    feed(bench, range(6))
    worker = bench.worker()
    bench.faults.arm("transaction", RetryError("broker away"))
    with pytest.raises(RetryError):
        bench.drain(worker)
    worker.abandon()
    bench.drain(bench.worker())
    assert bench.told() == expected(6, delay=bench.step.delay)


def test_a_damaged_message_is_one_dead_letter_even_when_the_worker_dies_over_it() -> None:
    bench = Bench()
    host = HOSTS[0]
    send(bench.stream, spans_message(host, 0, 3), damaged(spans_message(host, 1, 4)), spans_message(host, 2, 3))
    first = bench.worker()
    bench.faults.arm("transaction", CrashError())
    with pytest.raises(CrashError):
        bench.drain(first)
    bench.forget(first)
    bench.drain(bench.worker())
    assert bench.told() == Counter([(host, 0, 3.0), (host, 2, 6.0)])
    (letter,) = bench.messages(DEAD_LETTERS_TOPIC.name)
    (row,) = decode(letter.key, letter.value, letter.headers).rows.to_pylist()
    assert (row["topic"], row["offset"], row["rows"], row["host"]) == (TOPIC, 1, 4, host)


def test_a_worker_in_a_long_turn_does_not_look_idle() -> None:
    bench = Bench()
    worker = bench.worker()
    for _ in range(3):
        worker.round(0.0)
        bench.clock.advance(1.0)
    assert worker.idle_since is not None
    feed(bench, range(1))
    seen: list[float | None] = []
    take = worker._take
    worker._take = lambda *args: (seen.append(worker.idle_since), take(*args))[1]  # type: ignore[method-assign]
    worker.round(0.0)
    assert seen == [None] * PARTITIONS


def test_a_worker_that_holds_rows_back_does_not_look_idle() -> None:
    bench = Bench(delay=2)
    feed(bench, range(1))
    worker = bench.worker()
    for _ in range(5):
        worker.round(0.0)
        bench.clock.advance(1.0)
    assert not worker._open
    assert worker.idle_since is None
