"""Numbers, encodes and sends the batches of one producer, and counts them for its heartbeats.

A sequence number is given once and never to other rows: what the stream refuses for the moment waits, encoded, and is
sent again under the same identity, so a repeat is recognised. Only when more than ``backlog_bytes`` wait are new rows
given up; they get no number, and the next batch and heartbeat say how many were dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from fleetscope.contracts import Contract
from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.codec import MAX_MESSAGE_BYTES, MAX_ROWS, Encoded, encode
from fleetscope.contracts.raw import HEARTBEATS
from fleetscope.errors import RetryError

Send = Callable[[str, Encoded], None]


@dataclass(slots=True)
class Counts:
    """Of one kind of batch in this epoch; ``unreported`` are dropped rows that no batch header has stated yet."""

    batches: int = 0
    rows: int = 0
    dropped: int = 0
    unreported: int = 0


@dataclass(frozen=True, slots=True)
class Promise:
    """Rows published later on ``clock`` are not earlier than ``through_ticks``."""

    clock: str
    through_ticks: int


class Publisher:
    """One producer of one host in one epoch; not for several threads. ``send`` may raise RetryError to refuse."""

    def __init__(self, host: str, producer_id: str, epoch: int, send: Send, *, reference_clock: str = "monotonic_raw",
                 backlog_bytes: int = 8 * 1024 * 1024) -> None:
        self.host = host
        self.producer_id = producer_id
        self.epoch = epoch
        self._send = send
        self._reference_clock = reference_clock
        self._limit = backlog_bytes
        self._waiting: deque[tuple[str, Encoded]] = deque()
        self._waiting_bytes = 0
        self._counts: dict[str, Counts] = {}

    def counts(self, contract: str) -> Counts:
        """Cumulative counts of a kind; zeros where nothing was published."""
        return self._counts.setdefault(contract, Counts())

    @property
    def waiting(self) -> int:
        """Messages numbered and not yet taken by the stream."""
        return len(self._waiting)

    def totals(self) -> dict[str, int]:
        """Rows, batches and dropped rows over all kinds, and batches waiting."""
        counts = self._counts.values()
        return {"rows": sum(c.rows for c in counts), "batches": sum(c.batches for c in counts),
                "dropped": sum(c.dropped for c in counts), "waiting": self.waiting}

    def drain(self) -> bool:
        """Send what waits, in order; False where the stream still refuses."""
        while self._waiting:
            topic, message = self._waiting[0]
            try:
                self._send(topic, message)
            except RetryError:
                return False
            self._waiting.popleft()
            self._waiting_bytes -= len(message.value)
        return True

    def publish(self, contract: Contract, rows: pa.RecordBatch, clock: str, topic: str, flushed_ticks: int,
                dropped: int = 0) -> int:
        """Publish ``rows`` in as many batches as the limits ask for; returns how many rows were dropped instead.

        ``dropped`` are rows of this kind that the caller lost before. Raises what ``send`` raises except RetryError.
        """
        counts = self.counts(contract.name)
        counts.dropped += dropped
        counts.unreported += dropped
        before = counts.dropped
        if not self.drain() and self._waiting_bytes >= self._limit:
            self._drop(counts, rows.num_rows)
        else:
            for start in range(0, rows.num_rows, MAX_ROWS):
                self._split(contract, rows.slice(start, MAX_ROWS), clock, topic, flushed_ticks)
        return counts.dropped - before

    def heartbeat(self, topic: str, time_ticks: int, promises: Mapping[str, Promise], *, closed: bool = False) -> None:
        """State the counts of every contract in ``promises``, by name, on the reference clock."""
        rows: list[dict[str, object]] = []
        for contract, promise in promises.items():
            counts = self.counts(contract)
            rows.append({"time_ticks": time_ticks, "contract": contract, "clock": promise.clock,
                         "batches_total": counts.batches, "rows_total": counts.rows,
                         "dropped_rows_total": counts.dropped, "through_ticks": promise.through_ticks,
                         "closed": closed})
        self.publish(HEARTBEATS, from_rows(HEARTBEATS, rows), self._reference_clock, topic, time_ticks)

    def _split(self, contract: Contract, rows: pa.RecordBatch, clock: str, topic: str, flushed_ticks: int) -> None:
        counts = self.counts(contract.name)
        header = Header(contract.name, contract.version, self.host, self.producer_id, self.epoch, counts.batches,
                        rows.num_rows, clock, dropped_rows=counts.unreported, flushed_ticks=flushed_ticks)
        message = encode(Batch(header, rows))
        if len(message.value) <= MAX_MESSAGE_BYTES:
            counts.batches += 1
            counts.rows += rows.num_rows
            counts.unreported = 0
            self._hand_over(topic, message)
        elif rows.num_rows == 1:
            self._drop(counts, 1)
        else:
            half = rows.num_rows // 2
            self._split(contract, rows.slice(0, half), clock, topic, flushed_ticks)
            self._split(contract, rows.slice(half), clock, topic, flushed_ticks)

    def _hand_over(self, topic: str, message: Encoded) -> None:
        self._waiting.append((topic, message))
        self._waiting_bytes += len(message.value)
        self.drain()

    @staticmethod
    def _drop(counts: Counts, rows: int) -> None:
        counts.dropped += rows
        counts.unreported += rows
