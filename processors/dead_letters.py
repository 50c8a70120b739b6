"""A message that could not be used, as a row."""

from __future__ import annotations

import zlib
from typing import Final

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.topics import DEAD_LETTERS_TOPIC
from fleetscope.errors import RejectedError
from fleetscope.step import Output
from fleetscope.stream.abstract import Message

HEAD_BYTES: Final = 64
UNKNOWN_HOST: Final = "unknown"


def dead_letter(step: str, message: Message, error: RejectedError, header: Header | None) -> Output:
    """The row for a rejected message; ``rows`` is what its headers claim, 0 where they cannot be read."""
    value = message.value or b""
    host = _text(message.key)
    row: dict[str, object] = {
        "topic": message.topic, "partition": message.partition, "offset": message.offset, "step": step,
        "code": error.code, "reason": error.reason, "rows": min(header.rows, 1 << 40) if header else 0, "host": host,
        "size_bytes": len(value), "time_ms": message.time_ms, "head": value[:HEAD_BYTES].hex(),
    }
    producer = f"{step}/{message.topic}/{message.partition}"
    made = Header("dead_letters", CONTRACTS["dead_letters"].version, host or UNKNOWN_HOST, producer, 0,
                  message.offset, 1)
    return Output(DEAD_LETTERS_TOPIC.name, Batch(made, from_rows(CONTRACTS["dead_letters"], [row])))


def _text(key: bytes | None) -> str | None:
    if not key:
        return None
    try:
        text = key.decode()
    except UnicodeDecodeError:
        return f"key-{zlib.crc32(key):08x}"
    return text[:200]
