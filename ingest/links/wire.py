"""Messages of the exchange between hosts: one fixed size for question and answer, signed with a shared key.

Answers are never larger than questions, so that a forged sender's address gains nothing. Every field is under the
signature, HMAC-SHA256 (RFC 2104); the kind is one of them, so a question cannot be sent back as its own answer.
"""

from __future__ import annotations

import hashlib
import hmac
import struct
from typing import Final, Literal, NamedTuple

MAGIC: Final = b"FSCL"
VERSION: Final = 1
QUESTION: Final = 1
ANSWER: Final = 2
FOLLOW_UP: Final = 1
"""Flag of a question that only fetches the last stamp; its own exchange is not used."""
NO_COOKIE: Final = bytes(8)
_BODY: Final = struct.Struct(">4sBBHQQ8s8s16sqqQq")
_MAC: Final = 32
SIZE: Final = _BODY.size + _MAC
MIN_KEY_BYTES: Final = 16

Fault = Literal["size", "foreign", "version", "forged", "kind"]


class Message(NamedTuple):
    """``received`` and ``sent``: MONOTONIC_RAW of the host that answers, ns, when the question came and when the answer
    left; ``sent`` is taken before signing and so is early. ``earlier_sent`` is the exact one of answer ``earlier``
    (a sequence number; 0: none).
    """

    kind: int
    flags: int
    session: int
    sequence: int
    nonce: bytes
    cookie: bytes
    sender: bytes
    received: int = 0
    sent: int = 0
    earlier: int = 0
    earlier_sent: int = 0


def identity(host: str) -> bytes:
    """16 bytes that stand for a host id of any length."""
    return hashlib.blake2b(host.encode(), digest_size=16, person=b"fleetscope-host").digest()


def seal(key: bytes, message: Message) -> bytes:
    """The message with its signature, ``SIZE`` bytes; struct.error for fields out of range."""
    kind, flags, *rest = message
    body = _BODY.pack(MAGIC, VERSION, kind, flags, *rest)
    return body + hmac.digest(key, body, "sha256")


def unseal(key: bytes, data: bytes) -> Message | Fault:
    """The message, or why it is none. The signature is compared in constant time."""
    if len(data) != SIZE:
        return "size"
    if data[:4] != MAGIC:
        return "foreign"
    if data[4] != VERSION:
        return "version"
    body = data[:_BODY.size]
    if not hmac.compare_digest(hmac.digest(key, body, "sha256"), data[_BODY.size:]):
        return "forged"
    _, _, kind, *rest = _BODY.unpack(body)
    return Message(kind, *rest) if kind in (QUESTION, ANSWER) else "kind"
