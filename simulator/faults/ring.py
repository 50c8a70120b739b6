"""The buffer between a source and the agent: what does not fit is dropped at the source and counted."""

from __future__ import annotations

from collections.abc import Sequence

from simulator.faults.plan import FLUSH_NS, Interval
from simulator.faults.settings import Ring
from simulator.faults.timeline import NS


class RingBuffer:
    """Fill of one ring from flush to flush. While the agent stalls nothing is read from it.

    Rows that fit are published at the flush of their interval: waiting in the ring delays them by less than it.
    """

    def __init__(self, ring: Ring, stalls: Sequence[Interval]) -> None:
        self._ring = ring
        self._stalls = stalls
        self._fill = 0.0

    def admit(self, rows: int, flush_ns: int) -> int:
        """How many of the ``rows`` made in the interval before a flush find a place; the later ones do not."""
        read_ns = FLUSH_NS - sum(max(min(end, flush_ns) - max(start, flush_ns - FLUSH_NS), 0)
                                 for start, end in self._stalls)
        room = self._ring.drain_rows_per_s * read_ns / NS
        kept = min(rows, int(self._ring.rows - self._fill + room))
        self._fill = min(max(self._fill + kept - room, 0.0), float(self._ring.rows))
        return kept
