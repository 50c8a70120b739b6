"""UTC of the reference: how far fleet time is from it in a cell, and the rate that leads towards it."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

from processors.clocks.fleet_state import NS, Group, HostClock
from processors.clocks.segments import Segment, State

SLEW_PPB: Final = 5_000
SLEW_HORIZON_NS: Final = 5 * NS


class UtcCell(NamedTuple):
    """Parts of a cell of the reference: (from tick, to tick, epochs begun, bound against UTC or None, state), and the
    bound over the whole cell, None where a part has none."""

    parts: list[tuple[int, int, int, int | None, State]]
    err_ns: int | None


def utc_at(host: HostClock, tick: int) -> int | None:
    """UTC at a tick of the reference; None: not known."""
    piece = _holding(host.utc_segments, tick)
    return None if piece is None or piece.err_ns is None else piece.at(tick)


def _holding(segments: list[Segment], tick: int) -> Segment | None:
    at = bisect_right(segments, tick, key=lambda s: s.valid_from) - 1
    if at >= 0 and tick <= segments[at].valid_to:
        return segments[at]
    return None


def slew_ppb(real: int | None, fleet: int) -> int:
    """Rate of fleet time against the reference's MONOTONIC_RAW, −1, in ppb: at most 5 ppm towards UTC."""
    if real is None:
        return 0
    return max(-SLEW_PPB, min(SLEW_PPB, (real - fleet) * NS // SLEW_HORIZON_NS))


def utc_cell(host: HostClock, group: Group, stop: int, fleet_stop: int) -> UtcCell:
    """How far fleet time, a line from the host's cursor to (``stop``, ``fleet_stop``), is from its UTC.

    The cell is cut where an epoch of the UTC clock begins, so that a step can be told to the tick.
    """
    start, fleet = host.cursor, host.value
    assert start is not None
    assert fleet is not None
    parts: list[tuple[int, int, int, int | None, State]] = []
    at = start
    for piece in host.utc_segments:
        if piece.valid_to <= at or piece.valid_from >= stop:
            continue
        if piece.valid_from > at:
            parts.append((at, piece.valid_from, 0, None, "provisional"))
            at = piece.valid_from
        end = min(piece.valid_to, stop)
        err = None
        if piece.err_ns is not None:
            away = max(abs(piece.at(t) - fleet - (t - start) * (fleet_stop - fleet) // (stop - start))
                       for t in (at, end))
            err = piece.err_ns + away + 3
        begun = 0
        if group.utc_epoch is None:
            group.utc_epoch = piece.epoch
        elif err is not None and piece.epoch != group.utc_epoch:
            begun, group.utc_epoch = 1, piece.epoch
        state: State = "provisional" if piece.state == "gap" else piece.state
        _join(parts, (at, end, begun, err, state))
        at = end
    if at < stop:
        parts.append((at, stop, 0, None, "provisional"))
    errors = [p[3] for p in parts if p[3] is not None]
    return UtcCell(parts, max(errors) if len(errors) == len(parts) else None)


def _join(parts: list[tuple[int, int, int, int | None, State]], part: tuple[int, int, int, int | None, State]) -> None:
    """Append the part, as one with the last where both have a bound and no epoch begins between them."""
    if parts and not part[2] and (parts[-1][3] is None) == (part[3] is None):
        first, _, begun, err, state = parts[-1]
        worse: State = "settled" if state == part[4] == "settled" else "provisional"
        parts[-1] = (first, part[1], begun, None if err is None or part[3] is None else max(err, part[3]), worse)
    else:
        parts.append(part)
