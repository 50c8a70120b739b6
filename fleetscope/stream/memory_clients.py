"""Producers, consumers and readers of the broker in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from fleetscope.contracts.codec import Encoded
from fleetscope.errors import UsageError
from fleetscope.step import TopicPartition
from fleetscope.stream.abstract import Consumer, Message, PartitionsCallback, Position

if TYPE_CHECKING:
    from fleetscope.stream.memory import MemoryStream


class MemoryProducer:
    """Plain or transactional; a transaction is kept here and applied under the broker's lock."""

    def __init__(self, stream: MemoryStream, transactional_id: str | None = None) -> None:
        self._stream = stream
        self._id = transactional_id
        self._open: list[tuple[str, Encoded, int | None]] | None = None
        self._topics: set[str] = set()

    def send(self, topic: str, message: Encoded, partition: int | None = None) -> None:
        """Append now, or at commit inside a transaction."""
        if self._id is None:
            self._stream.append(topic, message, partition, wait=True)
        elif self._open is None:
            raise UsageError("send outside a transaction")
        else:
            self._stream.partitions(topic)
            self._topics.add(topic)
            self._open.append((topic, message, partition))

    def flush(self, timeout_s: float = 30.0) -> None:
        """Nothing waits here."""

    def begin(self) -> None:
        """Open a transaction once there is room in the topics it went to before. FencedError: a newer producer has
        this id."""
        if self._id is None:
            raise UsageError("a plain producer has no transactions")
        self._stream.check_producer(self._id, self)
        self._stream.wait_for_room(self._topics)
        self._open = []

    def commit(self, positions: Mapping[TopicPartition, Position], consumer: Consumer) -> None:
        """Apply the messages and the positions together."""
        if self._open is None or self._id is None or not isinstance(consumer, MemoryConsumer):
            raise UsageError("commit outside a transaction")
        messages, self._open = self._open, None
        with self._stream.atomically():
            self._stream.check_producer(self._id, self)
            self._stream.check_member(consumer.group, consumer, positions)
            for topic, message, partition in messages:
                self._stream.append(topic, message, partition, wait=False)
            self._stream.store_positions(consumer.group, positions)

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
        self.generation = 0
        self._stream = stream
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._given: tuple[int, frozenset[TopicPartition]] = (0, frozenset())
        self._positions: dict[TopicPartition, int] = {}
        self._paused: set[TopicPartition] = set()

    def assign(self, generation: int, partitions: frozenset[TopicPartition]) -> None:
        """Called by the broker; takes effect at the next poll."""
        self._given = (generation, partitions)

    def poll(self, max_messages: int, timeout_s: float) -> list[Message]:
        """Apply a changed assignment, then fetch."""
        self._apply()
        return self._stream.fetch(self._positions, frozenset(self._paused), max_messages, timeout_s)

    def _apply(self) -> None:
        generation, given = self._given
        if generation == self.generation:
            return
        lost = sorted(self._positions)
        if lost and self._on_revoked:
            self._on_revoked(lost)
        self.generation = generation
        self._paused.clear()
        self._positions.clear()
        for at in given:
            position = self._stream.committed(self.group, at)
            self._positions[at] = position.offset if position else self._stream.first(at)
        if given and self._on_assigned:
            self._on_assigned(sorted(given))

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
        """Read on from ``offset``. UsageError: the partition is not assigned here."""
        self.position(partition)
        self._positions[partition] = offset

    def position(self, partition: TopicPartition) -> int:
        """The next offset to read. UsageError: the partition is not assigned here."""
        try:
            return self._positions[partition]
        except KeyError:
            raise UsageError(f"{partition.topic}[{partition.partition}] is not assigned to this consumer") from None

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop fetching; partitions not assigned are passed over, and a rebalance ends it."""
        self._paused.update(partitions)

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch again."""
        self._paused.difference_update(partitions)

    def lag(self, max_age_s: float = 0.0) -> dict[TopicPartition, int]:
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
