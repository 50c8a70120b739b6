"""Suspends seen by the clocks: BOOTTIME goes on while the host sleeps, MONOTONIC does not."""

from __future__ import annotations

from typing import Final

from ingest.clocks import BOOTTIME, MONOTONIC, HostClocks

LEAST_NS: Final = 1_000_000
"""Growth below this is the noise of a reader that was interrupted; a suspend takes far longer."""
_READS: Final = 3


def asleep_ns(clocks: HostClocks) -> int:
    """BOOTTIME − MONOTONIC by the quickest of three readings, early by at most half its width."""
    monotonic, boottime = clocks.reader(MONOTONIC), clocks.reader(BOOTTIME)
    before, middle, after = min(((monotonic(), boottime(), monotonic()) for _ in range(_READS)),
                                key=lambda stamps: stamps[2] - stamps[0])
    return middle - (before + after) // 2


class SuspendWatch:
    """Compares one look with the next."""

    def __init__(self, clocks: HostClocks) -> None:
        self._clocks = clocks
        self._asleep = asleep_ns(clocks)

    def look(self) -> int:
        """ns slept since the last look; 0 for none."""
        before, self._asleep = self._asleep, asleep_ns(self._clocks)
        slept = self._asleep - before
        return slept if slept >= LEAST_NS else 0
