"""Which rows were seen: the identities (producer, epoch, contract, sequence, row) as disjoint intervals.

A sequence is *whole* once rows ``[0, total)`` are in. Whole sequences are kept as runs, so that a stream in order costs
one run whatever its length; the others keep their row intervals. All ranges are half open.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from fleetscope.contracts.batch import StreamKey

Range = tuple[int, int]

_VERSION: Final = 1


def insert(ranges: list[Range], start: int, stop: int) -> list[Range]:
    """Put ``[start, stop)`` into sorted, disjoint, non-touching ``ranges`` (changed in place); return what was new."""
    if start >= stop:
        return []
    first = bisect_right(ranges, start, key=_stop)
    if first and ranges[first - 1][1] == start:
        first -= 1
    last = first
    new: list[Range] = []
    at = start
    while last < len(ranges) and ranges[last][0] <= stop:
        low, high = ranges[last]
        if at < low:
            new.append((at, min(low, stop)))
        at = max(at, high)
        last += 1
    if at < stop:
        new.append((at, stop))
    if first < last:
        start, stop = min(start, ranges[first][0]), max(stop, ranges[last - 1][1])
    ranges[first:last] = [(start, stop)]
    return new


def _stop(of: Range) -> int:
    return of[1]


def contains(ranges: list[Range], value: int) -> bool:
    """True where one of the sorted ``ranges`` holds ``value``."""
    index = bisect_right(ranges, value, key=_stop)
    return index < len(ranges) and ranges[index][0] <= value


@dataclass(slots=True)
class _Seen:
    """One stream. ``floor``: sequences below are forgotten; ``top``: one past the highest sequence seen."""

    floor: int = 0
    top: int = 0
    whole: list[Range] = field(default_factory=list)
    partial: dict[int, list[Range]] = field(default_factory=dict)
    totals: dict[int, int] = field(default_factory=dict)


class Ledger:
    """See the module's text. Cost of ``add`` is O(log n) in the number of runs, O(1) for a stream in order."""

    def __init__(self) -> None:
        self._streams: dict[StreamKey, _Seen] = {}

    def __iter__(self) -> Iterator[StreamKey]:
        return iter(self._streams)

    def add(self, stream: StreamKey, sequence: int, row0: int, rows: int, total_rows: int | None) -> list[Range]:
        """Enter rows ``[row0, row0 + rows)`` of a sequence; return the ranges of them that had not been entered.

        ``total_rows`` is how many rows the sequence has; None where that is not known (pieces of a batch that were
        published again): such a sequence stays in the ledger by its rows until it is told the total or forgotten.
        An empty sequence counts as seen. Rows of a forgotten sequence are returned as new every time.
        Raises ValueError for negative numbers and for rows past the total.
        """
        if sequence < 0 or row0 < 0 or rows < 0:
            raise ValueError(f"{stream}: sequence {sequence}, row {row0}, {rows} rows")
        if total_rows is not None and row0 + rows > total_rows:
            raise ValueError(f"{stream}: rows {row0} to {row0 + rows} of sequence {sequence} with {total_rows} rows")
        seen = self._streams.setdefault(stream, _Seen())
        if sequence < seen.floor:
            return [(row0, row0 + rows)] if rows else []
        seen.top = max(seen.top, sequence + 1)
        if contains(seen.whole, sequence):
            return []
        ranges = seen.partial.setdefault(sequence, [])
        new = insert(ranges, row0, row0 + rows)
        if total_rows is not None:
            seen.totals[sequence] = total_rows
        total = seen.totals.get(sequence)
        if total is not None and (total == 0 or ranges == [(0, total)]):
            insert(seen.whole, sequence, sequence + 1)
            del seen.partial[sequence], seen.totals[sequence]
        return new

    def max_sequence(self, stream: StreamKey) -> int | None:
        """The highest sequence seen of a stream, None before the first."""
        seen = self._streams.get(stream)
        return seen.top - 1 if seen and seen.top else None

    def missing(self, stream: StreamKey) -> list[Range]:
        """Ranges of sequences from 0 (or the forgotten ones) to the highest of which no row, not even an empty batch,
        was seen. A sequence that is partly there is not in them."""
        seen = self._streams.get(stream)
        if seen is None:
            return []
        present = list(seen.whole)
        for sequence in seen.partial:
            insert(present, sequence, sequence + 1)
        gaps: list[Range] = []
        at = seen.floor
        for low, high in present:
            if at < low:
                gaps.append((at, low))
            at = max(at, high)
        return gaps

    def partial(self, stream: StreamKey) -> dict[int, list[Range]]:
        """Row ranges seen of the sequences that are not whole (a copy)."""
        seen = self._streams.get(stream)
        return {sequence: list(ranges) for sequence, ranges in sorted(seen.partial.items())} if seen else {}

    def forget(self, stream: StreamKey, below: int) -> None:
        """Drop what is known of sequences under ``below``: they are neither missing nor recognised any more."""
        seen = self._streams.get(stream)
        if seen is None or below <= seen.floor:
            return
        seen.floor = below
        seen.top = max(seen.top, below)
        seen.whole = [(max(low, below), high) for low, high in seen.whole if high > below]
        seen.partial = {sequence: ranges for sequence, ranges in seen.partial.items() if sequence >= below}
        seen.totals = {sequence: total for sequence, total in seen.totals.items() if sequence >= below}

    def to_plain(self) -> dict[str, object]:
        """Lists, numbers and text only; equal ledgers give equal values in equal order."""
        streams = [
            [*stream, seen.floor, seen.top, [list(r) for r in seen.whole],
             [[s, seen.totals.get(s), [list(r) for r in ranges]] for s, ranges in sorted(seen.partial.items())]]
            for stream, seen in sorted(self._streams.items())
        ]
        return {"version": _VERSION, "streams": streams}

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> Ledger:
        """The ledger of ``to_plain``, also after a way through JSON; raises ValueError for anything else."""
        streams = plain.get("streams")
        if plain.get("version") != _VERSION or not isinstance(streams, list):
            raise ValueError(f"no ledger of version {_VERSION}")
        ledger = cls()
        for producer, epoch, contract, floor, top, whole, partial in streams:
            seen = _Seen(floor, top, [(low, high) for low, high in whole])
            for sequence, total, ranges in partial:
                seen.partial[sequence] = [(low, high) for low, high in ranges]
                if total is not None:
                    seen.totals[sequence] = total
            ledger._streams[StreamKey(producer, epoch, contract)] = seen
        return ledger
