"""Requests that wait for a batch: arrivals are gathered until enough are there or the first has waited long enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fleetscope.errors import UsageError
from simulator.work.arrivals import NEVER, ArrivalConfig, arrivals


@dataclass(frozen=True, slots=True)
class GatherConfig:
    """Dynamic batching: at most ``max_batch`` requests; the first waits at most ``wait_ns`` for more."""

    max_batch: int = 32
    wait_ns: int = 2_000_000

    def __post_init__(self) -> None:
        if self.max_batch < 1:
            raise UsageError("batch: max_batch: is at least 1")
        if self.wait_ns < 0:
            raise UsageError("batch: wait_ns: is not negative")


class RequestQueue:
    """First come, first served. Without an arrival process there are always enough requests."""

    def __init__(self, gather: GatherConfig, demand: ArrivalConfig | None, rng: np.random.Generator,
                 start_ns: int) -> None:
        self._gather = gather
        self._arrivals = arrivals(demand, rng, start_ns) if demand else None
        self._waiting = 0
        self._first_ns = 0
        self._running = 0

    @property
    def waiting(self) -> int:
        """Requests not taken yet."""
        return self._waiting

    def take(self, now_ns: int) -> tuple[int, int, int]:
        """(requests of the next batch, time it is complete, time from which one is pending); 0 requests: none comes.

        The batch before is answered by ``now_ns``.
        """
        if self._arrivals is None:
            return self._gather.max_batch, now_ns, now_ns
        for _ in range(self._running):
            self._arrivals.completed(now_ns)
        self._admit(now_ns)
        pending = self._waiting > 0
        if not pending:
            if self._arrivals.next_ns >= NEVER:
                self._running = 0
                return 0, NEVER, NEVER
            self._admit_one()
        ready_ns = now_ns if pending else self._first_ns
        last_ns = self._first_ns + self._gather.wait_ns
        while self._waiting < self._gather.max_batch and self._arrivals.next_ns <= last_ns:
            ready_ns = max(ready_ns, self._arrivals.next_ns)
            self._admit_one()
        if self._waiting < self._gather.max_batch:
            ready_ns = max(ready_ns, last_ns)
        self._running = min(self._waiting, self._gather.max_batch)
        self._waiting -= self._running
        demand_ns = max(now_ns, self._first_ns)
        self._first_ns = ready_ns - self._gather.wait_ns  # those left have waited long enough
        return self._running, ready_ns, demand_ns

    def _admit(self, now_ns: int) -> None:
        assert self._arrivals is not None
        while self._arrivals.next_ns <= now_ns:
            self._admit_one()

    def _admit_one(self) -> None:
        assert self._arrivals is not None
        if not self._waiting:
            self._first_ns = self._arrivals.next_ns
        self._waiting += 1
        self._arrivals.take()
