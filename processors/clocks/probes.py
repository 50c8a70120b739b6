"""Rows of `clock_samples` to nodes of a pair, in either direction.

An exchange by stamps h1 (local), r1 [, r2] (remote), h2 (local) says that the remote reading happened between the
local ones. A clock that reads t stands in [t, t + tick): every interval is widened by the ticks of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numba
import numpy as np
import pyarrow as pa

from processors.clocks.hull import OPEN, Assumptions, Ints, Node
from processors.clocks.state import Arrival, Rate

NS: Final = 1_000_000_000
MAX_EXCHANGE_S: Final = 10
MAX_TIME_S: Final = (1 << 62) // NS
UNSET: Final = -(1 << 63)
DISCIPLINED = ("realtime", "boottime", "ptp", "tai")
"""First words of clocks that something steers; MONOTONIC is steered too, MONOTONIC_RAW is not."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One two-way exchange; ``remote_host`` None: the measuring host itself."""

    local_clock: str
    remote_host: str | None
    remote_clock: str
    before: int
    first: int
    last: int
    after: int
    local_hz: int
    remote_hz: int


def exchanges(rows: pa.RecordBatch, sent: int | None = None) -> tuple[list[Exchange], int]:
    """Complete exchanges in row order, and how many rows had an unset or impossible stamp.

    Impossible: a clock that ran back within the exchange, an exchange of more than 10 s, a time past 146 years, and a
    stamp of the local clock after ``sent``, its reading when the batch was sent (1 s is allowed).
    """
    names = ("kind", "local_clock", "remote_host", "remote_clock", "local_before_ticks", "remote_first_ticks",
             "remote_last_ticks", "local_after_ticks", "local_hz", "remote_hz")
    found: list[Exchange] = []
    bad = 0
    for kind, local, host, remote, before, first, last, after, local_hz, remote_hz in _tuples(rows, names):
        if kind != "exchange":
            continue
        if first is None or after is None:
            bad += 1
            continue
        exchange = Exchange(local, host, remote, before, first, first if last is None else last, after, local_hz,
                            remote_hz)
        if first == 0 or not _possible(exchange) or (sent is not None and after > sent + local_hz):
            bad += 1
        else:
            found.append(exchange)
    return found, bad


def _possible(exchange: Exchange) -> bool:
    local, remote = exchange.local_hz, exchange.remote_hz
    return (0 <= exchange.after - exchange.before <= MAX_EXCHANGE_S * local
            and 0 <= exchange.last - exchange.first <= MAX_EXCHANGE_S * remote
            and max(abs(exchange.before), abs(exchange.after)) // local <= MAX_TIME_S
            and max(abs(exchange.first), abs(exchange.last)) // remote <= MAX_TIME_S)


def _tuples(rows: pa.RecordBatch, names: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    return zip(*(rows.column(name).to_pylist() for name in names), strict=True)


def tick_ns(hz: int) -> int:
    """Length of a tick in ns, rounded up."""
    return -(-NS // hz)


def remote_to_local(exchange: Exchange) -> Node:
    """Node of the pair remote → local: at remote tick x the local clock (ns) stood in [lo, hi]."""
    half = (exchange.last - exchange.first) // 2
    slack = round(half * NS / exchange.remote_hz) + 1 if half else 0
    tick = tick_ns(exchange.remote_hz)
    return Node(exchange.first + half, exchange.before + slack - tick - 1, exchange.after - slack + tick + 1,
                exchange.after, exchange.after)


def local_to_remote(exchange: Exchange) -> Node:
    """Node of the pair local → remote: at local tick x the remote clock (ns) stood in [lo, hi]."""
    x = (exchange.before + exchange.after) // 2
    half = exchange.after - x
    return Node(x, exchange.last - half - 2, exchange.first + half + 2, exchange.last, exchange.after)


def assumptions_for(clock: str) -> Assumptions:
    """What is believed of a clock by its name: disciplined clocks may kink their rate at any time."""
    if clock.startswith(DISCIPLINED) or clock == "monotonic":
        return Assumptions(rho=100e-6, curvature_per_s=None)
    return Assumptions()


class Pairing(NamedTuple):
    """Two clocks that rows compare, and what they are said to count a second; ``remote_host`` None: the same host."""

    local_clock: str
    remote_host: str | None
    remote_clock: str
    local_hz: int
    remote_hz: int


def arrivals(rows: pa.RecordBatch, sent: int | None = None) -> tuple[dict[Pairing, list[Arrival]], int]:
    """What rows say of each pair remote → local, in the order of measurement, and how many rows say nothing.

    The local clock counts ns. Exchanges become nodes as `remote_to_local` makes them, with the same rows refused as in
    `exchanges`. ``not_before``: the remote clock showed ``remote_first`` when the local one showed ``local_before`` or
    later. ``not_after``: when the local one showed ``local_after`` (where null ``local_before``) or earlier. ``rate``:
    from ``remote_first`` on the remote clock runs at (1 + rate_ppb / 10^9) times nominal.
    """
    stamps = _Stamps(*(_column(rows, name) for name in _Stamps._fields))
    ahead = OPEN if sent is None else min(sent + NS, OPEN)
    flags, *numbers = _converted(*stamps, ahead)
    # A rate is rare: where there is none its column costs nothing.
    rates = rows.column("rate_ppb")
    ppbs = [None] * len(rates) if rates.null_count == len(rates) else rates.to_pylist()
    columns = (*(column.tolist() for column in (flags, *numbers)), stamps.local_before_ticks.tolist(), ppbs)
    found: dict[Pairing, list[Arrival]] = {}
    bad = 0
    for kind, pairing, row in zip(_words(rows, "kind"), _pairings(rows, stamps), zip(*columns, strict=True),
                                  strict=True):
        made = _arrival(kind, *row)
        if made is None:
            bad += 1
        else:
            found.setdefault(pairing, []).append(made)
    for each in found.values():
        each.sort(key=_measured)
    return found, bad


@numba.njit(cache=True)
def _converted(before: Ints, first: Ints, last: Ints, after: Ints, local_hz: Ints, remote_hz: Ints, ahead: int) \
        -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """Flags (0 unusable, 1 one-sided or rate, 2 exchange too), middle of the remote stamps, lo, hi, local time after,
    first remote stamp. Null stamps are UNSET."""
    count = len(before)
    flags, x, lo, hi = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64), \
        np.zeros(count, np.int64)
    ends, begins = np.zeros(count, np.int64), np.zeros(count, np.int64)
    for i in range(count):
        hz, asked = remote_hz[i], first[i]
        answered = asked if last[i] == UNSET else last[i]
        back = before[i] if after[i] == UNSET else after[i]
        if asked == UNSET or asked == 0 or local_hz[i] != NS or back > ahead:
            continue
        if max(abs(before[i]), abs(back)) // NS > MAX_TIME_S or max(abs(asked), abs(answered)) // hz > MAX_TIME_S:
            continue
        took, inside = back - before[i], answered - asked
        tick = (NS + hz - 1) // hz
        half = inside // 2
        slack = np.int64(np.rint(half * (NS / hz))) + 1 if half else 0
        x[i], lo[i], hi[i] = asked + half, before[i] + slack - tick - 1, back - slack + tick + 1
        ends[i], begins[i] = back, asked
        flags[i] = 2 if after[i] != UNSET and 0 <= took <= MAX_EXCHANGE_S * NS \
            and inside >= 0 and inside // hz <= MAX_EXCHANGE_S else 1
    return flags, x, lo, hi, ends, begins


def _arrival(kind: str, flag: int, x: int, lo: int, hi: int, after: int, first: int, before: int,
             ppb: int | None) -> Arrival | None:
    if kind == "exchange":
        return Node(x, lo, hi, after, after) if flag == 2 else None
    if not flag:
        return None
    if kind == "not_before":
        return Node(first, lo, OPEN, before)
    if kind == "not_after":
        return Node(first, -OPEN, hi, after)
    return Rate(first, ppb, before) if kind == "rate" and ppb is not None else None


def _measured(arrival: Arrival) -> int:
    return arrival.local


class _Stamps(NamedTuple):
    local_before_ticks: Ints
    remote_first_ticks: Ints
    remote_last_ticks: Ints
    local_after_ticks: Ints
    local_hz: Ints
    remote_hz: Ints


def _column(rows: pa.RecordBatch, name: str) -> Ints:
    """Integers of a column, UNSET for null."""
    column = rows.column(name)
    if column.null_count == len(column):
        return np.full(len(column), UNSET, np.int64)
    return np.asarray((column.fill_null(UNSET) if column.null_count else column).to_numpy())


def _words(rows: pa.RecordBatch, name: str) -> list[Any]:
    """Values of a symbol column."""
    column = rows.column(name)
    values = column.dictionary.to_pylist()
    if column.null_count == len(column):
        return [None] * len(column)
    return [None if i is None else values[i] for i in column.indices.to_pylist()] if column.null_count else \
        [values[i] for i in column.indices.to_numpy().tolist()]


def _pairings(rows: pa.RecordBatch, stamps: _Stamps) -> list[Pairing]:
    """The pair of each row; equal ones are one object."""
    columns = (*(_words(rows, name) for name in ("local_clock", "remote_host", "remote_clock")),
               stamps.local_hz.tolist(), stamps.remote_hz.tolist())
    made: dict[tuple[Any, ...], Pairing] = {}
    found = []
    for key in zip(*columns, strict=True):
        pairing = made.get(key)
        if pairing is None:
            pairing = made[key] = Pairing(*key)
        found.append(pairing)
    return found
