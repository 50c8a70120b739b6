"""Producers on Kafka. Imports no Kafka: the client is handed in by fleetscope.stream.kafka."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final, Protocol

from fleetscope.contracts.codec import Encoded
from fleetscope.errors import FencedError, FleetscopeError, RetryError, UsageError
from fleetscope.step import TopicPartition
from fleetscope.stream.abstract import Consumer, Position
from fleetscope.stream.kafka_errors import translate
from fleetscope.stream.partition import partition_of

UNACKNOWLEDGED_BYTES: Final = 64 * 1024 * 1024
"""``send`` waits above it: kafka-python itself bounds nothing."""

_ALWAYS_FITS_BYTES: Final = 16 * 1024
_FRAME_BYTES: Final = 128
_HEADER_FRAME_BYTES: Final = 8
"""What a batch of one message takes beside its content, at most."""

_CLOSE_LIMIT_S: Final = 10.0


class Topics(Protocol):
    """What a producer asks of its stream."""

    def wire(self, name: str) -> str: ...
    def partitions(self, topic: str) -> int: ...
    def limit_bytes(self, topic: str) -> int | None: ...


class GroupMember(Protocol):
    """What a transaction needs of a consumer."""

    def transaction_offsets(self, positions: Mapping[TopicPartition, Position]) -> tuple[dict[Any, Any], Any]:
        """The client's offsets and its group metadata; FencedError where the member does not own them."""
        ...


class _Unacknowledged:
    """Bytes sent and not answered, and the first failure since it was last taken."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._bytes = 0
        self._failure: FleetscopeError | None = None

    def add(self, size: int, limit_s: float) -> None:
        with self._changed:
            free = self._changed.wait_for(
                lambda: self._bytes == 0 or self._bytes + size <= UNACKNOWLEDGED_BYTES or self._failure, limit_s)
            if not free:
                raise RetryError(f"Kafka did not acknowledge {self._bytes} bytes within {limit_s:.0f} s")
            self._bytes += size

    def answered(self, size: int) -> None:
        with self._changed:
            self._bytes -= size
            self._changed.notify_all()

    def failed(self, failure: FleetscopeError) -> None:
        with self._changed:
            self._failure = self._failure or failure
            self._changed.notify_all()

    def take_failure(self) -> FleetscopeError | None:
        with self._changed:
            failure, self._failure = self._failure, None
            return failure


class KafkaProducer:
    """A plain idempotent producer.

    A failure is raised once, by the next ``send`` (which then sent nothing) or ``flush``. After a RetryError any
    message since the last good ``flush`` may be missing: send them again, readers know repeats by their identity.
    """

    def __init__(self, client: Any, topics: Topics, request_timeout_s: float) -> None:
        self._client = client
        self._topics = topics
        self._timeout_s = request_timeout_s
        self._sent = _Unacknowledged()

    def send(self, topic: str, message: Encoded, partition: int | None = None) -> None:
        """Queue a message. UsageError: no such topic or partition, or the message is too large for the topic."""
        self._raise_failure()
        count = self._topics.partitions(topic)
        target = partition_of(message.key, count) if partition is None else partition
        if not 0 <= target < count:
            raise UsageError(f"topic {topic} has {count} partitions, there is no {target}")
        size = self._fitting_size(topic, message)
        doing = f"sending {size} bytes to {topic}"
        self._sent.add(size, 2 * self._timeout_s)
        try:
            future = self._client.send(self._topics.wire(topic), value=message.value, key=message.key,
                                       headers=list(message.headers), partition=target)
        except Exception as error:
            self._sent.answered(size)
            raise translate(error, doing) from error
        future.add_errback(lambda error: self._sent.failed(translate(error, doing)))
        future.add_both(lambda _: self._sent.answered(size))

    def flush(self, timeout_s: float = 30.0) -> None:
        """Wait for every acknowledgement; RetryError: not all came in time or some were refused for now."""
        try:
            self._client.flush(timeout=timeout_s)
        except Exception as error:
            raise translate(error, f"waiting {timeout_s:.0f} s for acknowledgements") from error
        self._raise_failure()

    def close(self) -> None:
        """Flush for a while, then end. RetryError: something may not have arrived."""
        failure: FleetscopeError | None = None
        try:
            self._client.close(timeout=_CLOSE_LIMIT_S)
        except Exception as error:  # noqa: BLE001 - the time-out of the flush inside; the client must still end
            failure = translate(error, "closing a producer")
            with suppress(Exception):
                self._client.close(timeout=0)
        failure = self._sent.take_failure() or failure
        if failure is not None:
            raise failure

    def _fitting_size(self, topic: str, message: Encoded) -> int:
        """Bytes of the message. Refused here, since a refusal by the broker costs kafka-python its sequence."""
        size = len(message.key) + len(message.value) + _FRAME_BYTES + sum(
            len(name) + len(value) + _HEADER_FRAME_BYTES for name, value in message.headers)
        limit = self._topics.limit_bytes(topic) if size > _ALWAYS_FITS_BYTES else None
        if limit is not None and size > limit:
            raise UsageError(f"a message of {size} bytes is too large for topic {topic}, which takes {limit}")
        return size

    def _raise_failure(self) -> None:
        failure = self._sent.take_failure()
        if failure is not None:
            raise failure


class KafkaTransactionalProducer(KafkaProducer):
    """A producer whose messages and input positions become visible together.

    Whatever ``commit`` raises, the transaction is over and aborted. After FencedError by a newer producer of the same
    id this one is of no more use: ``begin`` raises FencedError again.
    """

    def __init__(self, client: Any, topics: Topics, request_timeout_s: float) -> None:
        super().__init__(client, topics, request_timeout_s)
        self._open = False
        try:
            client.init_transactions()
        except Exception as error:
            with suppress(Exception):
                client.close(timeout=0)
            raise translate(error, "starting a transactional producer") from error

    def send(self, topic: str, message: Encoded, partition: int | None = None) -> None:
        """Queue a message of the open transaction."""
        if not self._open:
            raise UsageError("send outside a transaction")
        super().send(topic, message, partition)

    def begin(self) -> None:
        """Open a transaction. FencedError: a newer producer has this id."""
        try:
            self._client.begin_transaction()
        except Exception as error:
            raise translate(error, "beginning a transaction") from error
        self._open = True

    def commit(self, positions: Mapping[TopicPartition, Position], consumer: Consumer) -> None:
        """Make the messages and ``positions`` of ``consumer``'s group visible together."""
        if not self._open:
            raise UsageError("commit outside a transaction")
        try:
            if positions:
                member: GroupMember = consumer  # type: ignore[assignment]  # a consumer of this stream
                self._client.send_offsets_to_transaction(*member.transaction_offsets(positions))
            self._client.flush(timeout=4 * self._timeout_s)
            self._raise_failure()
            self._client.commit_transaction()
        except Exception as error:
            failure = self._sent.take_failure()
            with suppress(FleetscopeError):
                self.abort()
            raise self._worst(failure, translate(error, "committing a transaction")) from error
        self._open = False

    def abort(self) -> None:
        """Discard the open transaction; nothing happens where there is none."""
        if not self._open:
            return
        self._open = False
        try:
            self._client.abort_transaction()
        except Exception as error:
            failure = translate(error, "aborting a transaction")
            # a fenced producer's work was discarded by the broker already; begin() will say so
            if not isinstance(failure, FencedError):
                raise failure from error
        finally:
            self._sent.take_failure()

    def close(self) -> None:
        """Discard the open transaction and end."""
        with suppress(FleetscopeError):
            self.abort()
        super().close()

    @staticmethod
    def _worst(first: FleetscopeError | None, second: FleetscopeError) -> FleetscopeError:
        """FencedError before all, else the first: it is the cause."""
        if first is None or isinstance(second, FencedError):
            return second
        return first
