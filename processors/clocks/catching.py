"""The map of a host that is not in step with its group, from the maps of its neighbours as far as those are decided.

So it comes in: a host that joins, one whose links came late, and one whose clock stepped or began again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final, NamedTuple

from processors.clocks.emission import Sink
from processors.clocks.fleet_state import NS, FleetState, Group, HostClock
from processors.clocks.links import Edge, Key, Stretch
from processors.clocks.segments import Segment, beyond

DRIFT: Final = 9_000
"""1 / 111 ppm: what a rate may be off by."""
STEP_SLACK_NS: Final = 1_000_000
"""So far from a boundary a host is in step."""
SHORTEST_NS: Final = 1_000_000
"""Shorter pieces are not made: hosts behind would lead each other on by what rounding leaves."""
BOW_NS: Final = 13
"""What a clock within the assumptions can bend away from a straight line in a second: 1 s² · 0.1 ppm/s / 8."""
KEEP_PIECES: Final = 900


class Offer(NamedTuple):
    """What a link says of a host's fleet time: ``low`` to ``high``; until which tick of the host it says so."""

    low: int
    high: int
    until: int
    sure: bool
    utc_err: int | None
    edge: Edge


@dataclass(frozen=True, slots=True)
class Catching:
    """``limit_ns``: how long after its last piece a clock that began again is without a map."""

    limit_ns: int
    cell_ns: int = NS

    def catch_up(self, state: FleetState, group: Group, host: HostClock, sink: Sink) -> bool:
        """Decide what can be decided; True where the map went on."""
        began = host.run, host.cursor
        avoid = group.lying.keys()
        while not host.in_step and not host.sealed:
            if host.cursor is not None and host.value is not None and host.value >= group.fleet - STEP_SLACK_NS:
                host.in_step = True
                break
            if host.cursor is None or not self._piece(state, group, host, avoid, sink):
                start = next_start(state, host, avoid)
                if start is not None:
                    self._skip_to(group, host, start, sink)
                elif not self._begin_again(state, group, host, avoid, sink):
                    break
        return (host.run, host.cursor) != began

    def _piece(self, state: FleetState, group: Group, host: HostClock, avoid: Collection[Key], sink: Sink) -> bool:
        start = host.cursor
        assert start is not None
        offers = [o for edge in host.edges if edge.key not in avoid
                  and (o := offer(state, host, edge, start)) is not None and o.until >= start + SHORTEST_NS]
        if not offers:
            return False
        stop = min(max(o.until for o in offers), start + self.cell_ns)
        offers = [o for o in offers if o.until >= stop]
        ends = [e for o in offers if (e := offer(state, host, o.edge, stop, last=True)) is not None]
        if not ends:
            return False
        first, first_err = _middle(offers)
        last, last_err = _middle(ends)
        if host.value is not None and not host.moved:  # it goes on where it stood, inside both bounds
            first_err += abs(host.value - first)
            first = host.value
        host.moved = False
        err = max(first_err, last_err) + group.handover + BOW_NS + 2
        best = min(ends, key=lambda o: o.high - o.low)
        sure = best.sure and min(offers, key=lambda o: o.high - o.low).sure
        put(host, group, sink, Segment(
            host.epoch, start, stop, start, first, ((last - first) << 32) // (stop - start), err,
            None if best.utc_err is None else err + best.utc_err, "settled" if sure else "provisional",
            stop + late_ns(group)))
        host.cursor, host.value, host.err, host.sure = stop, last, last_err, best.sure
        return True

    def _skip_to(self, group: Group, host: HostClock, start: int, sink: Sink) -> None:
        """Nothing is known up to ``start``: a gap, and a new epoch."""
        if host.cursor is not None:
            if start > host.cursor:
                put(host, group, sink, _gap(host, group, start))
            host.epoch += 1
        host.cursor, host.value, host.err = start, None, None

    def _begin_again(self, state: FleetState, group: Group, host: HostClock, avoid: Collection[Key],
                     sink: Sink) -> bool:
        """On to the next run of the host's clock, where its neighbours know of one."""
        runs = {s.run(edge.remote == host.name) for edge in host.edges for s in edge.stretches}
        for run in sorted(r for r in runs if r > host.run):
            before, host.run = host.run, run
            start = next_start(state, host, avoid, from_tick=None)
            if start is None:
                host.run = before
                continue
            close_run(group, host, self.limit_ns, sink)
            host.cursor = start
            return True
        return False


def close_run(group: Group, host: HostClock, limit_ns: int, sink: Sink) -> None:
    """The clock of the host begins again: its old ticks end in a gap."""
    if host.cursor is not None:
        if host.pieces:
            put(host, group, sink, _gap(host, group, host.cursor + limit_ns))
        host.epoch += 1
    host.cursor, host.value, host.err, host.pieces = None, None, None, []


def put(host: HostClock, group: Group, sink: Sink, piece: Segment) -> None:
    """Append a piece to the host's map and publish it."""
    host.pieces.append(piece)
    sink.pieces.append((host.name, group.reference, piece))


def late_ns(group: Group) -> int:
    """How long after its end a cell is decided now."""
    return max((group.now or group.fleet) - group.fleet, 0)


def seal(host: HostClock, group: Group, sink: Sink) -> None:
    """End the map of a host that closed."""
    if host.pieces and not host.sealed:
        put(host, group, sink, beyond(host.pieces[-1]))
        host.pieces.pop()  # it may come back
    host.sealed, host.in_step = True, False


def _gap(host: HostClock, group: Group, stop: int) -> Segment:
    last = host.pieces[-1]
    assert host.cursor is not None
    return Segment(host.epoch, host.cursor, stop, last.src0, last.dst0, last.rate_q32, None, None, "gap",
                   stop + late_ns(group))


def _middle(offers: list[Offer]) -> tuple[int, int]:
    """Middle and half-width of what all offers allow; of the best one alone where they contradict each other."""
    low, high = max(o.low for o in offers), min(o.high for o in offers)
    if low > high:
        best = min(offers, key=lambda o: o.high - o.low)
        low, high = best.low, best.high
    return (low + high) // 2, (high - low + 1) // 2


def holding(pieces: list[Segment], tick: int, *, last: bool = False) -> int | None:
    """Index of the piece that holds ``tick``; with ``last`` the end of the last one counts."""
    at = bisect_right(pieces, tick, key=lambda p: p.valid_from) - 1
    if at < 0:
        return None
    end = pieces[at].valid_to
    return at if tick < end or (last and tick <= end + 2 and at == len(pieces) - 1) else None


def offer(state: FleetState, host: HostClock, edge: Edge, tick: int, *, last: bool = False) -> Offer | None:
    """What a link and the neighbour's map say of the host's fleet time at ``tick``; None: nothing."""
    remote = edge.remote == host.name
    stretch = edge.holding(host.name, tick - last, host.run)
    if stretch is None:
        return None
    other = state.hosts[edge.other(host.name)]
    if other.group != host.group or stretch.run(not remote) != other.run:
        return None
    reading = stretch.read(remote, tick)
    at = holding(other.pieces, reading.tick, last=last)
    if at is None and last:
        at = holding(other.pieces, reading.tick - 2)
    piece = None if at is None else other.pieces[at]
    if piece is None or at is None or piece.err_ns is None:
        return None
    middle = piece.at(reading.tick)
    err = reading.err_ns + reading.err_ns // DRIFT + piece.err_ns + 3
    return Offer(middle - err, middle + err, _until(stretch, remote, other, at),
                 reading.settled and piece.state == "settled", piece.utc_err_ns, edge)


def _until(stretch: Stretch, remote: bool, other: HostClock, at: int) -> int:
    """The host's tick up to which the stretch and the neighbour's map both go on without a break."""
    pieces = other.pieces
    end = at
    while end + 1 < len(pieces) and pieces[end + 1].err_ns is not None and pieces[end + 1].epoch == pieces[at].epoch:
        end += 1
    _, stop = stretch.span(remote)
    first, past = stretch.span(not remote)
    there = pieces[end].valid_to
    return stop if there >= past else min(stretch.read(not remote, max(there, first)).tick, stop)


def next_start(state: FleetState, host: HostClock, avoid: Collection[Key], from_tick: int | None = -1) -> int | None:
    """The first tick after the cursor (``from_tick`` None: of all) at which a link and a neighbour's map hold."""
    least = host.cursor if from_tick is not None else None
    found: list[int] = []
    for edge in host.edges:
        if edge.key in avoid:
            continue
        remote = edge.remote == host.name
        other = state.hosts[edge.other(host.name)]
        if other.group != host.group:
            continue
        for stretch in edge.stretches:
            if stretch.run(remote) != host.run or stretch.run(not remote) != other.run:
                continue
            found += _starts(stretch, remote, other, least)
    return min(found, default=None)


def _starts(stretch: Stretch, remote: bool, other: HostClock, least: int | None) -> list[int]:
    """The first tick of the host in the stretch, after ``least``, for which the neighbour has a bound."""
    first, stop = stretch.span(remote)
    there_first, there_stop = stretch.span(not remote)
    for piece in other.pieces:
        if piece.err_ns is None or piece.valid_to <= there_first or piece.valid_from >= there_stop:
            continue
        start = first if piece.valid_from <= there_first else stretch.read(not remote, piece.valid_from).tick + 2
        start = max(start, first)
        if least is not None and start <= least:
            end = stop if piece.valid_to >= there_stop else stretch.read(not remote, piece.valid_to).tick
            if end < least + SHORTEST_NS:
                continue
            start = least + 1
            if stretch.read(remote, start).tick < piece.valid_from:
                continue
        if start + SHORTEST_NS <= stop and holding(other.pieces, stretch.read(remote, start).tick) is not None:
            return [start]
    return []
