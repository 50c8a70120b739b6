"""Numbers, encodes and sends the batches of one producer, and counts them for its heartbeats.

A sequence number is given once and never to other rows: what the stream refuses for the moment waits, encoded, in the
outbox and is sent again under the same identity. Only when the outbox is full are new rows given up; they get no
number, and the next batch and heartbeat say how many were dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa

from fleetscope.contracts import Contract
from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.codec import MAX_MESSAGE_BYTES, MAX_ROWS, encode
from fleetscope.contracts.raw import HEARTBEATS
from fleetscope.outbox import Outbox


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
    """One producer of one host in one epoch; not for several threads. Header clocks may differ from batch to batch."""

    def __init__(self, host: str, producer_id: str, epoch: int, outbox: Outbox, *,
                 reference_clock: str = "monotonic_raw") -> None:
        self.host = host
        self.producer_id = producer_id
        self.epoch = epoch
        self._outbox = outbox
        self._reference_clock = reference_clock
        self._counts: dict[str, Counts] = {}

    def counts(self, contract: str) -> Counts:
        """Cumulative counts of a kind; zeros where nothing was published."""
        return self._counts.setdefault(contract, Counts())

    def totals(self) -> dict[str, int]:
        """Rows, batches and dropped rows over all kinds."""
        counts = self._counts.values()
        return {"rows": sum(c.rows for c in counts), "batches": sum(c.batches for c in counts),
                "dropped": sum(c.dropped for c in counts)}

    def publish(self, contract: Contract, rows: pa.RecordBatch, clock: str, topic: str, flushed_ticks: int,
                dropped: int = 0) -> int:
        """Publish ``rows`` in as many batches as the limits ask for; returns how many rows were dropped instead.

        ``dropped`` are rows of this kind that the caller lost before. Raises what the stream's producer raises except
        RetryError, which the outbox deals with.
        """
        counts = self.counts(contract.name)
        counts.dropped += dropped
        counts.unreported += dropped
        before = counts.dropped
        if self._outbox.full:
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
            self._outbox.put(topic, message)
        elif rows.num_rows == 1:
            self._drop(counts, 1)
        else:
            half = rows.num_rows // 2
            self._split(contract, rows.slice(0, half), clock, topic, flushed_ticks)
            self._split(contract, rows.slice(half), clock, topic, flushed_ticks)

    @staticmethod
    def _drop(counts: Counts, rows: int) -> None:
        counts.dropped += rows
        counts.unreported += rows
