"""A host for tests: clocks moved by hand, a small root, and a sender that keeps or refuses messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from fleetscope.contracts.batch import Batch
from fleetscope.contracts.codec import Encoded, decode
from fleetscope.errors import RetryError
from ingest.timex import Timex
from tests.unit.ingest.files import put

BOOT_NS = 1_700_000_000_000_000_000


def timex(**changes: int) -> Timex:
    """A disciplined clock at 1,500 ppb with nothing left to slew."""
    return replace(Timex(0, 0x2001, 1_500, 10_000, 0, 0, 900, 40, 0), **changes)


class HandClocks:
    """Every reading of the reference takes 100 ns; the other clocks are exact offsets of it."""

    def __init__(self) -> None:
        self.now = 5_000_000_000
        self.asleep = 0
        self.timex: Timex | None = timex()

    def monotonic_raw_ns(self) -> int:
        self.now += 100
        return self.now

    def realtime_ns(self) -> int:
        return self.now + BOOT_NS

    def reader(self, clock: str) -> Callable[[], int]:
        offset = {"realtime": BOOT_NS, "boottime": 7_000 + self.asleep, "monotonic": 3_000,
                  "tai": BOOT_NS + 37_000_000_000}[clock]
        return lambda: self.now + offset

    def discipline(self) -> Timex | None:
        return self.timex


class KeepingSender:
    """Keeps what it takes; refuses while ``down``; a flush that loses forgets all it took but the first."""

    def __init__(self) -> None:
        self.down = False
        self.lose_next_flush = False
        self.messages: list[tuple[str, Encoded]] = []
        self._taken: list[tuple[str, Encoded]] = []

    def send(self, topic: str, message: Encoded) -> None:
        if self.down:
            raise RetryError("down")
        self._taken.append((topic, message))

    def flush(self, timeout_s: float = 30.0) -> None:
        if self.lose_next_flush:
            self.lose_next_flush = False
            self._taken = self._taken[:1]
            self._keep()
            raise RetryError("lost")
        if self.down:
            raise RetryError("down")
        self._keep()

    def _keep(self) -> None:
        self.messages += self._taken
        self._taken = []

    def batches(self, contract: str, producer: str = "") -> list[Batch]:
        """Decoded batches of one kind in the order kept."""
        decoded = [decode(m.key, m.value, m.headers) for _, m in self.messages]
        return [b for b in decoded if b.header.contract == contract and b.header.producer.endswith(producer)]

    def topics(self) -> dict[str, set[str]]:
        """Producers seen on each topic."""
        seen: dict[str, set[str]] = defaultdict(set)
        for topic, message in self.messages:
            seen[topic].add(decode(message.key, message.value, message.headers).header.producer)
        return dict(seen)


def small_root(folder: Path) -> Path:
    """A root with processors, memory and a boot id."""
    put(folder, {"proc/stat": "cpu 1 2 3 4 5 6 7 8 9 10\nctxt 5\n", "proc/meminfo": "MemTotal: 4 kB\n",
                 "proc/sys/kernel/random/boot_id": "2e32b555-ec0e-4323-8ecb-fb7186e27855\n"})
    return folder
