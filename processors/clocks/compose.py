"""Maps made of maps: two hops into one, and the end of a clock that closed."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from fleetscope.contracts.derived import ALIGNMENTS
from processors.clocks.segments import Segment, SegmentMap, State

END_OF_TIME: Final = 1 << 62


def worst(a: State, b: State) -> State:
    """The less sure of two states."""
    return max(a, b, key=ALIGNMENTS.index)


def plus(*bounds: int | None) -> int | None:
    """Sum of bounds; None where one is missing."""
    return None if any(b is None for b in bounds) else sum(b for b in bounds if b is not None)


def beyond(last: Segment) -> Segment:
    """The gap after the last piece of a clock whose producer closed: everything is decided, nothing has a bound."""
    return Segment(last.epoch, last.valid_to, END_OF_TIME, last.src0, last.dst0, last.rate_q32, None, None, "gap",
                   last.decided_at)


def compose(pending: list[Segment], parent: SegmentMap, *, final: bool) -> list[Segment]:
    """Take from ``pending`` (first map, source → middle) what ``parent`` (middle → target) covers, and chain it.

    A piece is cut where the parent changes piece. With ``final`` the parent gets no more pieces, and its last one is
    prolonged as a gap.
    """
    ready: list[Segment] = []
    while pending and parent.segments:
        piece = pending[0]
        through = parent.through
        if not final and through is not None and piece.at(piece.valid_to) > through:
            break
        ready.extend(_chained(pending.pop(0), parent))
    return ready


def _chained(piece: Segment, parent: SegmentMap) -> list[Segment]:
    low, high = piece.at(piece.valid_from), piece.at(piece.valid_to)
    inner = {piece.inverse(p.valid_from) + 1 for p in parent.segments if low < p.valid_from < high}
    cuts = [piece.valid_from, *sorted(c for c in inner if piece.valid_from < c < piece.valid_to), piece.valid_to]
    return [_link(piece, parent, a, b) for a, b in pairwise(cuts)]


def _link(piece: Segment, parent: SegmentMap, start: int, stop: int) -> Segment:
    middle = piece.at(start)
    above = parent.find(middle)
    if above is None:
        nearest = min(parent.segments, key=lambda s: min(abs(s.valid_from - middle), abs(s.valid_to - middle)))
        state: State = "gap"
        err = utc = None
    else:
        nearest, state = above, worst(piece.state, above.state)
        err, utc = plus(piece.err_ns, above.err_ns, 2), plus(piece.err_ns, above.utc_err_ns, 2)
    first, last = nearest.at(middle), nearest.at(piece.at(stop))
    rate = ((last - first) << 32) // (stop - start)
    return Segment(piece.epoch, start, stop, start, first, rate, err, utc, state, piece.decided_at)

