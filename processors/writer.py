"""Kafka to ClickHouse, exactly once as seen in the store.

For each partition: a range of offsets is planned, the plan and its whole token are committed as metadata of the range's
start, the rows are inserted with that token, and the range's end is committed after the acknowledgement. Whoever takes
the partition over finds the plan, checks which of its rows the store has, and repeats exactly that range.
"""

from __future__ import annotations

import json
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final
from uuid import uuid4

import pyarrow as pa

from fleetscope.clock import Clock, SystemClock
from fleetscope.contracts.batch import Batch
from fleetscope.contracts.codec import encode
from fleetscope.contracts.derived import ALIGNED
from fleetscope.errors import RejectedError, RetryError
from fleetscope.step import TopicPartition
from fleetscope.store.abstract import Store
from fleetscope.store.arrange import arrange
from fleetscope.stream.abstract import Consumer, Message, Position, Producer, Stream
from fleetscope.stream.decoding import decoded
from processors.dead_letters import dead_letter
from processors.metrics import Metrics

log = logging.getLogger(__name__)

RETRIES: Final = 6
MAX_QUEUED_ROWS: Final = 250_000
POLL_MESSAGES: Final = 32
LAG_S: Final = 0.2
HOLDING_POLL_S: Final = 0.1
_ALIGNED: Final = ("host", "producer", "epoch", "sequence", "row")
IDENTITY: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys((c.name.removeprefix("aligned_") for c in ALIGNED), _ALIGNED),
    "coverage": ("host", "source", "source_epoch", "contract", "to_ns"),
    "telemetry": ("step", "partition", "metric", "time_ns"),
}
"""What tells the rows of a table apart, where a repeat would stand beside the first."""
DRAINED_LINGER_S: Final = 0.3
"""Rows wait no longer than this for more where no more stand in the stream."""


@dataclass(frozen=True, slots=True)
class Target:
    """The table that a topic's rows go to, and the condition they fulfil there (where topics share a table)."""

    table: str
    condition: str = "1"


@dataclass(frozen=True, slots=True)
class Plan:
    """Offsets [start, end) of one partition go into the table as one block under ``token``."""

    start: int
    end: int
    token: str

    def metadata(self) -> str:
        """As the commit carries it."""
        return json.dumps({"plan": [self.start, self.end], "token": self.token})

    @classmethod
    def of(cls, position: Position | None) -> Plan | None:
        """The open plan of a committed position; None where the last range was finished."""
        if position is None or not position.metadata:
            return None
        try:
            data = json.loads(position.metadata)
            return cls(int(data["plan"][0]), int(data["plan"][1]), str(data["token"]))
        except (ValueError, KeyError, TypeError, IndexError):
            return None


@dataclass(slots=True)
class Lane:
    """One partition: decoded batches not yet inserted, and the plan to repeat after a takeover."""

    at: TopicPartition
    batches: deque[Batch] = field(default_factory=deque)
    rows: int = 0
    next_offset: int | None = None
    waiting_since: float | None = None
    repeat: Plan | None = None


class Writer:
    """A member of the group ``name``. ``round`` does one turn. ``targets`` says for each topic where its rows go."""

    def __init__(self, name: str, targets: Mapping[str, Target], stream: Stream, store: Store, *, metrics: Metrics,
                 insert_rows: int, linger_s: float, clock: Clock | None = None) -> None:
        self.name = name
        self._targets = dict(targets)
        self._stream = stream
        self._store = store
        self._metrics = metrics
        self._insert_rows = insert_rows
        self._linger = linger_s
        self._clock = clock or SystemClock()
        self._lanes: dict[TopicPartition, Lane] = {}
        self._producer: Producer | None = None
        self._lag_at = -1.0
        self._ended = False
        self._consumer: Consumer = stream.consumer(name, tuple(targets), on_assigned=self._assigned,
                                                   on_revoked=self._revoked)
        self.idle_since: float | None = None

    def round(self, timeout_s: float) -> bool:
        """One turn; True if anything was done."""
        messages = self._consumer.poll(POLL_MESSAGES, min(timeout_s, HOLDING_POLL_S) if self._holding() else timeout_s)
        busy = bool(messages)
        if busy:
            self._ended = False
            self.idle_since = None  # at once: a long turn must not look idle to whoever waits for the end
        for message in messages:
            self._take(message)
        now = self._clock.monotonic_s()
        for lane in list(self._lanes.values()):
            busy |= self._write(lane, now, self._linger if messages else min(self._linger, DRAINED_LINGER_S))
        self._throttle()
        idle = not busy and not self._holding() and self._at_end(now)
        self.idle_since = (self.idle_since or now) if idle else None
        return busy

    def _holding(self) -> bool:
        return any(lane.batches for lane in self._lanes.values())

    def _at_end(self, now: float) -> bool:
        """True when this member has partitions and nothing stands before their ends; asked now and then."""
        if not self._lanes:
            return False
        if now - self._lag_at >= LAG_S:
            self._lag_at = now
            try:
                lag = self._consumer.lag(LAG_S)
            except RetryError as error:
                log.info("lag not known", extra={"unit": self.name, "error": str(error)})
                return False
            self._ended = not any(lag.values())
            for at, messages in lag.items():
                self._metrics.gauge("lag_messages", f"{self.name}:{at.topic}", at.partition, messages)
        return self._ended

    def close(self) -> None:
        """Insert what is there and leave the group."""
        try:
            for lane in list(self._lanes.values()):
                self._write(lane, self._clock.monotonic_s(), 0.0)
        finally:
            self._consumer.close()
            if self._producer is not None:
                self._producer.close()

    def abandon(self) -> None:
        """Leave the group as it is: what was not committed is read again."""
        self._consumer.close()
        if self._producer is not None:
            self._producer.close()

    def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        for at in partitions:
            self._lanes[at] = Lane(at, repeat=Plan.of(self._consumer.committed(at)))

    def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Rows that are not inserted are read again by the next owner."""
        for at in partitions:
            self._lanes.pop(at, None)

    def _take(self, message: Message) -> None:
        at = TopicPartition(message.topic, message.partition)
        lane = self._lanes.get(at)
        if lane is None:
            return
        try:
            batch = decoded(message)
        except RejectedError as error:
            self._reject(message, error)
        else:
            if len(batch):
                lane.batches.append(batch)
                lane.rows += len(batch)
        lane.next_offset = message.offset + 1
        if lane.waiting_since is None:
            lane.waiting_since = self._clock.monotonic_s()

    def _reject(self, message: Message, error: RejectedError) -> None:
        if self._producer is None:
            self._producer = self._stream.producer(self.name)
        output = dead_letter(self.name, message, error, None)
        self._producer.send(output.topic, encode(output.batch))
        self._producer.flush()
        self._metrics.count("dead_letters", self.name, message.partition, 1)

    def _write(self, lane: Lane, now: float, linger: float) -> bool:
        if lane.next_offset is None or lane.waiting_since is None:
            return False
        if lane.repeat is not None:
            return self._write_again(lane)
        done = False
        while lane.rows >= self._insert_rows:
            self._write_block(lane, _prefix(lane.batches, self._insert_rows))
            done = True
        if lane.waiting_since is not None and now - lane.waiting_since >= linger:
            self._write_block(lane, len(lane.batches))
            lane.waiting_since = None
            done = True
        return done

    def _write_block(self, lane: Lane, count: int) -> None:
        """Plan, insert and commit the first ``count`` batches; all of them: up to the last message read."""
        batches = [lane.batches[i] for i in range(count)]
        whole = count == len(lane.batches)
        assert lane.next_offset is not None
        end = lane.next_offset if whole else _offset(lane.batches[count])
        if batches:
            start = _offset(batches[0])
            plan = Plan(start, end, _token(lane.at, start, end))
            self._consumer.commit({lane.at: Position(start, plan.metadata())})
            self._insert(lane.at, arrange(batches), plan.token)
        self._consumer.commit({lane.at: Position(end)})
        for batch in batches:
            lane.batches.popleft()
            lane.rows -= len(batch)
        self._metrics.count("rows", self.name, lane.at.partition, sum(len(b) for b in batches))
        if whole:
            lane.waiting_since = None

    def _write_again(self, lane: Lane) -> bool:
        """Repeat the range that an earlier owner planned: exactly its offsets, its token, only rows not stored."""
        plan = lane.repeat
        assert plan is not None
        if lane.next_offset is None or lane.next_offset < plan.end:
            return False
        inside = [b for b in lane.batches if _offset(b) < plan.end]
        if inside:
            rows = arrange(inside)
            missing = self._not_stored(lane.at, plan, rows)
            if missing.num_rows:
                self._insert(lane.at, missing, plan.token)
            log.info("range repeated", extra={"unit": self.name, "token": plan.token, "rows": rows.num_rows,
                                              "missing": missing.num_rows})
        self._consumer.commit({lane.at: Position(plan.end)})
        for batch in inside:
            lane.batches.popleft()
            lane.rows -= len(batch)
        lane.repeat = None
        return True

    def _not_stored(self, at: TopicPartition, plan: Plan, rows: pa.Table) -> pa.Table:
        """Rows of the range that the store lacks, by their identities; a block over several table partitions may be
        stored in part. In tables that are not named in IDENTITY a repeat replaces itself."""
        target = self._targets[at.topic]
        names = IDENTITY.get(target.table)
        if names is None:
            return rows
        stored = self._store.query(
            f"SELECT {', '.join(names)} FROM {target.table} WHERE {target.condition} AND "
            "input_partition = {partition:Int32} AND input_offset >= {start:Int64} AND input_offset < {end:Int64}",
            {"partition": at.partition, "start": plan.start, "end": plan.end})
        have = set(zip(*(stored.column(n).to_pylist() for n in names), strict=True))
        mine = zip(*(rows.column(n).to_pylist() for n in names), strict=True)
        return rows.filter(pa.array([identity not in have for identity in mine], pa.bool_()))

    def _insert(self, at: TopicPartition, rows: pa.Table, token: str) -> None:
        table = self._targets[at.topic].table
        for attempt in range(RETRIES):
            try:
                self._store.insert(table, rows, token=token)
                return
            except RetryError as error:
                if attempt == RETRIES - 1:
                    raise
                log.warning("insert will be repeated", extra={"table": table, "error": str(error)})
                self._clock.sleep(min(0.2 * 2**attempt, 5.0))

    def _throttle(self) -> None:
        full = [at for at, lane in self._lanes.items() if lane.rows > MAX_QUEUED_ROWS]
        if full:
            self._consumer.pause(full)
        free = [at for at, lane in self._lanes.items() if lane.rows <= MAX_QUEUED_ROWS]
        if free:
            self._consumer.resume(free)


def _token(at: TopicPartition, start: int, end: int) -> str:
    """Unique to the plan, not to the range: a topic made anew counts from 0 again and must not look stored already."""
    return f"{at.topic}/{at.partition}/{start}-{end}/{uuid4().hex}"


def _prefix(batches: deque[Batch], rows: int) -> int:
    """How many batches make ``rows`` rows; batches of one message stay together."""
    have = 0
    for index, batch in enumerate(batches):
        if have >= rows and _offset(batch) != _offset(batches[index - 1]):
            return index
        have += len(batch)
    return len(batches)


def _offset(batch: Batch) -> int:
    assert batch.origin is not None
    return batch.origin.offset
