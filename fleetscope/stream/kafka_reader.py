"""Reading assigned partitions on Kafka. Imports no Kafka: the client is handed in by fleetscope.stream.kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from fleetscope.errors import RetryError, UsageError
from fleetscope.settings import KafkaSettings
from fleetscope.step import TopicPartition
from fleetscope.stream.abstract import Message
from fleetscope.stream.kafka_errors import translate

Records = Mapping[Any, Sequence[Any]]


class Names(Protocol):
    """What reading asks of its stream."""

    settings: KafkaSettings

    def tp(self, at: TopicPartition) -> Any: ...
    def messages(self, records: Records) -> list[Message]: ...


class Assigned:
    """What a member of a group and a reader share: a client with partitions, asked in our terms."""

    def __init__(self, client: Any, names: Names) -> None:
        self.client = client
        self._names = names
        self._timeout_ms = names.settings.request_timeout_ms

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from ``offset``. UsageError: the partition is not assigned here."""
        try:
            self.client.seek(self._mine(partition), offset)
        except ValueError as error:
            raise UsageError(f"seek to {partition.topic}[{partition.partition}]@{offset}: {error}") from error

    def position(self, partition: TopicPartition) -> int:
        """The next offset to read. UsageError: the partition is not assigned here; RetryError: not known yet."""
        tp = self._mine(partition)
        # the client would look at every partition, also where it knows this one's position
        known = self.client._subscription.assignment[tp].position
        if known is not None:
            return int(known.offset)
        name = f"{partition.topic}[{partition.partition}]"
        try:
            offset = self.client.position(tp, timeout_ms=self._timeout_ms)
        except Exception as error:
            raise translate(error, f"asking the position of {name}") from error
        if offset is None:
            raise RetryError(f"Kafka does not tell the position of {name}")
        return int(offset)

    def fetch(self, max_messages: int, timeout_s: float) -> Records:
        """The client's next records."""
        records: Records = self.client.poll(timeout_ms=max(int(timeout_s * 1000), 0), max_records=max_messages)
        return records

    def _mine(self, partition: TopicPartition) -> Any:
        tp = self._names.tp(partition)
        if tp not in self.client.assignment():
            raise UsageError(f"{partition.topic}[{partition.partition}] is not assigned to this consumer")
        return tp


class KafkaReader(Assigned):
    """Reads whole partitions from their beginning, committed data only.

    ``goal`` is the end as it stood at opening, transactions still open included: ``caught_up`` waits until those are
    over, because a snapshot may be committed whose marker has not reached its partition yet.
    """

    def __init__(self, client: Any, names: Names, partitions: Sequence[TopicPartition],
                 goal: Mapping[TopicPartition, int]) -> None:
        super().__init__(client, names)
        client.assign([names.tp(at) for at in partitions])
        client.seek_to_beginning()
        self._left = {at: end for at, end in goal.items() if end > 0}

    def poll(self, max_messages: int, timeout_s: float) -> list[Message]:
        """Next messages."""
        try:
            return self._names.messages(self.fetch(max_messages, timeout_s))
        except Exception as error:
            raise translate(error, "reading") from error

    def caught_up(self) -> bool:
        """True when everything that stood there at opening was returned."""
        for at, end in list(self._left.items()):
            if self.position(at) >= end:
                del self._left[at]
        return not self._left

    def close(self) -> None:
        """Disconnect."""
        self.client.close(autocommit=False, timeout_ms=self._timeout_ms)
