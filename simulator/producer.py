"""A simulated producer: numbers, encodes and counts its batches, and suffers the scenario's collection faults."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fleetscope.contracts.batch import Batch, Header
from fleetscope.contracts.codec import MAX_MESSAGE_BYTES, MAX_ROWS, Encoded, encode
from simulator.scenario import Faults
from simulator.truth import Sink, SpanStarts, Tally

FAULTY: Final = frozenset({"spans", "counters"})
"""Contracts whose batches suffer faults."""
_ECHO_AFTER: Final = 5
"""A redelivered message comes again after this many other messages of its producer."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A message for ``topic`` (without prefix), published at true time ``flushed_ns``."""

    topic: str
    message: Encoded
    rows: int
    contract: str
    flushed_ns: int


@dataclass(slots=True)
class Totals:
    """Cumulative counts of one contract, as heartbeats state them."""

    batches: int = 0
    rows: int = 0
    dropped: int = 0
    unreported: int = 0


@dataclass(frozen=True, slots=True)
class Flush:
    """When a batch is published: true time and the host's reference clock."""

    true_ns: int
    ticks: int


class Producer:
    """One (producer, epoch). Sequences are gap-free per contract; ``topics`` says where each contract goes."""

    def __init__(self, host: str, name: str, epoch: int, topics: Mapping[str, str], faults: Faults,
                 rng: np.random.Generator, tallies: dict[str, Tally], sink: Sink) -> None:
        self.host, self.name, self.epoch = host, name, epoch
        self._topics = topics
        self._faults = faults
        self._rng = rng
        self._tallies = tallies
        self._sink = sink
        self._echoes: deque[tuple[int, Publication]] = deque()
        self._sent = 0
        self.totals: dict[str, Totals] = defaultdict(Totals)

    def publish(self, contract: str, clock: str, rows: pa.RecordBatch, flush: Flush,
                starts_ns: NDArray[np.int64] | None = None) -> Iterator[Publication]:
        """Messages of ``rows``, split to the limits; ``starts_ns`` are the true starts of spans."""
        tally = self._tallies.setdefault(contract, Tally())
        tally.produced += rows.num_rows
        kept = self._kept(contract, rows.num_rows)
        if kept < rows.num_rows:
            dropped = rows.num_rows - kept
            tally.dropped_by_producer += dropped
            self.totals[contract].dropped += dropped
            self.totals[contract].unreported += dropped
            if starts_ns is not None:
                self._sink.missed(self.host, "dropped", starts_ns[kept:])
            rows, starts_ns = rows.slice(0, kept), None if starts_ns is None else starts_ns[:kept]
        yield from self._split(contract, clock, rows, flush, starts_ns)

    def drain(self) -> Iterator[Publication]:
        """Redeliveries that have not come yet."""
        while self._echoes:
            yield self._echoes.popleft()[1]

    def _kept(self, contract: str, rows: int) -> int:
        if contract not in FAULTY or self._rng.random() >= self._faults.dropping_share:
            return rows
        return rows - int(rows * self._faults.dropped_rows_share)

    def _split(self, contract: str, clock: str, rows: pa.RecordBatch, flush: Flush,
               starts_ns: NDArray[np.int64] | None) -> Iterator[Publication]:
        totals = self.totals[contract]
        message = None
        if rows.num_rows <= MAX_ROWS:
            header = Header(contract, 1, self.host, self.name, self.epoch, totals.batches, rows.num_rows, clock,
                            dropped_rows=totals.unreported, flushed_ticks=flush.ticks)
            message = encode(Batch(header, rows))
        if message is None or len(message.value) > MAX_MESSAGE_BYTES:
            half = rows.num_rows // 2
            for part in (slice(0, half), slice(half, rows.num_rows)):
                yield from self._split(contract, clock, rows.slice(part.start, part.stop - part.start), flush,
                                       None if starts_ns is None else starts_ns[part])
            return
        if starts_ns is not None:
            self._sink.starts(SpanStarts(self.host, self.name, self.epoch, totals.batches, clock, starts_ns))
        totals.batches += 1
        totals.rows += rows.num_rows
        totals.unreported = 0
        publication = Publication(self._topics[contract], message, rows.num_rows, contract, flush.true_ns)
        yield from self._deliver(publication, starts_ns)

    def _deliver(self, publication: Publication, starts_ns: NDArray[np.int64] | None) -> Iterator[Publication]:
        self._sent += 1
        tally = self._tallies[publication.contract]
        fault = self._fault(publication.contract)
        if fault == "lost":
            tally.lost += publication.rows
            if starts_ns is not None:
                self._sink.missed(self.host, "lost", starts_ns)
        elif fault == "corrupt":
            tally.corrupted += publication.rows
            if starts_ns is not None:
                self._sink.missed(self.host, "corrupted", starts_ns)
            yield corrupted(publication, int(self._rng.integers(2)))
        else:
            yield publication
        if fault == "redelivered":
            tally.redelivered += publication.rows
            self._echoes.append((self._sent + _ECHO_AFTER, publication))
        while self._echoes and self._echoes[0][0] <= self._sent:
            yield self._echoes.popleft()[1]

    def _fault(self, contract: str) -> str:
        if contract not in FAULTY or not self._faults.any:
            return ""
        draw = float(self._rng.random())
        for name, share in (("lost", self._faults.lost_share), ("corrupt", self._faults.corrupt_share),
                            ("redelivered", self._faults.redelivered_share)):
            if draw < share:
                return name
            draw -= share
        return ""


def corrupted(publication: Publication, way: int) -> Publication:
    """The message damaged so that no decoder can take it: cut short (0) or with its first bytes overwritten (1)."""
    old = publication.message
    value = old.value[:len(old.value) * 2 // 3] if way == 0 else b"\xde\xad\xbe\xef" + old.value[4:]
    return Publication(publication.topic, Encoded(old.key, value, old.headers), publication.rows,
                       publication.contract, publication.flushed_ns)
