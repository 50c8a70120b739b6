"""Applies stored clock segments to ticks: the independent reading of what the alignment published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from fleetscope.store.abstract import Store
from simulator.clocks import RAW, Ints

Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]

_MASK = np.int64(0xFFFF_FFFF)
_LONGEST = np.int64(1 << 46)
"""Ticks of a piece that are used backwards: 19 hours of a clock in ns."""
UNBOUNDED = -1
"""Bound of a piece that has none (a gap)."""


@dataclass(frozen=True, slots=True)
class Mapped:
    """Fleet time of ticks. ``known`` says where a piece held; ``err_ns`` is −1 where that piece gave no bound."""

    fleet_ns: Ints
    err_ns: Ints
    known: Bools


def scale_q32(ticks: Ints, rate_q32: Ints) -> Ints:
    """floor(ticks · rate / 2^32) for |ticks| < 2^47 and rates below 2^47, without leaving 64 bits.

    Both factors are split at bit 32; only the product of the low halves needs the unsigned range.
    """
    ticks_high, ticks_low = ticks >> 32, ticks & _MASK
    rate_high, rate_low = rate_q32 >> 32, rate_q32 & _MASK
    low = (ticks_low.astype(np.uint64) * rate_low.astype(np.uint64)) >> np.uint64(32)
    high = ((ticks_high * rate_high) << 32) + ticks_high * rate_low + ticks_low * rate_high
    return np.asarray(high + low.astype(np.int64), dtype=np.int64)


class FleetMap:
    """One host's map from its reference clock to fleet time: later versions cover earlier ones."""

    def __init__(self, pieces: pa.Table) -> None:
        names = ("valid_from_ticks", "valid_to_ticks", "src0_ticks", "dst0_ticks", "rate_q32")
        order = np.lexsort((_ints(pieces, "version"), _ints(pieces, "epoch")))
        self._from, self._to, self._src, self._dst, self._rate = (_ints(pieces, name)[order] for name in names)
        self._err = _ints(pieces, "err_ns", UNBOUNDED)[order]

    def apply(self, ticks: Ints) -> Mapped:
        """Fleet time of ``ticks`` by the newest piece that covers each."""
        order = np.argsort(ticks, kind="stable")
        ordered = ticks[order]
        which = np.full(len(ticks), -1, dtype=np.int64)
        first = np.searchsorted(ordered, self._from, "left")
        past = np.searchsorted(ordered, self._to, "left")
        for piece, (low, high) in enumerate(zip(first, past, strict=True)):
            which[low:high] = piece
        piece_of = np.empty_like(which)
        piece_of[order] = which
        known = piece_of >= 0
        if not len(self._src):
            return Mapped(np.zeros_like(ticks), np.full_like(ticks, UNBOUNDED), known)
        at = np.maximum(piece_of, 0)
        offset = np.where(known, ticks - self._src[at], 0)
        return Mapped(self._dst[at] + scale_q32(offset, self._rate[at]), self._err[at], known)

    def inverse(self, fleet_ns: Ints) -> tuple[Ints, Bools]:
        """Ticks whose fleet time is ``fleet_ns``, to a tick, by the newest piece that shows it; and where one does."""
        ticks = np.zeros_like(fleet_ns)
        known = np.zeros(len(fleet_ns), dtype=np.bool_)
        begin = self._dst + scale_q32(self._from - self._src, self._rate)
        length = np.minimum(self._to - self._from, _LONGEST)
        for piece in range(len(self._src)):
            away = fleet_ns - begin[piece]
            here = (away >= 0) & (away < scale_q32(length[piece:piece + 1], self._rate[piece:piece + 1])[0])
            # Within a piece floating point is exact to far below a tick.
            passed = np.round(away[here] * (2.0**32 / float(self._rate[piece])))
            ticks[here] = self._from[piece] + passed.astype(np.int64)
            known |= here
        return ticks, known


def fleet_map(store: Store, host: str) -> FleetMap:
    """The stored map of ``host``'s reference clock to fleet time."""
    return FleetMap(store.query(
        "SELECT epoch, version, valid_from_ticks, valid_to_ticks, src0_ticks, dst0_ticks, rate_q32, err_ns "
        "FROM segments WHERE host = {host:String} AND clock = {clock:String} AND target_clock = 'fleet'",
        {"host": host, "clock": RAW}))


def _ints(table: pa.Table, name: str, missing: int = 0) -> Ints:
    column = table.column(name).cast(pa.int64()).fill_null(missing)
    return np.asarray(column.to_numpy(), dtype=np.int64)


def integers(table: pa.Table, names: Sequence[str], missing: int = 0) -> list[Ints]:
    """Columns of a result as int64 arrays; null becomes ``missing``."""
    return [_ints(table, name, missing) for name in names]
