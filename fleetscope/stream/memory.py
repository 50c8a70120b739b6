"""A broker in this process's memory: same promises as Kafka, bounded, for one machine without servers and for tests.

Messages that every declared group has committed past are forgotten. A producer that runs more than ``limit_bytes``
ahead of the slowest group of a topic waits: back-pressure instead of growth.
"""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from fleetscope.contracts.codec import Encoded
from fleetscope.contracts.topics import Topic
from fleetscope.errors import FencedError, RetryError, UsageError
from fleetscope.step import TopicPartition
from fleetscope.stream.abstract import Message, PartitionsCallback, Position


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of a key, stable over processes and runs."""
    return zlib.crc32(key) % partitions


@dataclass(slots=True)
class _Log:
    """One partition: messages from offset ``first`` on."""

    first: int = 0
    messages: list[Message] = field(default_factory=list)
    size: int = 0

    @property
    def end(self) -> int:
        return self.first + len(self.messages)

    def trim(self, below: int) -> None:
        count = min(max(below - self.first, 0), len(self.messages))
        if count:
            self.size -= sum(len(m.value or b"") for m in self.messages[:count])
            del self.messages[:count]
            self.first += count


@dataclass(slots=True)
class _Group:
    topics: tuple[str, ...] = ()
    committed: dict[TopicPartition, Position] = field(default_factory=dict)
    members: list[MemoryConsumer] = field(default_factory=list)
    generation: int = 0


class MemoryStream:
    """See the module's text. ``keep`` topics are never trimmed (changelogs, broadcast)."""

    def __init__(self, partitions: int = 1, *, limit_bytes: int = 64 * 1024 * 1024,
                 keep: Sequence[str] = ("snapshots", "fleet_segments")) -> None:
        self._default_partitions = partitions
        self._limit = limit_bytes
        self._keep = frozenset(keep)
        self._logs: dict[TopicPartition, _Log] = {}
        self._counts: dict[str, int] = {}
        self._groups: dict[str, _Group] = {}
        self._changed = threading.Condition(threading.RLock())
        self._closed = False

    # Stream

    def ensure_topics(self, topics: Sequence[Topic]) -> None:
        """Create what is missing; UsageError where a topic has another number of partitions."""
        with self._changed:
            for topic in topics:
                count = topic.partitions or self._default_partitions
                if self._counts.setdefault(topic.name, count) != count:
                    raise UsageError(f"topic {topic.name} has {self._counts[topic.name]} partitions, not {count}")
                for partition in range(count):
                    self._logs.setdefault(TopicPartition(topic.name, partition), _Log())

    def partitions(self, topic: str) -> int:
        """How many partitions; UsageError where there is no such topic."""
        try:
            return self._counts[topic]
        except KeyError:
            raise UsageError(f"there is no topic {topic}") from None

    def declare_group(self, group: str, topics: Sequence[str]) -> None:
        """Keep messages of ``topics`` for ``group`` from now on, before its first member joins."""
        with self._changed:
            self._groups.setdefault(group, _Group()).topics = tuple(topics)

    def producer(self, client: str) -> MemoryProducer:
        """A plain producer."""
        return MemoryProducer(self)

    def transactional_producer(self, transactional_id: str) -> MemoryProducer:
        """A producer that appends at commit."""
        return MemoryProducer(self, transactional=True)

    def consumer(self, group: str, topics: Sequence[str], *, on_assigned: PartitionsCallback | None = None,
                 on_revoked: PartitionsCallback | None = None) -> MemoryConsumer:
        """Join ``group``."""
        for topic in topics:
            self.partitions(topic)
        with self._changed:
            self.declare_group(group, topics)
            member = MemoryConsumer(self, group, on_assigned, on_revoked)
            self._groups[group].members.append(member)
            self._rebalance(group)
        return member

    def reader(self, partitions: Sequence[TopicPartition]) -> MemoryReader:
        """Read kept partitions from the beginning."""
        for partition in partitions:
            self.partitions(partition.topic)
        return MemoryReader(self, partitions)

    def group_lag(self, group: str, topics: Sequence[str]) -> dict[TopicPartition, int]:
        """End minus committed position, per partition."""
        with self._changed:
            committed = self._groups[group].committed if group in self._groups else {}
            lags = {}
            for topic in topics:
                for partition in range(self.partitions(topic)):
                    at = TopicPartition(topic, partition)
                    position = committed.get(at)
                    lags[at] = self._logs[at].end - (position.offset if position else self._logs[at].first)
            return lags

    def close(self) -> None:
        """Wake everyone who waits; nothing can be sent afterwards."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    # for producers and consumers

    def append(self, topic: str, message: Encoded, partition: int | None, *, wait: bool) -> None:
        """Append one message; with ``wait`` blocks while the partition is full."""
        with self._changed:
            at = TopicPartition(topic, partition_of(message.key, self.partitions(topic)) if partition is None
                                else partition)
            log = self._logs[at]
            while wait and log.size > self._limit and self._has_reader(topic):
                if self._closed:
                    raise RetryError("the stream is closed")
                self._changed.wait(0.5)
            log.messages.append(Message(topic, at.partition, log.end, message.key, message.value, message.headers,
                                        time.time_ns() // 1_000_000))
            log.size += len(message.value)
            if not self._has_reader(topic) and topic not in self._keep:
                log.trim(log.end - 1)
            self._changed.notify_all()

    def store_positions(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        """Record committed positions and forget what every group is past."""
        with self._changed:
            self._groups[group].committed.update(positions)
            for at in positions:
                if at.topic in self._keep:
                    continue
                needed = [g.committed[at].offset if at in g.committed else self._logs[at].first
                          for g in self._groups.values() if at.topic in g.topics]
                self._logs[at].trim(min(needed))
            self._changed.notify_all()

    def committed(self, group: str, at: TopicPartition) -> Position | None:
        """The committed position of a group."""
        with self._changed:
            return self._groups[group].committed.get(at)

    def fetch(self, positions: dict[TopicPartition, int], paused: frozenset[TopicPartition],
              max_messages: int, timeout_s: float) -> list[Message]:
        """Messages from ``positions`` on, moving them; waits up to ``timeout_s`` for the first."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                found: list[Message] = []
                for at in sorted(positions):
                    if at in paused or len(found) >= max_messages:
                        continue
                    log = self._logs[at]
                    start = max(positions[at], log.first) - log.first
                    part = log.messages[start:start + max_messages - len(found)]
                    if part:
                        positions[at] = part[-1].offset + 1
                        found.extend(part)
                left = deadline - time.monotonic()
                if found or left <= 0 or self._closed:
                    return found
                self._changed.wait(left)

    def ends(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """One past the last offset."""
        with self._changed:
            return {at: self._logs[at].end for at in partitions}

    def first(self, at: TopicPartition) -> int:
        """The lowest offset still kept."""
        with self._changed:
            return self._logs[at].first

    def leave(self, group: str, member: MemoryConsumer) -> None:
        """Take a member out of its group."""
        with self._changed:
            if member in self._groups[group].members:
                self._groups[group].members.remove(member)
                self._rebalance(group)

    def check_member(self, group: str, member: MemoryConsumer, positions: Mapping[TopicPartition, Position]) -> None:
        """FencedError unless ``member`` owns all of ``positions`` in the current generation."""
        with self._changed:
            lost = [at for at in positions if at not in member.owned()]
            if member not in self._groups[group].members or lost:
                raise FencedError(f"{group}: the partitions moved to another member")

    def atomically(self) -> threading.Condition:
        """The lock under which a transaction is applied."""
        return self._changed

    def _has_reader(self, topic: str) -> bool:
        return any(topic in group.topics for group in self._groups.values())

    def _rebalance(self, name: str) -> None:
        group = self._groups[name]
        group.generation += 1
        count = len(group.members)
        for index, member in enumerate(group.members):
            member.assign({
                TopicPartition(topic, partition)
                for topic in group.topics for partition in range(self._counts[topic]) if partition % count == index
            })
        self._changed.notify_all()


class MemoryProducer:
    """Plain or transactional; a transaction is kept here and applied under the broker's lock."""

    def __init__(self, stream: MemoryStream, *, transactional: bool = False) -> None:
        self._stream = stream
        self._transactional = transactional
        self._open: list[tuple[str, Encoded, int | None]] | None = None

    def send(self, topic: str, message: Encoded, partition: int | None = None) -> None:
        """Append now, or at commit inside a transaction."""
        if not self._transactional:
            self._stream.append(topic, message, partition, wait=True)
        elif self._open is None:
            raise UsageError("send outside a transaction")
        else:
            self._open.append((topic, message, partition))

    def flush(self, timeout_s: float = 30.0) -> None:
        """Nothing waits here."""

    def begin(self) -> None:
        """Open a transaction."""
        self._open = []

    def commit(self, positions: Mapping[TopicPartition, Position], consumer: MemoryConsumer) -> None:
        """Apply the messages and the positions together."""
        if self._open is None:
            raise UsageError("commit outside a transaction")
        with self._stream.atomically():
            self._stream.check_member(consumer.group, consumer, positions)
            for topic, message, partition in self._open:
                self._stream.append(topic, message, partition, wait=False)
            self._stream.store_positions(consumer.group, positions)
        self._open = None

    def abort(self) -> None:
        """Forget the open transaction."""
        self._open = None

    def close(self) -> None:
        """Forget the open transaction."""
        self._open = None


class MemoryConsumer:
    """A member of a group."""

    def __init__(self, stream: MemoryStream, group: str, on_assigned: PartitionsCallback | None,
                 on_revoked: PartitionsCallback | None) -> None:
        self.group = group
        self._stream = stream
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._wanted: frozenset[TopicPartition] = frozenset()
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()

    def assign(self, partitions: set[TopicPartition]) -> None:
        """Called by the broker; takes effect at the next poll."""
        self._wanted = frozenset(partitions)

    def owned(self) -> frozenset[TopicPartition]:
        """What the broker gave this member last."""
        return self._wanted

    def poll(self, max_messages: int, timeout_s: float) -> list[Message]:
        """Apply a changed assignment, then fetch."""
        self._apply()
        return self._stream.fetch(self._positions, frozenset(self._paused), max_messages, timeout_s)

    def _apply(self) -> None:
        lost = self._positions.keys() - self._wanted
        new = self._wanted - self._positions.keys()
        if lost:
            if self._on_revoked:
                self._on_revoked(sorted(lost))
            for at in lost:
                del self._positions[at]
                self._paused.discard(at)
        if new:
            for at in new:
                position = self._stream.committed(self.group, at)
                self._positions[at] = position.offset if position else self._stream.first(at)
            if self._on_assigned:
                self._on_assigned(sorted(new))

    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions in effect."""
        return frozenset(self._positions)

    def committed(self, partition: TopicPartition) -> Position | None:
        """The group's committed position."""
        return self._stream.committed(self.group, partition)

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit outside a transaction."""
        with self._stream.atomically():
            self._stream.check_member(self.group, self, positions)
            self._stream.store_positions(self.group, positions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from ``offset``."""
        self._positions[partition] = offset

    def position(self, partition: TopicPartition) -> int:
        """The next offset to read."""
        return self._positions[partition]

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop fetching."""
        self._paused.update(partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch again."""
        self._paused.difference_update(partitions)

    def lag(self) -> dict[TopicPartition, int]:
        """End minus position."""
        ends = self._stream.ends(sorted(self._positions))
        return {at: ends[at] - self._positions[at] for at in ends}

    def close(self) -> None:
        """Leave the group."""
        self._stream.leave(self.group, self)


class MemoryReader:
    """Reads kept partitions from the beginning."""

    def __init__(self, stream: MemoryStream, partitions: Sequence[TopicPartition]) -> None:
        self._stream = stream
        self._positions = {at: stream.first(at) for at in partitions}
        self._goal = stream.ends(partitions)

    def poll(self, max_messages: int, timeout_s: float) -> list[Message]:
        """Next messages."""
        return self._stream.fetch(self._positions, frozenset(), max_messages, timeout_s)

    def caught_up(self) -> bool:
        """True when past the ends seen at opening."""
        return all(self._positions[at] >= end for at, end in self._goal.items())

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from ``offset``."""
        self._positions[partition] = offset

    def position(self, partition: TopicPartition) -> int:
        """The next offset to read."""
        return self._positions[partition]

    def close(self) -> None:
        """Nothing to release."""
