"""Runs one step: poll, decode, step, publish, snapshot, commit — outputs, state and positions in one transaction.

The step and this loop are strangers. A partition of all input topics of the step is one task with one state. Messages
of a task are taken in the order of their broker times over its topics, so that no topic runs far ahead of another.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, runtime_checkable

from fleetscope.clock import Clock, SystemClock
from fleetscope.contracts.batch import Header
from fleetscope.contracts.codec import Encoded, decode_header, encode, encode_pieces
from fleetscope.contracts.topics import SNAPSHOTS
from fleetscope.errors import FencedError, RejectedError, RetryError, UsageError
from fleetscope.step import Output, Step, TopicPartition
from fleetscope.stream.abstract import Consumer, Message, Position, Reader, Stream, TransactionalProducer
from fleetscope.stream.decoding import decoded
from processors.dead_letters import dead_letter
from processors.metrics import Metrics

log = logging.getLogger(__name__)

COMMIT_BYTES: Final = 2 * 1024 * 1024
QUEUED_BYTES: Final = 8 * 1024 * 1024
MERGE_WAIT_S: Final = 1.0
LAG_S: Final = 0.2
TURN_S: Final = 0.25
SHORT_POLL_S: Final = 0.05


@runtime_checkable
class SeesRejected(Protocol):
    """A step that wants to know of messages that became dead letters."""

    def on_rejected(self, state: Any, header: Header) -> Any: ...


@runtime_checkable
class CanStarve(Protocol):
    """A step that can say that it waits for its broadcast topics rather than for more input."""

    def starved(self, state: Any) -> bool: ...


@runtime_checkable
class Gathers(Protocol):
    """A step that keeps rows for others to go out with. It is asked for them when nothing else is to be done."""

    def gathered(self, state: Any) -> list[Output]: ...


@runtime_checkable
class NeedsOrder(Protocol):
    """A step that judges what is missing by what came: its topics are taken together, by broker time."""

    in_time_order: bool


@dataclass(slots=True)
class Task:
    """One partition: its state, what was polled and not yet taken, and how much is held."""

    partition: int
    state: Any
    queues: dict[str, deque[Message]]
    queued_bytes: dict[str, int]
    next_offset: dict[TopicPartition, int] = field(default_factory=dict)
    sizes: dict[TopicPartition, deque[tuple[int, int]]] = field(default_factory=dict)
    held_bytes: int = 0
    dirty: bool = False
    empty_since: dict[str, float] = field(default_factory=dict)


class Worker:
    """A member of a step's group. ``round`` does one turn; whoever calls it decides about threads and stopping."""

    def __init__(self, step: Step[Any], stream: Stream, *, instance: str, metrics: Metrics, commit_interval_s: float,
                 held_bytes: int, clock: Clock | None = None) -> None:
        self.step = step
        self.name = step.name
        self._stream = stream
        self._metrics = metrics
        self._clock = clock or SystemClock()
        self._interval = commit_interval_s
        self._held_bytes = held_bytes
        self._tasks: dict[int, Task] = {}
        self._paused: set[TopicPartition] = set()
        self._producer: TransactionalProducer = stream.transactional_producer(f"{step.name}-{instance}")
        self._open = False
        self._open_bytes = 0
        self._worked = False
        self._committed_at = self._clock.monotonic_s()
        self._reader: Reader | None = None
        self._lag: dict[TopicPartition, int] = {}
        self._ends: dict[TopicPartition, int] = {}
        self._ordered = isinstance(step, NeedsOrder) and step.in_time_order
        self._lag_at = -1.0
        self._consumer: Consumer = stream.consumer(step.name, step.inputs, on_assigned=self._assigned,
                                                   on_revoked=self._revoked)
        self.idle_since: float | None = None
        self.settled_since: float | None = None
        """As ``idle_since``, but rows may wait for what never comes."""
        self.ending = False
        """Whoever runs it says that no input comes any more: once settled, every state is asked for its rest."""
        self.ended = False
        self.had_rest = False
        """Whether there was such a rest."""

    def round(self, timeout_s: float) -> bool:
        """One turn; True if anything was done."""
        busy = self._broadcast()
        # after work only a short look for more: what was done waits to be committed
        wait_s = min(timeout_s, SHORT_POLL_S) if self._worked or self._open else timeout_s
        messages = self._consumer.poll(2_000, 0.0 if busy or self._pending() else wait_s)
        for message in messages:
            self._enqueue(message)
        busy |= bool(messages)
        if busy:
            self._stir()  # at once: a long turn must not look idle to whoever waits for the end
        for task in list(self._tasks.values()):
            busy |= self._work(task)
            self._throttle(task)
        quiet = not busy
        self._worked = busy
        if quiet:
            busy = self._gathered()
        now = self._clock.monotonic_s()
        if self._open and (quiet or self._due()):
            self.commit()
        settled = not busy and not self._open and not self._pending() and self._at_end()
        if settled and self.ending and not self.ended:
            self._end()
            settled = False
        self.settled_since = (self.settled_since or now) if settled else None
        self.idle_since = (self.idle_since or now) if settled and not self._holding() else None
        return busy

    def _stir(self) -> None:
        self.idle_since = self.settled_since = None

    def _end(self) -> None:
        """Publish what still waits in every partition's state."""
        for task in self._tasks.values():
            task.dirty = True
            rest = self.step.on_end(task.state)
            self.had_rest |= bool(rest)
            self._publish(rest)
        self.commit()
        self.ended = True

    def _gathered(self) -> bool:
        """Publish what waited for more rows; True where there was something."""
        if not isinstance(self.step, Gathers):
            return False
        found = False
        for task in self._tasks.values():
            if outputs := self.step.gathered(task.state):
                task.dirty = found = True
                self._publish(outputs)
        return found

    def _holding(self) -> bool:
        return any(self.step.held(task.state) for task in self._tasks.values())

    def commit(self) -> None:
        """Publish outputs, snapshots and positions together. Raises FencedError where this member was replaced."""
        if not self._open:
            return
        positions: dict[TopicPartition, Position] = {}
        for task in self._tasks.values():
            if not task.dirty:
                continue
            held = self.step.held(task.state)
            for at, offset in task.next_offset.items():
                positions[at] = Position(min(held.get(at, offset), offset))
            self._producer.send(SNAPSHOTS.name, self._snapshot(task), task.partition)
            self._forget_sizes(task, held)
        self._producer.commit(positions, self._consumer)
        for task in self._tasks.values():
            task.dirty = False
        self._open = False
        self._open_bytes = 0
        self._committed_at = self._clock.monotonic_s()

    def _due(self) -> bool:
        """Whether the open transaction is old or large enough: those downstream wait for it."""
        return self._open and (self._open_bytes >= COMMIT_BYTES
                               or self._clock.monotonic_s() - self._committed_at >= self._interval)

    def close(self) -> None:
        """Commit what was done and leave the group."""
        try:
            self.commit()
        finally:
            self._close_reader()
            self._consumer.close()
            self._producer.close()

    def abandon(self) -> None:
        """Drop the open transaction and leave the group: everything since the last commit is done again."""
        try:
            if self._open:
                self._producer.abort()
        except (FencedError, RetryError) as error:
            log.warning("transaction left to the broker", extra={"step": self.name, "error": str(error)})
        self._open = False
        self._open_bytes = 0
        self._close_reader()
        self._consumer.close()
        self._producer.close()

    # assignment

    def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        taken = sorted({at.partition for at in partitions} - self._tasks.keys())
        snapshots = self._load(taken)
        for partition in taken:
            saved = snapshots.get(partition)
            self._tasks[partition] = Task(
                partition, self.step.start() if saved is None else self._restored(partition, saved),
                {t: deque() for t in self.step.inputs}, dict.fromkeys(self.step.inputs, 0))
            log.info("partition taken", extra={"step": self.name, "partition": partition, "restored": bool(saved)})
        self._lag_at = -1.0
        whole = [TopicPartition(t, p) for t in self.step.broadcast for p in range(self._stream.partitions(t))]
        if whole and taken:  # from its beginning: the states of the new tasks have none of it
            self._close_reader()
            self._reader = self._stream.reader(whole)

    def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """Eager rebalance: everything goes; what was done is committed while this member still owns it."""
        self.commit()
        for partition in {at.partition for at in partitions} & self._tasks.keys():
            del self._tasks[partition]
        self._close_reader()
        self._paused -= set(partitions)

    def _restored(self, partition: int, saved: bytes) -> Any:
        try:
            return self.step.restore(saved)
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(f"topic {SNAPSHOTS.name}, key {self.name}/{partition}: {error}; it was written by another "
                             "version or damaged: publish an empty record (tombstone) for that key to begin anew"
                             ) from error

    def _close_reader(self) -> None:
        if self._reader is not None:
            self._reader.close()
            self._reader = None

    def _load(self, partitions: Sequence[int]) -> dict[int, bytes]:
        """The latest snapshots; also waits for those of transactions that are still being decided."""
        if not partitions:
            return {}
        count = self._stream.partitions(SNAPSHOTS.name)
        where = sorted({partition % count for partition in partitions})
        reader = self._stream.reader([TopicPartition(SNAPSHOTS.name, p) for p in where])
        wanted = {f"{self.name}/{p}".encode(): p for p in partitions}
        found: dict[int, bytes] = {}
        while not reader.caught_up():
            for message in reader.poll(100, 0.2):
                if message.key in wanted:
                    found[wanted[message.key]] = message.value or b""
        reader.close()
        return {partition: data for partition, data in found.items() if data}

    def _snapshot(self, task: Task) -> Encoded:
        data = self.step.snapshot(task.state)
        self._metrics.gauge("snapshot_bytes", self.name, task.partition, len(data))
        return Encoded(f"{self.name}/{task.partition}".encode(), data, (("fs-step", self.name.encode()),))

    # taking

    def _pending(self) -> bool:
        return any(queue for task in self._tasks.values() for queue in task.queues.values())

    def _enqueue(self, message: Message) -> None:
        task = self._tasks.get(message.partition)
        if task is None:
            return
        size = len(message.value or b"")
        task.queues[message.topic].append(message)
        task.queued_bytes[message.topic] += size

    def _work(self, task: Task) -> bool:
        """Take queued messages in the order of broker time, up to where a lagging topic could still bring earlier; not
        for long, since broadcast topics may have news that lets others go on."""
        done = False
        until = self._clock.monotonic_s() + TURN_S
        while (head := self._head(task)) is not None:
            message = task.queues[head].popleft()
            task.queued_bytes[head] -= len(message.value or b"")
            self._take(task, message)
            done = True
            if self._due() or self._clock.monotonic_s() >= until:
                break
        return done

    def _head(self, task: Task) -> str | None:
        if self._starving(task):
            return None
        ready = [(queue[0].time_ms, index, topic)
                 for index, (topic, queue) in enumerate(task.queues.items()) if queue]
        if not ready:
            return None
        if self._ordered and self._waits_for_earlier(task):
            return None
        return min(ready)[2]

    def _waits_for_earlier(self, task: Task) -> bool:
        """Whether a topic without a queued message may still bring one that is earlier than those of the others."""
        for topic, queue in task.queues.items():
            if queue:
                task.empty_since.pop(topic, None)
            elif self._lags(task, topic):
                since = task.empty_since.setdefault(topic, self._clock.monotonic_s())
                if self._clock.monotonic_s() - since < MERGE_WAIT_S:
                    return True
        return False

    def _lags(self, task: Task, topic: str) -> bool:
        at = TopicPartition(topic, task.partition)
        if at in self._paused:
            return False
        self._look_at_lag()
        return self._ends.get(at, 0) > task.next_offset.get(at, 0) and self._lag.get(at, 0) > 0

    def _look_at_lag(self) -> None:
        """Asking may cost a round trip to the broker, so the answer holds for a while."""
        now = self._clock.monotonic_s()
        if now - self._lag_at < LAG_S:
            return
        self._lag_at = now
        try:
            self._lag = self._consumer.lag(LAG_S)
        except RetryError as error:  # not known now; the last answer stands
            log.info("lag not known", extra={"step": self.name, "error": str(error)})
            return
        self._ends = {at: self._consumer.position(at) + lag for at, lag in self._lag.items()}
        for at, lag in self._lag.items():
            self._metrics.gauge("lag_messages", f"{self.name}:{at.topic}", at.partition, lag)

    def _at_end(self) -> bool:
        """True when this member has partitions and nothing stands before their ends."""
        if not self._tasks:
            return False
        self._look_at_lag()
        return not any(self._lag.values())

    def _starving(self, task: Task) -> bool:
        return (task.held_bytes > self._held_bytes and isinstance(self.step, CanStarve)
                and self.step.starved(task.state))

    def _take(self, task: Task, message: Message) -> None:
        at = TopicPartition(message.topic, message.partition)
        task.next_offset[at] = message.offset + 1
        task.sizes.setdefault(at, deque()).append((message.offset, len(message.value or b"")))
        task.held_bytes += len(message.value or b"")
        task.dirty = True
        try:
            batch = decoded(message)
        except RejectedError as error:
            self._reject(task, message, error)
            return
        try:
            task.state, outputs = self.step.on_batch(task.state, batch)
            self._publish(outputs)
        except (ArithmeticError, ValueError, LookupError, TypeError) as error:
            # A defect that one message met: it must not stop the partition, nor end in an endless restart.
            log.exception("step failed on a message", extra={"step": self.name, "origin": str(batch.origin)})
            self._reject(task, message, RejectedError("step_failed", f"{type(error).__name__}: {error}"[:300]))
            return
        self._metrics.count("rows", self.name, task.partition, len(batch))

    def _reject(self, task: Task, message: Message, error: RejectedError) -> None:
        header = None
        try:
            header = decode_header(message.headers)
        except RejectedError:
            log.warning("unreadable headers", extra={"step": self.name, "origin": str(error.origin)})
        if header is not None and isinstance(self.step, SeesRejected):
            task.state = self.step.on_rejected(task.state, header)
        self._metrics.count("dead_letters", self.name, task.partition, 1)
        log.warning("dead letter", extra={"step": self.name, "error": str(error)})
        self._publish([dead_letter(self.name, message, error, header)])

    def _broadcast(self) -> bool:
        done = False
        while self._reader is not None and (messages := self._reader.poll(500, 0.0)):
            done = True
            self._stir()
            for message in messages:
                try:
                    batch = decoded(message)
                except RejectedError as error:
                    log.warning("broadcast message refused", extra={"step": self.name, "error": str(error)})
                    continue
                for task in self._tasks.values():
                    task.state, outputs = self.step.on_batch(task.state, batch)
                    if outputs:
                        task.dirty = True
                        self._publish(outputs)
                if self._due():
                    self.commit()
        return done

    def _publish(self, outputs: Iterable[Output]) -> None:
        if not self._open:
            self._producer.begin()
            self._open = True
            self._committed_at = self._clock.monotonic_s()
        for output in outputs:
            for message in encode_pieces(output.batch) if output.batch.header.parts else [encode(output.batch)]:
                self._open_bytes += len(message.value)
                self._producer.send(output.topic, message)

    # back-pressure

    def _throttle(self, task: Task) -> None:
        full = {TopicPartition(t, task.partition) for t, size in task.queued_bytes.items() if size > QUEUED_BYTES}
        empty = {TopicPartition(t, task.partition) for t, size in task.queued_bytes.items() if size < QUEUED_BYTES // 2}
        pause, resume = full - self._paused, empty & self._paused
        if pause:
            self._consumer.pause(sorted(pause))
        if resume:
            self._consumer.resume(sorted(resume))
        self._paused = (self._paused | pause) - resume

    def _forget_sizes(self, task: Task, held: Any) -> None:
        for at, sizes in task.sizes.items():
            lowest = held.get(at, task.next_offset[at])
            while sizes and sizes[0][0] < lowest:
                task.held_bytes -= sizes.popleft()[1]
