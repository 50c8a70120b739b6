"""`align`: every row gets its time in fleet time and a bound, once, when its clocks are decided.

Here, and only here, a batch waits: until the segments of its own clock and of its host's clock pass its last row.
Published rows are never re-timed. What a host promised in its heartbeats becomes its watermark, stamped on everything
that is published; what it counted there becomes `coverage`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, Header, StreamKey
from fleetscope.contracts.topics import FLEET_SEGMENTS, RAW_TOPICS
from fleetscope.incarnations import base_of
from fleetscope.ledger import Ledger
from fleetscope.snapshots import dump, load
from fleetscope.step import Output, TopicPartition
from processors.align import clock_events, quiet
from processors.align.host import Host
from processors.align.mapping import Route, aligned
from processors.align.measured import RAW_CLOCK, Measuring
from processors.align.progress import END, Beat, LaneKey
from processors.align.publish import (
    coverage_output,
    coverage_row,
    marked,
    release_output,
    restart_output,
    segment_output,
    unplaced_output,
    watermarks,
)
from processors.clocks.emission import segments_by_host
from processors.clocks.fixed import ONE_Q32
from processors.clocks.pair import PairRules
from processors.clocks.segments import Segment, SegmentMap, beyond

VERSION: Final = 2
NS: Final = 1_000_000_000
KEEP_NS: Final = 60 * NS
FOREIGN_NS: Final = 300 * NS
"""How much of the map of a host is kept before its first row came."""
GATHER_ROWS: Final = 32_768
"""Rows of a host that go out in one message, at most where they came in smaller ones."""
MARGIN_NS: Final = 1_000
"""Watermarks stay this far behind promises: pieces of a map meet with a rounding of some ns."""


@dataclass(slots=True)
class AlignState:
    """State of one partition. ``fleet`` has the maps of all hosts, since their topic is read whole."""

    hosts: dict[str, Host] = field(default_factory=dict)
    fleet: dict[str, SegmentMap] = field(default_factory=dict)
    fleet_ledger: Ledger = field(default_factory=Ledger)
    next_offset: dict[TopicPartition, int] = field(default_factory=dict)

    def host(self, name: str) -> Host:
        """The host called ``name``."""
        if name not in self.hosts:
            self.hosts[name] = Host(name, self.fleet.setdefault(name, SegmentMap()))
        return self.hosts[name]


@dataclass(frozen=True, slots=True)
class AlignStep:
    """``patience_s``: a batch that a heartbeat counted and that has not come this long after it is lost.

    ``lateness_s``: rows further behind the watermark are marked late. ``no_reference_s``: rows of a host that has no
    fleet time at all this long after they were sent become dead letters.
    """

    rules: PairRules = PairRules()
    patience_s: float = 10.0
    lateness_s: float = 60.0
    no_reference_s: float = 600.0

    in_time_order: bool = True
    name: str = "align"
    inputs: tuple[str, ...] = tuple(t.name for t in RAW_TOPICS.values())
    broadcast: tuple[str, ...] = (FLEET_SEGMENTS.name,)

    def start(self) -> AlignState:
        """Nothing known."""
        return AlignState()

    def on_batch(self, state: AlignState, batch: Batch) -> tuple[AlignState, list[Output]]:
        """Take a raw batch, or segments of the fleet clock step."""
        name = batch.header.host
        if batch.header.contract == "segments":
            return self._take_fleet(state, batch)
        host = state.host(name)
        if batch.header.contract == "silences":
            if not _read_before(state, batch):
                quiet.take(host, batch, self._measuring())
        elif _read_before(state, batch):
            self._read_again(host, batch)
        else:
            self._take(host, batch)
            if not self._moves(host, batch):  # it waits, for its clocks or for more rows to go out with
                return state, list(self._maps(host)) if batch.header.contract == "clock_samples" else []
        return state, list(self._settle(host))

    def gathered(self, state: AlignState) -> list[Output]:
        """What waits only for more rows to go out with. A runner asks when no input is at hand."""
        return [output for host in state.hosts.values() if host.gathering for output in self._settle(host)]

    def on_rejected(self, state: AlignState, header: Header) -> AlignState:
        """A message with a readable header became a dead letter: its rows are not lost without a trace."""
        host = state.host(header.host)
        host.progress.tally(host.lives.enter(header).stream).refused(header.sequence, header.rows)
        return state

    def on_end(self, state: AlignState) -> list[Output]:
        """Decide what is left; rows without any fleet time become dead letters."""
        outputs: list[Output] = []
        for host in state.hosts.values():
            self._measuring().finish(host)
            if host.fleet.segments and host.fleet.through != END:
                host.fleet.extend([beyond(host.fleet.segments[-1])])
            outputs.extend(self._settle(host, final=True))
            for key, queue in host.waiting.items():
                outputs.extend(unplaced_output(host, key, batch, "no fleet time") for batch in queue)
                queue.clear()
            host.progress.watermark = END
            outputs.extend(watermarks(host, END))
        return outputs

    def held(self, state: AlignState) -> Mapping[TopicPartition, int]:
        """Where the waiting batches stand."""
        lowest: dict[TopicPartition, int] = {}
        for host in state.hosts.values():
            origins = [b.origin for queue in host.waiting.values() for b in queue if b.origin is not None]
            for origin in (*origins, *host.reread):
                at = TopicPartition(origin.topic, origin.partition)
                lowest[at] = min(origin.offset, lowest.get(at, origin.offset))
        return lowest

    def starved(self, state: AlignState) -> bool:
        """True when what waits first waits for the fleet clock step, not for this partition's own input."""
        for host in state.hosts.values():
            for key, queue in host.waiting.items():
                if not queue or not len(queue[0]):
                    continue
                clock = host.clocks.get(key.clock)
                last = int(queue[0].header.max_time or 0)
                through = END if key.clock == RAW_CLOCK else clock.map.through if clock else None
                if through is not None and last < through:
                    return True
        return False

    def snapshot(self, state: AlignState) -> bytes:
        """Without waiting rows; fleet segments are not in it, they are read again from their topic."""
        return dump(self.name, VERSION, {
            "hosts": {n: h.plain() for n, h in state.hosts.items()},
            "next": [[*at, offset] for at, offset in sorted(state.next_offset.items())]})

    def restore(self, data: bytes) -> AlignState:
        """From ``snapshot``."""
        plain = load(data, self.name, VERSION)
        state = AlignState(next_offset={TopicPartition(t, p): o for t, p, o in plain["next"]})
        for name, host in plain["hosts"].items():
            state.hosts[name] = Host.of_plain(host, state.fleet.setdefault(name, SegmentMap()))
        return state

    # taking

    def _take_fleet(self, state: AlignState, batch: Batch) -> tuple[AlignState, list[Output]]:
        header = batch.header
        total = header.rows if header.row0 + len(batch) <= header.rows else None
        fresh = state.fleet_ledger.add(header.stream, header.sequence, header.row0, len(batch), total)
        outputs: list[Output] = []
        for start, stop in fresh:
            for name, segments in segments_by_host(batch.rows.slice(start - header.row0, stop - start)):
                fleet = state.fleet.setdefault(name, SegmentMap())
                fleet.extend(segments)
                if name in state.hosts:
                    outputs += self._settle(state.hosts[name])
                else:
                    fleet.forget_before(fleet.segments[-1].valid_from - FOREIGN_NS)
        return state, outputs

    def _take(self, host: Host, batch: Batch) -> None:
        batch = host.named(batch)
        header = batch.header
        total = header.rows if header.row0 + len(batch) <= header.rows else None
        fresh = host.ledger.add(header.stream, header.sequence, header.row0, len(batch), total)
        tally = host.progress.tally(header.stream)
        new_rows = sum(stop - start for start, stop in fresh)
        tally.redelivered += len(batch) - new_rows
        if new_rows:
            tally.received(header.sequence, new_rows)
        for start, stop in fresh:
            part = batch if stop - start == len(batch) else batch.slice(start - header.row0, stop - start)
            if header.contract == "clock_samples":
                self._measuring().take(host, part)
            else:
                self._wait(host, part)
                if header.contract == "inventory":
                    self._measuring().learn(host, part)
                if header.contract == "heartbeats":
                    host.beats.append(part)
        if header.contract == "heartbeats" and header.sequence not in host.ledger.partial(header.stream):
            host.progress.take(host.beats)  # all kinds a producer speaks of become known together
            host.beats.clear()

    def _wait(self, host: Host, batch: Batch) -> None:
        header = batch.header
        key = _lane(batch)
        if header.contract != "heartbeats" and not host.progress.is_former(header.producer, header.epoch):
            host.progress.lane(key, header.epoch)  # no watermark before it was promised
        host.waiting.setdefault(key, deque()).append(batch)

    def _read_again(self, host: Host, batch: Batch) -> None:
        """After a restart: rows that were waiting then wait again; the rest was dealt with."""
        batch = host.named(batch)
        if batch.origin is None:
            return
        low, high = batch.header.row0, batch.header.row0 + len(batch)
        left: list[tuple[int, int]] = []
        for start, stop in host.reread.pop(batch.origin, []):
            a, b = max(start, low), min(stop, high)
            if a < b:
                self._wait(host, batch.slice(a - low, b - a))
            left.extend(r for r in ((start, min(stop, low)), (max(start, high), stop)) if r[0] < r[1])
        if left:
            host.reread[batch.origin] = left

    @property
    def _patience_ns(self) -> int:
        return round(self.patience_s * NS)

    def _measuring(self) -> Measuring:
        return Measuring(self.rules, self.patience_s)

    # settling

    def _settle(self, host: Host, *, final: bool = False) -> Iterator[Output]:
        """Everything that follows from what is known now."""
        yield from self._maps(host)
        outputs = list(self._release(host, final))
        if rows := list(self._account(host, final)):
            outputs.append(coverage_output(host, rows))
        before = host.progress.watermark
        self._raise_watermark(host, final)
        if host.progress.watermark is not None and host.progress.watermark != before:
            self._forget(host)
            outputs = marked(host, outputs, host.progress.watermark)
        yield from outputs
        yield from self._restarts(host)
        yield from quiet.incidents(host)
        yield from clock_events.incidents(host)

    def _restarts(self, host: Host) -> Iterator[Output]:
        """Producers that numbered anew in an epoch, once fleet time has come so far."""
        route, restarts = Route(None, host.fleet), host.progress.restarts
        while restarts and route.decided(restarts[0].first):
            again = restarts.pop(0)
            yield restart_output(host, again, route.fleet_time(again.last), route.fleet_time(again.first))

    def _maps(self, host: Host) -> Iterator[Output]:
        """What is decided of the host's clocks."""
        self._measuring().advance(host)
        for name, ready in self._measuring().decided(host):
            clock_events.note(host, name, ready)
            yield segment_output(host, name, ready)

    def _moves(self, host: Host, batch: Batch) -> bool:
        """Whether to settle now. Rows alone decide nothing: they go out together, with the next heartbeat."""
        contract = batch.header.contract
        if contract == "heartbeats":
            return True
        host.gathering += max(len(batch), 1)
        if contract == "clock_samples":
            return any(lane.beats for key, lane in host.progress.lanes.items()
                       if key.contract == contract and key.producer == batch.header.producer)
        return host.gathering >= GATHER_ROWS and self._ready(host, batch)

    def _ready(self, host: Host, batch: Batch) -> bool:
        """True where the first waiting batch of the same lane could go out, or must."""
        queue = host.waiting.get(_lane(batch))
        if not queue:
            return False
        route = self._route(host, queue[0], final=False)
        if route is None:
            return self._hopeless(host, queue[0])
        return not len(queue[0]) or route.decided(int(queue[0].header.max_time or 0))

    def _release(self, host: Host, final: bool) -> Iterator[Output]:
        host.gathering = 0
        ready: dict[str, list[tuple[Batch, Route]]] = {}
        for key, queue in host.waiting.items():
            while queue:
                batch = queue[0]
                route = self._route(host, batch, final)
                if route is None:
                    if not self._hopeless(host, batch):
                        break
                    queue.popleft()
                    yield unplaced_output(host, key, batch, "no fleet time")
                    continue
                if len(batch) and not route.decided(int(batch.header.max_time or 0)):
                    break
                queue.popleft()
                ready.setdefault(key.contract, []).append((batch, route))
        for pieces in ready.values():
            for group in _together(pieces):
                yield self._released(host, group)

    def _released(self, host: Host, pieces: list[tuple[Batch, Route]]) -> Output:
        rows = aligned(pieces)
        watermark = host.progress.watermark
        late_before = None
        if watermark is not None:
            contract = CONTRACTS[f"aligned_{pieces[0][0].header.contract}"]
            late = rows.column(str(contract.time_column)).to_numpy() < watermark
            if late.any():
                _count_late(host, [batch for batch, _ in pieces], late)
            late_before = None if watermark == END else watermark - round(self.lateness_s * NS)
        return release_output(host, [batch for batch, _ in pieces], rows, late_before)

    def _route(self, host: Host, batch: Batch, final: bool) -> Route | None:
        """How to map the batch; None while it is not known."""
        if not host.fleet.segments:
            return None
        clock, flushed = batch.header.clock, self._sent(host, batch)
        if clock == RAW_CLOCK:
            return Route(None, host.fleet, flushed)
        if clock in host.clocks and (host.clocks[clock].map.segments or not final):
            return Route(host.clocks[clock].map, host.fleet, flushed)
        if not (flushed is None or final or self._unmeasured(host, flushed)):
            return Route(SegmentMap(), host.fleet, flushed)
        last = batch.header.max_time or 0
        anchor = flushed if flushed is not None else host.fleet.segments[-1].src0
        never = Segment(0, -END, END, last, anchor, ONE_Q32, None, None, "gap", anchor)
        return Route(SegmentMap([never]), host.fleet, flushed)

    def _sent(self, host: Host, batch: Batch) -> int | None:
        """When the batch was sent, on the host's clock; None: not said, or far after the last heartbeat."""
        flushed = batch.header.flushed_ticks
        newest = host.progress.latest.get(base_of(batch.header.producer))
        if flushed is None or newest is None:
            return flushed
        return flushed if flushed - newest <= self.no_reference_s * NS else None

    def _unmeasured(self, host: Host, at: int) -> bool:
        """True when a clock without a sample by host time ``at`` will not get one in time."""
        return _finite(host.samples_through) >= at + round(self.rules.limit_s * NS) or self._long_ago(host, at)

    def _hopeless(self, host: Host, batch: Batch) -> bool:
        return self._long_ago(host, batch.header.flushed_ticks or 0)

    def _long_ago(self, host: Host, at: int) -> bool:
        return max(host.progress.latest.values(), default=0) - at >= self.no_reference_s * NS

    def _account(self, host: Host, final: bool) -> Iterator[dict[str, object]]:
        """Coverage rows of the beats whose batches have come or are given up; in the end all of them are."""
        for stream, tally in host.progress.tallies.items():
            while tally.beats:
                beat = tally.beats[0]
                if not (Route(None, host.fleet).decided(beat.time)
                        and (final or host.progress.arrived(stream, beat, host.ledger, self._patience_ns))):
                    break
                tally.beats.pop(0)
                at = Route(None, host.fleet).fleet_time(beat.time)
                yield coverage_row(host, stream, tally, beat, at)

    def _raise_watermark(self, host: Host, final: bool) -> None:
        progress = host.progress
        if host.reread:  # rows that waited before a restart are not here yet
            return
        if any(queue and key.contract != "heartbeats" and key not in progress.lanes
               for key, queue in host.waiting.items()):  # rows of a producer's former epoch
            return
        marks: list[int | None] = []
        for key, lane in progress.lanes.items():
            if key.contract == "clock_samples":
                continue
            while lane.beats and self._kept(host, key, lane.beats[0], final):
                beat = lane.beats.pop(0)
                mark = END if beat.closed else self._mark(host, key.clock, beat)
                lane.watermark = mark if lane.watermark is None else max(mark, lane.watermark)
            marks.append(lane.watermark)
        known = [m for m in marks if m is not None]
        if marks and len(known) == len(marks):
            progress.raise_to(min(known))

    def _kept(self, host: Host, key: LaneKey, beat: Beat, final: bool) -> bool:
        """True when every batch the beat counts was published, and its promise can be told in fleet time."""
        stream = _stream(key, beat)
        if not (final or host.progress.arrived(stream, beat, host.ledger, self._patience_ns)):
            return False
        if any((b.header.epoch, b.header.sequence) < (beat.epoch, beat.batches) for b in host.waiting.get(key, ())):
            return False
        if host.progress.tally(stream).beats and host.progress.tally(stream).beats[0].time <= beat.time:
            return False
        if beat.closed:
            return True
        if _unknown(host, key.clock) and not self._unmeasured(host, beat.time):
            return False
        route, at = _mark_route(host, key.clock, beat)
        return route.decided(at)

    def _mark(self, host: Host, clock: str, beat: Beat) -> int:
        """Fleet time of the promise. Rows of a clock that was never measured are placed by when they were sent."""
        route, at = _mark_route(host, clock, beat)
        margin = round(self.rules.limit_s * NS) if _unknown(host, clock) else MARGIN_NS
        return route.fleet_time(at) - margin

    def _forget(self, host: Host) -> None:
        """Segments older than the watermark allows are not needed: rows behind them take the oldest one left."""
        watermark = host.progress.watermark
        if watermark is None or watermark == END:
            return
        keep = next((s for s in host.fleet.segments if s.at(s.valid_to) > watermark - KEEP_NS), None)
        if keep is None:
            return
        host.fleet.forget_before(keep.valid_from)
        for clock in host.clocks.values():
            clock.map.forget_target_before(keep.valid_from)


def _together(pieces: list[tuple[Batch, Route]]) -> Iterator[list[tuple[Batch, Route]]]:
    """Neighbours up to GATHER_ROWS rows; a batch that has more goes alone."""
    group: list[tuple[Batch, Route]] = []
    rows = 0
    for piece in pieces:
        if group and rows + len(piece[0]) > GATHER_ROWS:
            yield group
            group, rows = [], 0
        group.append(piece)
        rows += len(piece[0])
    if group:
        yield group


def _count_late(host: Host, batches: list[Batch], late: NDArray[np.bool_]) -> None:
    at = 0
    for batch in batches:
        host.progress.tally(batch.header.stream).late += int(np.count_nonzero(late[at:at + len(batch)]))
        at += len(batch)


def _lane(batch: Batch) -> LaneKey:
    return LaneKey(batch.header.producer, batch.header.contract, batch.header.clock)


def _finite(through: int | None) -> int:
    return -END if through is None else through


def _unknown(host: Host, clock: str) -> bool:
    return clock != RAW_CLOCK and clock not in host.clocks


def _mark_route(host: Host, clock: str, beat: Beat) -> tuple[Route, int]:
    """How to map a promise, and the tick to map."""
    if clock == RAW_CLOCK:
        return Route(None, host.fleet), beat.through
    known = host.clocks.get(clock)
    return (Route(None, host.fleet), beat.time) if known is None else (
        Route(known.map, host.fleet, beat.time), beat.through)


def _stream(key: LaneKey, beat: Beat) -> StreamKey:
    return StreamKey(key.producer, beat.epoch, key.contract)


def _read_before(state: AlignState, batch: Batch) -> bool:
    """True for a message at an offset that the state has counted already. A message may come in several pieces."""
    if batch.origin is None:
        return False
    at = TopicPartition(batch.origin.topic, batch.origin.partition)
    known = state.next_offset.get(at, 0)
    if batch.origin.offset < known:
        return True
    if batch.header.row0 + len(batch) >= batch.header.rows:
        state.next_offset[at] = batch.origin.offset + 1
    return False
