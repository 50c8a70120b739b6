"""A broker in this process's memory: same promises as Kafka, bounded, for one machine without servers and for tests.

Messages that every declared group has committed past are forgotten. A producer that runs more than ``limit_bytes``
ahead of the slowest group of a topic waits: back-pressure instead of growth.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from fleetscope.contracts.codec import Encoded
from fleetscope.contracts.topics import Topic
from fleetscope.errors import FencedError, RetryError, UsageError
from fleetscope.step import TopicPartition
from fleetscope.stream.abstract import Message, PartitionsCallback, Position
from fleetscope.stream.memory_clients import MemoryConsumer, MemoryProducer, MemoryReader
from fleetscope.stream.partition import partition_of

__all__ = ["MemoryConsumer", "MemoryProducer", "MemoryReader", "MemoryStream", "partition_of"]


WAKE_S: Final = 0.01
COMPACT_MESSAGES: Final = 512
KEPT_MESSAGES: Final = 50_000
"""How much of a kept topic is held: of a broadcast topic far more than any map reaches back."""


@dataclass(slots=True)
class _Log:
    """One partition: messages from offset ``first`` on."""

    first: int = 0
    messages: list[Message] = field(default_factory=list)
    before: list[int] = field(default_factory=list)
    """Bytes ever appended before each message."""
    total: int = 0

    @property
    def end(self) -> int:
        return self.first + len(self.messages)

    def append(self, message: Message) -> None:
        self.messages.append(message)
        self.before.append(self.total)
        self.total += len(message.value or b"")

    def bytes_from(self, offset: int) -> int:
        """Bytes from ``offset`` to the end."""
        index = max(offset - self.first, 0)
        return self.total - self.before[index] if index < len(self.before) else 0

    def compact(self) -> None:
        """Keep the last message of each key; it moves to the end, where readers meet it again without harm."""
        latest = {message.key: message for message in self.messages}
        end = self.end
        for message in latest.values():
            self.append(replace(message, offset=self.end))
        self.trim(end)

    def trim(self, below: int) -> None:
        count = min(max(below - self.first, 0), len(self.messages))
        if count:
            del self.messages[:count], self.before[:count]
            self.first += count


@dataclass(slots=True)
class _Group:
    topics: tuple[str, ...] = ()
    committed: dict[TopicPartition, Position] = field(default_factory=dict)
    members: list[MemoryConsumer] = field(default_factory=list)
    generation: int = 0


class MemoryStream:
    """See the module's text. ``keep`` topics are not trimmed by what groups committed (changelogs, broadcast)."""

    def __init__(self, partitions: int = 1, *, limit_bytes: int = 16 * 1024 * 1024,
                 keep: Sequence[str] = ("snapshots", "fleet_segments")) -> None:
        self._default_partitions = partitions
        self._limit = limit_bytes
        self._keep = frozenset(keep)
        self._logs: dict[TopicPartition, _Log] = {}
        self._compacted: set[str] = set()
        self._counts: dict[str, int] = {}
        self._groups: dict[str, _Group] = {}
        self._transactional: dict[str, MemoryProducer] = {}
        self._changed = threading.Condition(threading.RLock())
        self._closed = False

    # Stream

    def ensure_topics(self, topics: Sequence[Topic]) -> None:
        """Create what is missing; UsageError where a topic has another number of partitions."""
        with self._changed:
            for topic in topics:
                count = topic.partitions or self._default_partitions
                if topic.cleanup == "compact":
                    self._compacted.add(topic.name)
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
        """A producer that appends at commit; the earlier one with this id is fenced."""
        with self._changed:
            producer = MemoryProducer(self, transactional_id)
            self._transactional[transactional_id] = producer
            return producer

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
            count = self.partitions(topic)
            at = TopicPartition(topic, partition_of(message.key, count) if partition is None else partition)
            if not 0 <= at.partition < count:
                raise UsageError(f"topic {topic} has {count} partitions, there is no {partition}")
            log = self._logs[at]
            if wait:
                self._wait_for_room(at)
            log.append(Message(topic, at.partition, log.end, message.key, message.value, message.headers,
                               time.time_ns() // 1_000_000))
            if topic in self._compacted and len(log.messages) > COMPACT_MESSAGES:
                log.compact()
            elif topic in self._keep:
                log.trim(log.end - KEPT_MESSAGES)
            elif not self._has_reader(topic):
                log.trim(log.end - 1)

    def wait_for_room(self, topics: Collection[str]) -> None:
        """Block while a partition of ``topics`` is full: a transaction appends without waiting, so it waits before."""
        with self._changed:
            for topic in topics:
                for partition in range(self._counts[topic]):
                    self._wait_for_room(TopicPartition(topic, partition))

    def _wait_for_room(self, at: TopicPartition) -> None:
        while self._backlog(at) > self._limit:
            if self._closed:
                raise RetryError("the stream is closed")
            self._changed.wait(0.5)

    def _backlog(self, at: TopicPartition) -> int:
        """Bytes that the slowest group has not fetched. What it fetched and holds back is its own care."""
        log = self._logs[at]
        return max((log.bytes_from(self._fetched(group, at)) for group in self._groups.values()
                    if at.topic in group.topics), default=0)

    def _fetched(self, group: _Group, at: TopicPartition) -> int:
        for member in group.members:
            if at in member.assignment():
                return member.position(at)
        return group.committed[at].offset if at in group.committed else self._logs[at].first

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
                if found:
                    self._changed.notify_all()  # producers that wait for room
                if found or left <= 0 or self._closed:
                    return found
                # Woken by the clock, not by each message: a busy stream would wake every waiting thread all the time.
                self._changed.wait(min(left, WAKE_S))

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
        """FencedError unless ``member`` owns all of ``positions`` in the current generation.

        Owning them again is not enough: another member may have had them in between.
        """
        with self._changed:
            known = self._groups[group]
            current = member in known.members and member.generation == known.generation
            if not current or not positions.keys() <= member.assignment():
                raise FencedError(f"{group}: the partitions moved to another member")

    def check_producer(self, transactional_id: str, producer: MemoryProducer) -> None:
        """FencedError unless ``producer`` is the newest with its id."""
        if self._transactional.get(transactional_id) is not producer:
            raise FencedError(f"a newer producer has the transactional id {transactional_id}")

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
            member.assign(group.generation, frozenset(
                TopicPartition(topic, partition)
                for topic in group.topics for partition in range(self._counts[topic]) if partition % count == index
            ))
        self._changed.notify_all()
