"""One stream under test and what a test of it needs: the same on memory and on Kafka."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any

from fleetscope.contracts.codec import Encoded
from fleetscope.contracts.topics import Topic
from fleetscope.errors import FleetscopeError
from fleetscope.settings import KafkaSettings
from fleetscope.step import TopicPartition
from fleetscope.stream.abstract import (
    Consumer,
    Message,
    PartitionsCallback,
    Producer,
    Reader,
    Stream,
    TransactionalProducer,
)
from fleetscope.stream.memory import MemoryConsumer, MemoryStream

PARTITIONS = 4
IN = Topic("in", ())
ALSO_IN = Topic("also_in", ())
OUT = Topic("out", ())
KEPT = Topic("kept", (), cleanup="compact")
PATIENCE_S = 20.0


def message(text: str, key: str = "host-a") -> Encoded:
    """A message with ``text`` as value and in a header."""
    return Encoded(key.encode(), text.encode(), (("fs-text", text.encode()),))


def texts(messages: Iterable[Message]) -> list[str]:
    """The values, as text."""
    return [(one.value or b"").decode() for one in messages]


def wait_for(condition: Callable[[], bool], what: str, limit_s: float = PATIENCE_S) -> None:
    """Repeat ``condition`` until it holds; the test fails when it never does."""
    deadline = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {limit_s} s"


class StreamCase:
    """A stream with the topics in, also_in, out and kept, closed with everything made of it."""

    def __init__(self, stream: Stream, impatient: Callable[[], Stream] | None = None) -> None:
        self.stream = stream
        self._impatient = impatient
        self._made: list[Any] = []
        stream.ensure_topics([IN, ALSO_IN, OUT, KEPT])

    def producer(self) -> Producer:
        """A plain producer."""
        return self._keep(self.stream.producer("test"))

    def transactional(self, transactional_id: str = "worker-0") -> TransactionalProducer:
        """A transactional producer."""
        return self._keep(self.stream.transactional_producer(transactional_id))

    def consumer(self, group: str = "group", topics: Sequence[str] = ("in",), *,
                 on_assigned: PartitionsCallback | None = None,
                 on_revoked: PartitionsCallback | None = None) -> Consumer:
        """A member of ``group``; it joins when it polls."""
        return self._keep(self.stream.consumer(group, topics, on_assigned=on_assigned, on_revoked=on_revoked))

    def joined(self, group: str = "group", topics: Sequence[str] = ("in",), **callbacks: Any) -> Consumer:
        """A consumer that owns every partition; the group must have no other member."""
        consumer = self.consumer(group, topics, **callbacks)
        every = PARTITIONS * len(topics)
        wait_for(lambda: consumer.poll(1, 0.05) == [] and len(consumer.assignment()) == every, "join the group")
        return consumer

    def easily_lost(self, group: str = "group") -> Consumer:
        """A joined member that the broker takes for dead soon after it stops polling."""
        stream = self._impatient() if self._impatient else self.stream
        consumer = self._keep(stream.consumer(group, ["in"]))
        wait_for(lambda: consumer.poll(1, 0.05) == [] and len(consumer.assignment()) == PARTITIONS, "join the group")
        return consumer

    def forget(self, member: Consumer) -> None:
        """What a broker does with a member that stopped polling; Kafka does it by itself after a while."""
        if isinstance(self.stream, MemoryStream) and isinstance(member, MemoryConsumer):
            self.stream.leave(member.group, member)

    def reader(self, partitions: Sequence[TopicPartition]) -> Reader:
        """A reader."""
        return self._keep(self.stream.reader(partitions))

    def send(self, topic: str, *values: str, key: str = "host-a", partition: int | None = None) -> None:
        """Send and wait for the acknowledgement."""
        producer = self.stream.producer("test-send")
        for value in values:
            producer.send(topic, message(value, key), partition)
        producer.flush()
        producer.close()

    def close(self) -> None:
        """Close everything that was made."""
        for one in reversed(self._made):
            with suppress(FleetscopeError):
                one.close()
        self.stream.close()

    def _keep(self, made: Any) -> Any:
        self._made.append(made)
        return made


def take(source: Consumer | Reader, count: int) -> list[Message]:
    """The next ``count`` messages, and none beyond them."""
    found: list[Message] = []

    def enough() -> bool:
        found.extend(source.poll(100, 0.1))
        return len(found) >= count

    wait_for(enough, f"{count} messages")
    assert len(found) == count, f"{len(found)} messages instead of {count}: {texts(found)}"
    return found


def nothing(source: Consumer | Reader, polls: int = 3) -> bool:
    """True where several polls bring nothing."""
    return not any(source.poll(100, 0.1) for _ in range(polls))


def memory_case() -> StreamCase:
    """On this process's memory."""
    return StreamCase(MemoryStream(PARTITIONS, keep=("kept",)))


def kafka_settings(bootstrap_servers: str, **more: Any) -> KafkaSettings:
    """Settings with a prefix of their own, and fast heartbeats."""
    extra = {"heartbeat_interval_ms": 200, "fetch_max_wait_ms": 50, **more.pop("extra", {})}
    values = {"topic_prefix": f"t{uuid.uuid4().hex[:8]}.", "partitions": PARTITIONS, "session_timeout_ms": 6_000}
    return KafkaSettings(bootstrap_servers=bootstrap_servers, extra=extra, **{**values, **more})


def kafka_case(bootstrap_servers: str) -> StreamCase:
    """On a broker, under a fresh prefix."""
    from fleetscope.stream.kafka import KafkaStream

    settings = kafka_settings(bootstrap_servers)
    hasty = settings.model_copy(update={"extra": {**settings.extra, "max_poll_interval_ms": 1_500}})
    return StreamCase(KafkaStream(settings), lambda: KafkaStream(hasty))
