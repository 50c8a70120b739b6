"""Messages between being numbered and being acknowledged.

A stream may refuse a message, or lose some that it took before it says so. Until ``settle`` heard that all are
acknowledged, every message is kept here, and after a refusal all of them are sent again in their order: readers
recognise repeats by their identity. Bounded: the owner asks ``full`` before it makes more.
"""

from __future__ import annotations

from collections import deque
from typing import Protocol

from fleetscope.contracts.codec import Encoded
from fleetscope.errors import RetryError


class Sender(Protocol):
    """The part of a stream's producer that is needed here."""

    def send(self, topic: str, message: Encoded) -> None:
        """Queue a message; RetryError where the stream refuses it or lost earlier ones."""
        ...

    def flush(self, timeout_s: float = 30.0) -> None:
        """Wait until all are acknowledged; RetryError otherwise."""
        ...


class Outbox:
    """One for all publishers that share a producer: what the producer lost may belong to any of them."""

    def __init__(self, sender: Sender, limit_bytes: int = 16 * 1024 * 1024) -> None:
        self._sender = sender
        self._limit = limit_bytes
        self._waiting: deque[tuple[str, Encoded]] = deque()
        self._sent: deque[tuple[str, Encoded]] = deque()
        self._bytes = 0
        self._refused = False
        self.refusals = 0
        """How often the stream refused or lost messages."""

    def __len__(self) -> int:
        """Messages not known to have arrived."""
        return len(self._waiting) + len(self._sent)

    @property
    def full(self) -> bool:
        """True: what is published now must be dropped and counted."""
        return self._bytes >= self._limit

    def put(self, topic: str, message: Encoded) -> None:
        """Keep the message and send it, unless the stream refused one since the last ``settle``."""
        self._waiting.append((topic, message))
        self._bytes += len(message.value)
        if not self._refused:
            self._send_waiting()

    def settle(self, timeout_s: float = 30.0) -> bool:
        """Send what waits and wait for the acknowledgements; True when nothing is open any more."""
        self._refused = False
        if not len(self):
            return True
        if self._send_waiting():
            try:
                self._sender.flush(timeout_s)
            except RetryError:
                self._refuse()
        if self._refused:
            return False
        self._sent.clear()
        self._bytes = 0
        return True

    def _send_waiting(self) -> bool:
        while self._waiting:
            topic, message = self._waiting[0]
            try:
                self._sender.send(topic, message)
            except RetryError:
                self._refuse()
                return False
            self._sent.append(self._waiting.popleft())
        return True

    def _refuse(self) -> None:
        self.refusals += 1
        self._refused = True
        self._waiting.extendleft(reversed(self._sent))
        self._sent.clear()
