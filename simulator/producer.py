"""A simulated producer: numbers, encodes and counts its batches; what its rings and its way out do to them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, Header
from fleetscope.contracts.codec import MAX_MESSAGE_BYTES, MAX_ROWS, encode
from simulator.faults.plan import FLUSH_NS, RAW, HostPlan
from simulator.faults.ring import RingBuffer
from simulator.faults.settings import Collection
from simulator.faults.timeline import Ints
from simulator.faults.transit import FAULTY, Publication, Transit, corrupted, read_at
from simulator.truth import Sink, SpanStarts, Tally

__all__ = ["FAULTY", "Flush", "Producer", "Publication", "Totals", "corrupted"]


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
    """Producer ``name`` of a host. Sequences of an epoch are gap-free per contract; ``topics``: where each one goes."""

    def __init__(self, host: str, name: str, epoch: int, topics: Mapping[str, str], collection: Collection,
                 rng: np.random.Generator, tallies: dict[str, Tally], sink: Sink,
                 plan: HostPlan | None = None) -> None:
        self.host, self.name, self.epoch = host, name, epoch
        self._topics = topics
        self._collection = collection
        self._plan = plan or HostPlan()
        self._rng = rng
        self._tallies = tallies
        self._sink = sink
        self._transit = Transit(host, collection, self._plan, rng, tallies, sink)
        self._rings: dict[str, RingBuffer] = {}
        self._overruns: dict[str, tuple[int, int]] = {}
        """By clock: from when to when its ring has been running over."""
        self.totals: dict[str, Totals] = defaultdict(Totals)

    @property
    def waiting(self) -> bool:
        """Whether messages are still on their way."""
        return self._transit.waiting

    def restart(self, epoch: int) -> None:
        """A new process: it counts and numbers from 0, its rings are empty."""
        self.epoch = epoch
        self.totals = defaultdict(Totals)
        self._rings.clear()

    def publish(self, contract: str, clock: str, rows: pa.RecordBatch, flush: Flush,
                starts_ns: Ints | None = None) -> Iterator[Publication]:
        """Messages of ``rows``, split to the limits; ``starts_ns`` are the true starts of spans."""
        tally = self._tally(contract)
        tally.produced += rows.num_rows
        kept = min(self._kept(contract, rows.num_rows), self._admitted(contract, clock, rows.num_rows, flush))
        if kept < rows.num_rows:
            dropped = rows.num_rows - kept
            tally.dropped_by_producer += dropped
            self.totals[contract].dropped += dropped
            self.totals[contract].unreported += dropped
            if starts_ns is not None:
                # The newest do not fit. Rows stay in the order in which they are published.
                order = np.argsort(starts_ns, kind="stable")
                self._sink.missed(self.host, "dropped", starts_ns[order[kept:]])
                chosen = np.sort(order[:kept])
                rows, starts_ns = rows.take(pa.array(chosen)), starts_ns[chosen]
            else:
                self._sink.missed(self.host, "dropped", read_at(flush.true_ns, dropped))
                rows = rows.slice(0, kept)
        yield from self._split(contract, clock, rows, flush, starts_ns)

    def unrecorded(self, contract: str, rows: int, starts_ns: Ints | None = None) -> None:
        """Rows that came to be and of which nobody outside will ever know."""
        self._tally(contract).unrecorded += rows
        if starts_ns is not None and len(starts_ns):
            self._sink.missed(self.host, "unrecorded", starts_ns)

    def due(self, now_ns: int) -> Iterator[Publication]:
        """Messages that were held up until now."""
        return self._transit.due(now_ns)

    def drain(self, now_ns: int) -> Iterator[Publication]:
        """Messages that have not come yet; the truth of overruns that last to the end."""
        for clock in list(self._overruns):
            self._end_overrun(clock)
        return self._transit.rest(now_ns)

    def _tally(self, contract: str) -> Tally:
        return self._tallies.setdefault(contract, Tally())

    def _kept(self, contract: str, rows: int) -> int:
        if contract not in FAULTY or self._rng.random() >= self._collection.dropping_share:
            return rows
        return rows - int(rows * self._collection.dropped_rows_share)

    def _admitted(self, contract: str, clock: str, rows: int, flush: Flush) -> int:
        """Rows of spans for which the clock's ring has room."""
        if self._collection.ring is None or contract != "spans":
            return rows
        ring = self._rings.get(clock)
        if ring is None:
            ring = self._rings[clock] = RingBuffer(self._collection.ring, self._plan.stalls)
        kept = ring.admit(rows, flush.true_ns)
        begin, end = self._overruns.get(clock, (0, 0))
        if kept < rows:
            if end < flush.true_ns - FLUSH_NS:
                self._end_overrun(clock)
                begin = flush.true_ns - FLUSH_NS
            self._overruns[clock] = (begin, flush.true_ns)
        return kept

    def _end_overrun(self, clock: str) -> None:
        begin, end = self._overruns.pop(clock, (0, 0))
        if end:
            self._sink.incident("data_loss", self.host, None if clock == RAW else clock, begin, end)

    def _split(self, contract: str, clock: str, rows: pa.RecordBatch, flush: Flush,
               starts_ns: Ints | None) -> Iterator[Publication]:
        totals = self.totals[contract]
        message = None
        if rows.num_rows <= MAX_ROWS:
            header = Header(contract, CONTRACTS[contract].version, self.host, self.name, self.epoch, totals.batches,
                            rows.num_rows, clock, dropped_rows=totals.unreported, flushed_ticks=flush.ticks)
            message = encode(Batch(header, rows))
        if message is None or len(message.value) > MAX_MESSAGE_BYTES:
            half = rows.num_rows // 2
            for part in (slice(0, half), slice(half, rows.num_rows)):
                yield from self._split(contract, clock, rows.slice(part.start, part.stop - part.start), flush,
                                       None if starts_ns is None else starts_ns[part])
            return
        if starts_ns is None and contract in FAULTY:
            self._sink.published(self.host, contract, int(read_at(flush.true_ns, 1)[0]), rows.num_rows)
        if starts_ns is not None:
            self._sink.starts(SpanStarts(self.host, self.name, self.epoch, totals.batches, clock, starts_ns))
        totals.batches += 1
        totals.rows += rows.num_rows
        totals.unreported = 0
        publication = Publication(self._topics[contract], message, rows.num_rows, contract, flush.true_ns)
        yield from self._transit.send(publication, starts_ns)
