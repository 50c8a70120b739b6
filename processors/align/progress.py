"""How far a host has come: promises of its producers, the watermark that follows, and what arrived of what was sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fleetscope.contracts.batch import Batch, StreamKey
from fleetscope.incarnations import base_of, life_of
from fleetscope.ledger import Ledger

END: Final = 1 << 62
"""Watermark of a stream whose producer closed."""


class LaneKey(NamedTuple):
    """What a promise is about: rows of one kind on one clock by one producer."""

    producer: str
    contract: str
    clock: str


@dataclass(frozen=True, slots=True)
class Beat:
    """One row of a heartbeat: by then ``batches`` were sent, and later rows are not earlier than ``through``."""

    epoch: int
    time: int
    batches: int
    rows: int
    dropped: int
    through: int
    closed: bool

    def plain(self) -> list[int]:
        """As JSON has it."""
        return [getattr(self, name) for name in Beat.__dataclass_fields__]


@dataclass(slots=True)
class Lane:
    """Beats not yet kept, oldest first, and the watermark of the last kept one (ns of fleet time, None: none)."""

    beats: list[Beat] = field(default_factory=list)
    watermark: int | None = None
    epoch: int = 0
    """Epoch of its producer."""


@dataclass(slots=True)
class Tally:
    """Rows of one stream: by sequence until a beat accounts for them, then by that beat."""

    counted: Beat | None = None
    counted_ns: int | None = None
    beats: list[Beat] = field(default_factory=list)
    rows_by_sequence: dict[int, int] = field(default_factory=dict)
    rejected: dict[int, int] = field(default_factory=dict)
    """Rows of batches that came and could not be decoded: not lost, they are dead letters."""
    redelivered: int = 0
    late: int = 0
    recovered: int = 0
    """Rows of sequences that an earlier beat had counted as lost."""

    def plain(self) -> list[Any]:
        """As JSON has it."""
        return [self.counted.plain() if self.counted else None, self.counted_ns, [b.plain() for b in self.beats],
                sorted(self.rows_by_sequence.items()), sorted(self.rejected.items()), self.redelivered, self.late,
                self.recovered]

    @classmethod
    def of_plain(cls, data: list[Any]) -> Tally:
        """From ``plain``."""
        counted, at, beats, rows, rejected, redelivered, late, recovered = data
        return cls(Beat(*counted) if counted else None, at, [Beat(*b) for b in beats], dict(rows),
                   dict(rejected), redelivered, late, recovered)

    def received(self, sequence: int, rows: int) -> None:
        """``rows`` new rows of a sequence came."""
        if self._is_counted(sequence):
            self.recovered += rows
        else:
            self.rows_by_sequence[sequence] = self.rows_by_sequence.get(sequence, 0) + rows

    def refused(self, sequence: int, rows: int) -> None:
        """A batch came and could not be decoded. One that was accounted for already is read again after a restart."""
        if not self._is_counted(sequence):
            self.rejected[sequence] = rows

    def _is_counted(self, sequence: int) -> bool:
        return self.counted is not None and sequence < self.counted.batches

    def account(self, beat: Beat) -> tuple[int, int, int, int]:
        """(produced, received, dropped, lost) rows since the last beat accounted for; ``beat`` becomes that one."""
        before = self.counted or Beat(beat.epoch, beat.time, 0, 0, 0, 0, False)
        came = _pop_below(self.rows_by_sequence, beat.batches) + self.recovered
        rejected = _pop_below(self.rejected, beat.batches)
        self.recovered = 0
        self.counted = beat
        produced = beat.rows - before.rows
        return produced, came, beat.dropped - before.dropped, produced - came - rejected


def _number(sequence: int | None) -> int:
    return -1 if sequence is None else sequence


def _pop_below(counts: dict[int, int], sequence: int) -> int:
    taken = [s for s in counts if s < sequence]
    return sum(counts.pop(s) for s in taken)


@dataclass(frozen=True, slots=True)
class Restart:
    """A producer numbered from 0 again without a new epoch, between two beats (ticks of the reference clock)."""

    producer: str
    epoch: int
    last: int
    first: int

    def plain(self) -> list[Any]:
        """As JSON has it."""
        return [self.producer, self.epoch, self.last, self.first]


@dataclass(slots=True)
class Progress:
    """All lanes and tallies of one host."""

    lanes: dict[LaneKey, Lane] = field(default_factory=dict)
    tallies: dict[StreamKey, Tally] = field(default_factory=dict)
    epochs: dict[str, list[int]] = field(default_factory=dict)
    """Newest epoch by producer, and which of its processes: see `fleetscope.incarnations`."""
    latest: dict[str, int] = field(default_factory=dict)
    """Newest beat's time by producer, all its processes together."""
    restarts: list[Restart] = field(default_factory=list)
    """Processes that began to number anew in the epoch of the one before, and are not reported yet."""
    watermark: int | None = None
    alive: int | None = None
    """Highest watermark before the host ended: where it goes on if a producer begins again."""

    def take(self, pieces: Sequence[Batch]) -> None:
        """Enter every row of a heartbeat, which may have come in pieces."""
        named: set[tuple[str, str]] = set()
        closed = True
        for piece in pieces:
            columns = piece.rows.to_pydict()
            for row in range(len(piece)):
                made = Beat(piece.header.epoch, columns["time_ticks"][row], columns["batches_total"][row],
                            columns["rows_total"][row], columns["dropped_rows_total"][row],
                            columns["through_ticks"][row], columns["closed"][row])
                self.beat(piece.header.producer, columns["contract"][row], columns["clock"][row], made)
                named.add((columns["contract"][row], columns["clock"][row]))
                closed = closed and made.closed
        if named and closed:
            self._close(pieces[0].header.producer, pieces[0].header.epoch, named)

    def beat(self, producer: str, contract: str, clock: str, beat: Beat) -> None:
        """Enter one row of a heartbeat; a new epoch of the producer retires the lanes of the old one."""
        if self.is_former(producer, beat.epoch):
            return
        base, newest = base_of(producer), [beat.epoch, life_of(producer)]
        if newest != self.epochs.get(base):
            self._begin(base, newest, producer, beat)
        self.lane(LaneKey(producer, contract, clock), beat.epoch).beats.append(beat)
        tally = self.tally(StreamKey(producer, beat.epoch, contract))
        before = tally.beats[-1] if tally.beats else tally.counted
        if before is None or before.time < beat.time:  # a kind has a row for each clock, with the same counts
            tally.beats.append(beat)
        self.latest[base] = max(beat.time, self.latest.get(base, beat.time))

    def passes(self, time: int) -> None:
        """The host's clock shows ``time`` by now, though it says nothing."""
        for base, latest in self.latest.items():
            self.latest[base] = max(latest, time)

    def raise_to(self, watermark: int) -> None:
        """The host has come so far; it never falls back but from its end, when a producer begins again."""
        self.watermark = watermark if self.watermark is None else max(self.watermark, watermark)
        if self.watermark < END:
            self.alive = self.watermark

    def is_former(self, producer: str, epoch: int) -> bool:
        """Whether a later epoch or process of the producer has told of itself."""
        return [epoch, life_of(producer)] < self.epochs.get(base_of(producer), [])

    def _begin(self, base: str, newest: list[int], producer: str, beat: Beat) -> None:
        if newest[1] > 1 and base in self.latest:
            self.restarts.append(Restart(producer, beat.epoch, min(self.latest[base], beat.time), beat.time))
        self.epochs[base] = newest
        if self.watermark == END and not beat.closed:
            self.watermark = self.alive
        if beat.time < self.latest.get(base, beat.time):  # the host's clock began again
            self.latest[base] = beat.time
        for key in [k for k, lane in self.lanes.items()
                    if base_of(k.producer) == base and [lane.epoch, life_of(k.producer)] < newest]:
            del self.lanes[key]

    def _close(self, producer: str, epoch: int, named: set[tuple[str, str]]) -> None:
        """The producer ends: lanes its last heartbeat does not name must not hold the host's watermark for ever."""
        for key, lane in self.lanes.items():
            if key.producer == producer and lane.epoch <= epoch and (key.contract, key.clock) not in named:
                lane.beats.clear()
                lane.watermark = END

    def lane(self, key: LaneKey, epoch: int) -> Lane:
        """The lane of ``key``; what an earlier epoch promised does not hold for this one."""
        lane = self.lanes.get(key)
        if lane is None or lane.epoch < epoch:
            lane = self.lanes[key] = Lane(epoch=epoch)
        return lane

    def tally(self, stream: StreamKey) -> Tally:
        """The tally of a stream."""
        return self.tallies.setdefault(stream, Tally())

    def arrived(self, stream: StreamKey, beat: Beat, ledger: Ledger, patience_ns: int) -> bool:
        """True when what the beat counts has come, or is given up: later batches came, or later beats for long."""
        tally, last = self.tally(stream), beat.batches - 1
        if tally.counted is not None and tally.counted.batches > last:
            return True
        highest = max(_number(ledger.max_sequence(stream)), max(tally.rejected, default=-1))
        if highest > last or (highest == last and last not in ledger.partial(stream)):
            return True
        latest = self.latest[base_of(stream.producer)]
        return latest - beat.time >= patience_ns or (
            latest < beat.time and self.is_former(stream.producer, stream.epoch))  # of before the host began again

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "lanes": [[*k, [b.plain() for b in lane.beats], lane.watermark, lane.epoch]
                      for k, lane in sorted(self.lanes.items())],
            "tallies": [[*k, t.plain()] for k, t in sorted(self.tallies.items())],
            "epochs": self.epochs, "latest": self.latest, "watermark": self.watermark,
            "restarts": [r.plain() for r in self.restarts], "alive": self.alive,
        }

    @classmethod
    def of_plain(cls, data: dict[str, Any]) -> Progress:
        """From ``plain``."""
        return cls(
            {LaneKey(p, c, k): Lane([Beat(*b) for b in beats], w, e) for p, c, k, beats, w, e in data["lanes"]},
            {StreamKey(p, e, c): Tally.of_plain(t) for p, e, c, t in data["tallies"]},
            data["epochs"], data["latest"], [Restart(*r) for r in data["restarts"]], data["watermark"], data["alive"])
