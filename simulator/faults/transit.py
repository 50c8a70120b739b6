"""The way of messages from an agent to the broker, and what happens to them on it."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from fleetscope.contracts.codec import Encoded
from simulator.faults.plan import HostPlan
from simulator.faults.settings import Collection
from simulator.faults.timeline import NS, Ints
from simulator.truth import Fate, Sink, Tally

FAULTY: Final = frozenset({"spans", "counters"})
"""Contracts whose batches are lost, damaged, repeated and late by share; a cut way out holds up all of them."""
_ECHO_AFTER: Final = 5
"""A redelivered message comes again after this many other messages of its producer."""


@dataclass(frozen=True, slots=True)
class Publication:
    """A message for ``topic`` (without prefix), delivered at true time ``flushed_ns``."""

    topic: str
    message: Encoded
    rows: int
    contract: str
    flushed_ns: int


class Transit:
    """Takes the messages of one producer in order and gives those that arrive. What waits is in ``waiting``."""

    def __init__(self, host: str, collection: Collection, plan: HostPlan, rng: np.random.Generator,
                 tallies: dict[str, Tally], sink: Sink) -> None:
        self._host = host
        self._collection = collection
        self._plan = plan
        self._rng = rng
        self._tallies = tallies
        self._sink = sink
        self._echoes: deque[tuple[int, Publication]] = deque()
        self._held: list[tuple[int, int, Publication]] = []
        """(due, number, message), a heap."""
        self._recent: deque[Publication] = deque()
        self._repeated: set[int] = set()
        self._sent = 0
        self._numbers = 0
        self._any = max(collection.lost_share, collection.corrupt_share, collection.redelivered_share,
                        collection.late_share, collection.reordered_share) > 0

    @property
    def waiting(self) -> bool:
        """Whether messages are still on their way."""
        return bool(self._held or self._echoes)

    def send(self, publication: Publication, starts_ns: Ints | None) -> Iterator[Publication]:
        """What arrives by now of ``publication`` and of what waited for it; ``starts_ns``: true starts of spans."""
        self._sent += 1
        fault = self._fault(publication)
        tally = self._tallies[publication.contract]
        if fault == "lost":
            tally.lost += publication.rows
            self._missed("lost", publication, starts_ns)
        elif fault == "corrupt":
            tally.corrupted += publication.rows
            self._missed("corrupted", publication, starts_ns)
            yield from self._arriving(corrupted(publication, int(self._rng.integers(2))), first=False)
        elif fault in ("late", "reordered"):
            tally.late += publication.rows
            self._hold(publication, publication.flushed_ns + self._delay_ns(fault))
        else:
            yield from self._arriving(publication)
        if fault == "redelivered":
            tally.redelivered += publication.rows
            self._echoes.append((self._sent + _ECHO_AFTER, publication))
        while self._echoes and self._echoes[0][0] <= self._sent:
            echo = replace(self._echoes.popleft()[1], flushed_ns=publication.flushed_ns)
            yield from self._arriving(echo, first=False)

    def due(self, now_ns: int) -> Iterator[Publication]:
        """What waited for a time that has come, in the order of those times."""
        self._repeat(now_ns)
        while self._held and self._held[0][0] <= now_ns and self._cut_until(now_ns) is None:
            yield replace(heapq.heappop(self._held)[2], flushed_ns=now_ns)

    def rest(self, now_ns: int) -> Iterator[Publication]:
        """Redeliveries that have not come yet, and what is still held."""
        while self._echoes:
            yield replace(self._echoes.popleft()[1], flushed_ns=now_ns)
        while self._held:
            yield replace(heapq.heappop(self._held)[2], flushed_ns=now_ns)

    def _arriving(self, publication: Publication, *, first: bool = True) -> Iterator[Publication]:
        """The message itself, unless the way is cut."""
        now_ns = publication.flushed_ns
        until = self._cut_until(now_ns)
        if until is not None:
            self._repeat(now_ns)
            self._tallies[publication.contract].late += publication.rows if first else 0
            self._hold(publication, until)
            return
        if first and any(spool.start_ns - spool.repeat_ns < now_ns <= spool.start_ns for spool in self._plan.spools):
            self._recent.append(publication)
        yield publication

    def _cut_until(self, now_ns: int) -> int | None:
        ends = [spool.end_ns for spool in self._plan.spools if spool.start_ns < now_ns < spool.end_ns]
        return max(ends, default=None)

    def _repeat(self, now_ns: int) -> None:
        """Put what an outage sends again before what it holds up."""
        for number, spool in enumerate(self._plan.spools):
            if number not in self._repeated and spool.start_ns < now_ns:
                self._repeated.add(number)
                while self._recent:
                    publication = self._recent.popleft()
                    self._tallies[publication.contract].redelivered += publication.rows
                    self._hold(publication, spool.end_ns)

    def _hold(self, publication: Publication, due_ns: int) -> None:
        self._numbers += 1
        heapq.heappush(self._held, (due_ns, self._numbers, publication))

    def _delay_ns(self, fault: str) -> int:
        faults = self._collection
        if fault == "late":
            return round(float(self._rng.uniform(faults.late_min_s, faults.late_max_s)) * NS)
        return round(float(self._rng.uniform(0.0, faults.reorder_s)) * NS)

    def _missed(self, fate: Fate, publication: Publication, starts_ns: Ints | None) -> None:
        at_ns = read_at(publication.flushed_ns, publication.rows) if starts_ns is None else starts_ns
        self._sink.missed(self._host, fate, at_ns)

    def _fault(self, publication: Publication) -> str:
        if publication.contract not in FAULTY:
            return ""
        for start, end, share in self._plan.bursts:
            if start <= publication.flushed_ns < end and self._rng.random() < share:
                return "lost"
        if not self._any:
            return ""
        faults = self._collection
        draw = float(self._rng.random())
        for name, share in (("lost", faults.lost_share), ("corrupt", faults.corrupt_share),
                            ("redelivered", faults.redelivered_share), ("late", faults.late_share),
                            ("reordered", faults.reordered_share)):
            if draw < share:
                over = publication.flushed_ns > self._plan.run_ns and name in ("late", "reordered")
                return "" if over else name  # or the last late batch would never have come
            draw -= share
        return ""


def read_at(flush_ns: int, rows: int) -> Ints:
    """When ``rows`` of readings that leave at a flush were read, as the truth has it: they wait a second at most."""
    return np.full(rows, max(flush_ns - NS // 2, 0), dtype=np.int64)


def corrupted(publication: Publication, way: int) -> Publication:
    """The message damaged so that no decoder can take it: cut short (0) or with its first bytes overwritten (1)."""
    old = publication.message
    value = old.value[:len(old.value) * 2 // 3] if way == 0 else b"\xde\xad\xbe\xef" + old.value[4:]
    return replace(publication, message=Encoded(old.key, value, old.headers))
