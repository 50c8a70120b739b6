"""A message's batch, decoded once: in memory several groups are handed the same message."""

from __future__ import annotations

from fleetscope.contracts.batch import Batch
from fleetscope.contracts.codec import decode
from fleetscope.errors import Origin
from fleetscope.stream.abstract import Message


def decoded(message: Message) -> Batch:
    """The batch of ``message`` with its origin; RejectedError as `decode`. Rows are immutable, so sharing is safe."""
    if not message.batch:
        origin = Origin(message.topic, message.partition, message.offset)
        message.batch.append(decode(message.key, message.value, message.headers, origin))
    return message.batch[0]
