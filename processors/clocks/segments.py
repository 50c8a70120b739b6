"""Pieces of a map between clocks, and looking them up for whole arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import astuple, dataclass, fields
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
        return list(astuple(self))

    @classmethod
    def of_plain(cls, values: list[int | str | None]) -> Self:
        """From ``plain``."""
        return cls(*values)  # type: ignore[arg-type]


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


class SegmentMap:
    """Consecutive segments of one clock, newest last; old ones are forgotten on demand."""

    def __init__(self, segments: Iterable[Segment] = ()) -> None:
        self.segments: list[Segment] = []
        self._table: Ints | None = None
        self.extend(segments)

    def extend(self, segments: Iterable[Segment]) -> None:
        """Append newer segments."""
        self.segments.extend(segments)
        self._table = None

    @property
    def through(self) -> int | None:
        """Source ticks below this are decided; None: nothing is."""
        return self.segments[-1].valid_to if self.segments else None

    def forget_before(self, t: int) -> None:
        """Drop segments that end at or before source tick ``t``, but for the last one."""
        keep = next((i for i, s in enumerate(self.segments) if s.valid_to > t), len(self.segments) - 1)
        if keep > 0:
            del self.segments[:keep]
            self._table = None

    def find(self, t: int) -> Segment | None:
        """The newest segment that holds ``t``, else the nearest one's extension is not given: None."""
        for segment in reversed(self.segments):
            if segment.valid_from <= t < segment.valid_to:
                return segment
        return None

    def apply(self, times: Ints, ends: Ints) -> Mapped:
        """Map ``times`` and, by the same pieces, ``ends`` (both (n,) int64 source ticks).

        Ticks outside all segments take the nearest one, without a bound and with state gap. Raises ValueError when
        there is no segment.
        """
        if not self.segments:
            raise ValueError("no segment to map with")
        table = self._columns()
        starts, stops, src0, dst0, rate, err, utc, state = table
        index = np.searchsorted(starts, times, side="right") - 1
        inside = index >= 0
        np.maximum(index, 0, out=index)
        inside &= times < stops[index]
        base, slope, origin = dst0[index], rate[index], src0[index]
        return Mapped(
            base + mul_q32(times - origin, slope), base + mul_q32(ends - origin, slope),
            np.where(inside, err[index], NO_BOUND), np.where(inside, utc[index], NO_BOUND),
            np.where(inside, state[index], len(ALIGNMENTS) - 1).astype(np.int8),
        )

    def _columns(self) -> Ints:
        """(8, n) int64: valid_from, valid_to, src0, dst0, rate, err, utc_err, state; ascending in valid_from."""
        if self._table is None:
            ordered = sorted(self.segments, key=lambda s: s.valid_from)
            self._table = np.array([
                (s.valid_from, s.valid_to, s.src0, s.dst0, s.rate_q32, NO_BOUND if s.err_ns is None else s.err_ns,
                 NO_BOUND if s.utc_err_ns is None else s.utc_err_ns, ALIGNMENTS.index(s.state)) for s in ordered
            ], np.int64).T.copy()
        return self._table
