"""What the pipeline needs of a stream: in memory and on Kafka alike. Topics here are named without prefix.

Guarantees asked of an implementation (tests/conformance holds both to them):

- messages of one producer to one partition keep their order; offsets grow by at least one;
- the partition of a key is the same for every topic with the same number of partitions, in every process;
- a group gives each partition to one live member; topics of one subscription with equal partition counts are assigned
  together, so that partition p of all of them has one owner;
- a transaction's messages and offsets become visible together or not at all, and a member that lost its partitions
  cannot commit (``FencedError``);
- committed positions carry metadata text.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from fleetscope.contracts.batch import Batch
from fleetscope.contracts.codec import Encoded, Headers
from fleetscope.contracts.topics import Topic
from fleetscope.step import TopicPartition


@dataclass(frozen=True, slots=True)
class Message:
    """A message as it stands in its topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    time_ms: int
    batch: list[Batch] = field(default_factory=list, compare=False, repr=False)
    """Filled by the first who decodes it."""


@dataclass(frozen=True, slots=True)
class Position:
    """The next offset to read, with a note kept by the broker."""

    offset: int
    metadata: str = ""


PartitionsCallback = Callable[[Sequence[TopicPartition]], None]


class Producer(Protocol):
    """Sends in order. ``send`` may return before the broker has the message; ``flush`` waits for all of them."""

    def send(self, topic: str, message: Encoded, partition: int | None = None) -> None:
        """Queue a message; ``partition`` None: by key. Raises what became of earlier sends, and then queues nothing."""
        ...

    def flush(self, timeout_s: float = 30.0) -> None:
        """Return when every message sent is acknowledged; raises what the broker said otherwise."""
        ...

    def close(self) -> None: ...


class TransactionalProducer(Producer, Protocol):
    """A producer whose messages and input positions become visible together."""

    def begin(self) -> None: ...

    def commit(self, positions: Mapping[TopicPartition, Position], consumer: Consumer) -> None:
        """Commit with the positions of ``consumer``'s group. FencedError: this member was replaced.

        Whatever it raises, the transaction is over and nothing of it is visible.
        """
        ...

    def abort(self) -> None:
        """Discard the open transaction, if there is one."""
        ...


class Consumer(Protocol):
    """A member of a group. Callbacks run inside ``poll``, on its thread, and may call every method but ``poll``.

    A rebalance revokes all of a member's partitions and assigns the new ones, which may be the same. In ``on_revoked``
    a commit goes through where the broker still allows it and raises FencedError where it does not. Pauses and seeks
    end with the assignment. ``close`` makes no callbacks.
    """

    def poll(self, max_messages: int, timeout_s: float) -> list[Message]:
        """Next messages of assigned, unpaused partitions in offset order per partition; empty after the time-out."""
        ...

    def assignment(self) -> frozenset[TopicPartition]: ...
    def committed(self, partition: TopicPartition) -> Position | None: ...
    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit outside a transaction. FencedError: the partitions moved to another member."""
        ...

    def seek(self, partition: TopicPartition, offset: int) -> None: ...
    def position(self, partition: TopicPartition) -> int: ...
    def pause(self, partitions: Sequence[TopicPartition]) -> None: ...
    def resume(self, partitions: Sequence[TopicPartition]) -> None: ...
    def lag(self, max_age_s: float = 0.0) -> dict[TopicPartition, int]:
        """Messages between the position and the end, per assigned partition; the end as it was at most ``max_age_s``
        ago."""
        ...

    def close(self) -> None:
        """Leave the group."""
        ...


class Reader(Protocol):
    """Reads whole partitions from their beginning, outside any group (broadcast topics and changelogs)."""

    def poll(self, max_messages: int, timeout_s: float) -> list[Message]: ...
    def caught_up(self) -> bool:
        """True when everything that stood there when the reader was opened has been returned.

        What transactions had open then counts: do not wait for it while holding one of those transactions.
        """
        ...

    def seek(self, partition: TopicPartition, offset: int) -> None: ...
    def position(self, partition: TopicPartition) -> int: ...
    def close(self) -> None: ...


class Stream(Protocol):
    """A broker."""

    def ensure_topics(self, topics: Sequence[Topic]) -> None:
        """Create what is missing. Raises UsageError where the broker is away, refuses or has other partitions."""
        ...

    def partitions(self, topic: str) -> int:
        """How many partitions ``topic`` has. UsageError: there is no such topic."""
        ...

    def producer(self, client: str) -> Producer: ...
    def transactional_producer(self, transactional_id: str) -> TransactionalProducer: ...

    def consumer(self, group: str, topics: Sequence[str], *, on_assigned: PartitionsCallback | None = None,
                 on_revoked: PartitionsCallback | None = None) -> Consumer: ...

    def reader(self, partitions: Sequence[TopicPartition]) -> Reader: ...

    def group_lag(self, group: str, topics: Sequence[str]) -> dict[TopicPartition, int]:
        """Messages between a group's committed positions and the ends, seen from outside the group."""
        ...

    def close(self) -> None: ...
