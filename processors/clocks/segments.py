"""Pieces of a map between clocks, and looking them up for whole arrays.

A clock that was reset, or stepped back, shows the same ticks twice. Consecutive pieces without such an overlap are a
*run*; which run a row belongs to follows from the time at which it was sent, since it was stamped before. Pieces count
ticks on where a counter of few bits wraps; what it shows is unwrapped by when the row was sent, less than a period
after it was stamped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Final, Literal, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fleetscope.contracts.batch import constant_symbol, record_batch
from fleetscope.contracts.derived import ALIGNMENTS, SEGMENTS
from processors.clocks.fixed import Ints, mul_q32, mul_q32_one

State = Literal["settled", "provisional", "gap"]
NO_BOUND: Final = -1
"""Stands for a missing err_ns or utc_err_ns in integer arrays."""
LINGER_NS: Final = 10_000_000_000
"""Producers send rows sooner than this after they were stamped."""
SLACK_NS: Final = 1_000_000
"""A row may be mapped this long after it was sent: the error of an extrapolated map."""
END_OF_TIME: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Segment:
    """dst = dst0 + (t − src0) · rate_q32 / 2^32 for source ticks in [valid_from, valid_to)."""

    epoch: int
    valid_from: int
    valid_to: int
    src0: int
    dst0: int
    rate_q32: int
    err_ns: int | None
    utc_err_ns: int | None
    state: State
    decided_at: int

    def at(self, t: int) -> int:
        """Target time of source tick ``t``."""
        return self.dst0 + mul_q32_one(t - self.src0, self.rate_q32)

    def inverse(self, target: int) -> int:
        """Source tick at which the target reads ``target``, rounded down."""
        return self.src0 + ((target - self.dst0) << 32) // self.rate_q32

    def plain(self) -> list[int | str | None]:
        """As JSON has it."""
        return [getattr(self, name) for name in _FIELDS]

    @classmethod
    def of_plain(cls, values: list[int | str | None]) -> Self:
        """From ``plain``."""
        return cls(*values)  # type: ignore[arg-type]


_FIELDS: Final = tuple(f.name for f in fields(Segment))


def beyond(last: Segment) -> Segment:
    """The gap after the last piece of a clock whose producer closed: everything is decided, nothing has a bound."""
    return Segment(last.epoch, last.valid_to, END_OF_TIME, last.src0, last.dst0, last.rate_q32, None, None, "gap",
                   last.decided_at)


def segment_rows(host: str, clock: str, target_host: str, target_clock: str, segments: list[Segment]) -> pa.RecordBatch:
    """Rows of the contract `segments`."""
    count = len(segments)

    def ints(name: str) -> pa.Array:
        return pa.array([getattr(s, name) for s in segments], pa.int64())

    return record_batch(SEGMENTS, {
        "host": constant_symbol(host, count), "clock": constant_symbol(clock, count),
        "target_host": constant_symbol(target_host, count), "target_clock": constant_symbol(target_clock, count),
        "epoch": ints("epoch"), "version": pa.array([0] * count, pa.int64()),
        "valid_from_ticks": ints("valid_from"), "valid_to_ticks": ints("valid_to"), "src0_ticks": ints("src0"),
        "dst0_ticks": ints("dst0"), "rate_q32": ints("rate_q32"), "err_ns": ints("err_ns"),
        "utc_err_ns": ints("utc_err_ns"),
        "state": pa.array([s.state for s in segments], pa.string()).dictionary_encode(),
        "settled_at_ticks": ints("decided_at"),
    }, count)


def segments_of(rows: pa.RecordBatch) -> list[Segment]:
    """Back from rows of the contract `segments`."""
    names = {"valid_from": "valid_from_ticks", "valid_to": "valid_to_ticks", "src0": "src0_ticks",
             "dst0": "dst0_ticks", "decided_at": "settled_at_ticks"}
    columns = [rows.column(names.get(f.name, f.name)).to_pylist() for f in fields(Segment)]
    return [Segment(*values) for values in zip(*columns, strict=True)]


@dataclass(frozen=True, slots=True)
class Mapped:
    """Target times of source ticks; ``err_ns`` and ``utc_err_ns`` are NO_BOUND where there is none.

    ``state`` indexes ALIGNMENTS. ``end`` is the target time of a second array, mapped by the same pieces as the first,
    so that a length is source ticks times one rate.
    """

    time: Ints
    end: Ints
    err_ns: Ints
    utc_err_ns: Ints
    state: NDArray[np.int8]


def _mapped_by(segment: Segment, times: Ints, ends: Ints) -> Mapped:
    count = len(times)
    rate, origin = np.int64(segment.rate_q32), np.int64(segment.src0)
    return Mapped(
        segment.dst0 + mul_q32(times - origin, rate), segment.dst0 + mul_q32(ends - origin, rate),
        np.full(count, NO_BOUND if segment.err_ns is None else segment.err_ns, np.int64),
        np.full(count, NO_BOUND if segment.utc_err_ns is None else segment.utc_err_ns, np.int64),
        np.full(count, ALIGNMENTS.index(segment.state), np.int8))


@dataclass(frozen=True, slots=True)
class _Run:
    """``table``: (8, n) int64 of valid_from, valid_to, src0, dst0, rate, err, utc_err, state, ascending in valid_from.

    ``since``: target time from which rows may belong to the run even where it has no piece for them.
    """

    table: Ints
    since: int
    pieces: list[Segment]

    @classmethod
    def of(cls, segments: list[Segment], since: int) -> Self:
        rows = [(s.valid_from, s.valid_to, s.src0, s.dst0, s.rate_q32, NO_BOUND if s.err_ns is None else s.err_ns,
                 NO_BOUND if s.utc_err_ns is None else s.utc_err_ns, ALIGNMENTS.index(s.state))
                for s in sorted(segments, key=lambda s: s.valid_from)]
        return cls(np.array(rows, np.int64).T.copy(), since, segments)

    def unwrapped(self, times: Ints, ends: Ints, sent: int, bits: int) -> tuple[Ints, Ints]:
        """Ticks that count on, of what the counter showed: the newest ``ends`` that can be by target time ``sent``."""
        holds = next((p for p in reversed(self.pieces) if p.at(p.valid_from) <= sent), self.pieces[0])
        newest = holds.inverse(sent + SLACK_NS)
        later = newest - ((newest - ends) & np.int64((1 << bits) - 1))
        return times + (later - ends), later

    def apply(self, times: Ints, ends: Ints) -> tuple[Mapped, NDArray[np.bool_]]:
        """The map by this run alone, and which of ``times`` stand in one of its pieces."""
        starts, stops, src0, dst0, rate, err, utc, state = self.table
        index = np.searchsorted(starts, times, side="right") - 1
        inside = index >= 0
        np.maximum(index, 0, out=index)
        inside &= times < stops[index]
        base, slope, origin = dst0[index], rate[index], src0[index]
        if not inside.all():  # absurd stamps must not overflow
            reach = (END_OF_TIME >> 1) // ((slope >> np.int64(32)) + 1)
            shifted = np.clip(times, origin - reach, origin + reach)
            times, ends = shifted, ends - times + shifted
        mapped = Mapped(
            base + mul_q32(times - origin, slope), base + mul_q32(ends - origin, slope),
            np.where(inside, err[index], NO_BOUND), np.where(inside, utc[index], NO_BOUND),
            np.where(inside, state[index], len(ALIGNMENTS) - 1).astype(np.int8))
        return mapped, inside


class SegmentMap:
    """Consecutive segments of one clock, newest last; old ones are forgotten on demand."""

    def __init__(self, segments: Iterable[Segment] = (), bits: int = 64) -> None:
        self.segments: list[Segment] = []
        self.bits = bits
        self._runs: list[_Run] | None = None
        self.extend(segments)

    def count_bits(self, bits: int) -> None:
        """The source is a counter of so many bits."""
        self.bits = bits
        self._runs = None

    def extend(self, segments: Iterable[Segment]) -> None:
        """Append newer segments."""
        self.segments.extend(segments)
        self._runs = None

    @property
    def through(self) -> int | None:
        """Source ticks below this are decided; None: nothing is."""
        return self.segments[-1].valid_to if self.segments else None

    def time_of(self, t: int, sent: int | None = None) -> int:
        """`apply` for one tick."""
        if self.is_one_run() and (segment := self.find(t)) is not None:
            return segment.at(t)
        one = np.array([t], np.int64)
        return int(self.apply(one, one, sent).time[0])

    def is_one_run(self) -> bool:
        """True where `apply` does not ask when a row was sent."""
        return self.bits == 64 and len(self._tables()) <= 1

    def forget_before(self, t: int) -> None:
        """Drop segments that end at or before source tick ``t``, but for the last one."""
        keep = next((i for i, s in enumerate(self.segments) if s.valid_to > t), len(self.segments) - 1)
        if keep > 0:
            del self.segments[:keep]
            self._runs = None

    def forget_target_before(self, target: int) -> None:
        """Drop the oldest segments that end at or before the target time, but for the last one."""
        keep = next((i for i, s in enumerate(self.segments) if s.at(s.valid_to) > target), len(self.segments) - 1)
        if keep > 0:
            del self.segments[:keep]
            self._runs = None

    def reopen(self) -> None:
        """Take back the gap without an end that was put after the last piece of a closed clock."""
        if len(self.segments) > 1 and self.segments[-1].valid_to >= END_OF_TIME:
            del self.segments[-1]
            self._runs = None

    def decided(self, t: int, sent: int | None = None) -> bool:
        """True when nothing more can change where source tick ``t``, sent at target time ``sent``, belongs.

        With ``sent`` the map must have come so far: only then it is known that the source was not reset before. What
        follows the gap that ends an epoch is told by the next one.
        """
        if not self.segments:
            return False
        last = self.segments[-1]
        if sent is not None:
            ends_an_epoch = last.err_ns is None and last.valid_to < END_OF_TIME
            return last.at(last.valid_from if ends_an_epoch else last.valid_to) > sent
        return self.bits < 64 or t < last.valid_to or self.find(t) is not None

    def find(self, t: int) -> Segment | None:
        """The newest segment that holds ``t``, else the nearest one's extension is not given: None."""
        for segment in reversed(self.segments):
            if segment.valid_from <= t < segment.valid_to:
                return segment
        return None

    def apply(self, times: Ints, ends: Ints, sent: int | None = None) -> Mapped:
        """Map ``times`` and, by the same pieces, ``ends`` (both (n,) int64 source ticks), sent at target time ``sent``.

        Ticks outside all segments take the nearest one, without a bound and with state gap. Of several runs a row
        takes the newest that it can have been stamped in; where an older one is possible too it has no bound. Nor have
        rows of a counter that wraps, if it is not known when they were sent. Raises ValueError when there is no
        segment.
        """
        if not self.segments:
            raise ValueError("no segment to map with")
        runs = self._tables()
        if self.bits < 64:
            return self._apply_wrapping(runs, times, ends, sent)
        if len(runs) == 1:
            if len(times) and (only := self._only(int(times.min()), int(times.max()))) is not None:
                return _mapped_by(only, times, ends)
            return runs[0].apply(times, ends)[0]
        return _by_newest(runs, times, ends, sent)

    def _apply_wrapping(self, runs: list[_Run], times: Ints, ends: Ints, sent: int | None) -> Mapped:
        mapped = _by_newest(runs, times, ends, sent, self.bits)
        unknown = (times < 0) | (times >> np.int64(self.bits) != 0) | (sent is None)
        mapped.err_ns[unknown] = mapped.utc_err_ns[unknown] = NO_BOUND
        mapped.state[unknown] = len(ALIGNMENTS) - 1
        return mapped

    def _only(self, first: int, last: int) -> Segment | None:
        """The segment that alone holds [first, last]: the newest batches mostly lie in one."""
        for segment in reversed(self.segments):
            if segment.valid_from <= first:
                return segment if last < segment.valid_to else None
        return None

    def _tables(self) -> list[_Run]:
        if self._runs is None:
            cuts = [0, *(i for i, (a, b) in enumerate(pairwise(self.segments), 1)
                         if b.epoch != a.epoch and (b.valid_from < a.valid_to or self.bits < 64)), len(self.segments)]
            parts = [self.segments[a:b] for a, b in pairwise(cuts)]
            since = [-END_OF_TIME, *(_bounded_until(part) for part in parts[:-1])]
            self._runs = [_Run.of(part, at) for part, at in zip(parts, since, strict=True)]
        return self._runs


def _bounded_until(run: list[Segment]) -> int:
    """Target time up to which the run is sure."""
    last = next((s for s in reversed(run) if s.err_ns is not None), None)
    return last.at(last.valid_to) if last else run[0].at(run[0].valid_from)


def _by_newest(runs: list[_Run], times: Ints, ends: Ints, sent: int | None, bits: int = 64) -> Mapped:
    latest = END_OF_TIME if sent is None else sent + SLACK_NS
    earliest = -END_OF_TIME if sent is None else sent - LINGER_NS

    def mapped_by(run: _Run) -> tuple[Mapped, NDArray[np.bool_]]:
        return run.apply(*((times, ends) if bits == 64 or sent is None else run.unwrapped(times, ends, sent, bits)))

    chosen, _ = mapped_by(runs[-1])
    found = np.zeros(len(times), np.bool_)
    unsure = np.zeros(len(times), np.bool_)
    for run in reversed(runs):
        mapped, inside = mapped_by(run)
        possible = (mapped.time <= latest) & (inside | (mapped.time >= run.since))
        unsure |= found & possible & inside & (mapped.time >= earliest)
        take = possible & ~found
        for name in ("time", "end", "err_ns", "utc_err_ns", "state"):
            np.copyto(getattr(chosen, name), getattr(mapped, name), where=take)
        found |= possible
    chosen.err_ns[unsure] = chosen.utc_err_ns[unsure] = NO_BOUND
    chosen.state[unsure] = len(ALIGNMENTS) - 1
    return chosen
