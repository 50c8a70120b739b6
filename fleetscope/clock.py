"""Wall clocks, injected. Pure modules never import this: time reaches them as data."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What a loop needs of time: a monotonic reading, the Unix time and a pause."""

    def monotonic_s(self) -> float: ...
    def unix_ns(self) -> int: ...
    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's own clocks."""

    def monotonic_s(self) -> float:
        return time.monotonic()

    def unix_ns(self) -> int:
        return time.time_ns()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


class ManualClock:
    """A clock that tests move by hand; ``sleep`` advances it."""

    def __init__(self, unix_ns: int = 0) -> None:
        self._unix_ns = unix_ns

    def monotonic_s(self) -> float:
        return self._unix_ns / 1e9

    def unix_ns(self) -> int:
        return self._unix_ns

    def sleep(self, seconds: float) -> None:
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Move time forward by ``seconds``."""
        self._unix_ns += round(seconds * 1e9)
