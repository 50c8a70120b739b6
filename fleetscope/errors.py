"""Errors named by what the caller does next, never by where they arose.

``UsageError``    the person must change something: one clear line, exit code 2
``RetryError``    the same call may go through later: back off and repeat
``FencedError``   another worker owns the work now: drop all state and join again
``RejectedError`` this one message cannot be used: dead-letter it and go on
``StoreError``    the database refused: nothing past it may be committed
"""

from __future__ import annotations

from dataclasses import dataclass


class FleetscopeError(Exception):
    """Base of every error this project raises on purpose."""


class UsageError(FleetscopeError):
    """Wrong usage or a missing server; the text is one line fit for a person."""


class RetryError(FleetscopeError):
    """A passing fault of a broker or database."""


class FencedError(FleetscopeError):
    """This worker was replaced (zombie); its open work was discarded by the broker."""


class StoreError(FleetscopeError):
    """The database refused a statement for good; carries the server's code and name where known."""

    def __init__(self, message: str, *, code: int | None = None, name: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.name = name


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a message stood in its topic."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]@{self.offset}"


class RejectedError(FleetscopeError):
    """A message that cannot be decoded; ``code`` is a stable word to count by, ``reason`` is for people."""

    def __init__(self, code: str, reason: str, origin: Origin | None = None) -> None:
        super().__init__(f"{origin}: {code}: {reason}" if origin else f"{code}: {reason}")
        self.code = code
        self.reason = reason
        self.origin = origin
