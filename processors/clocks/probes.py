"""Rows of `clock_samples` to nodes of a pair, in either direction.

An exchange by stamps h1 (local), r1 [, r2] (remote), h2 (local) says that the remote reading happened between the
local ones. A clock that reads t stands in [t, t + tick): every interval is widened by the ticks of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from processors.clocks.hull import OPEN, Assumptions, Ints, Node
from processors.clocks.state import Arrival, Rate

NS = 1_000_000_000
MAX_EXCHANGE_S = 10
MAX_TIME_S = (1 << 62) // NS
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
    kinds = rows.column("kind").to_pylist()
    before, first, last, after = (_stamps(rows, name) for name in (
        "local_before_ticks", "remote_first_ticks", "remote_last_ticks", "local_after_ticks"))
    first_or_0 = np.where(first.known, first.values, 0)
    last_or_first = np.where(last.known, last.values, first_or_0)
    after_or_before = np.where(after.known, after.values, before.values)
    local_hz, remote_hz = _stamps(rows, "local_hz").values, _stamps(rows, "remote_hz").values
    ahead = np.int64(OPEN if sent is None else min(sent + NS, OPEN))
    good = (first_or_0 != 0) & (local_hz == NS) & _within(before.values, local_hz) & _within(first_or_0, remote_hz)
    good &= (after_or_before <= ahead) & _within(after_or_before, local_hz) & _within(last_or_first, remote_hz)
    took, took_remote = after_or_before - before.values, last_or_first - first_or_0
    two_way = after.known & (took >= 0) & (took <= MAX_EXCHANGE_S * local_hz) & (took_remote >= 0)
    two_way &= took_remote // remote_hz <= MAX_EXCHANGE_S
    rates = _stamps(rows, "rate_ppb")

    tick = -(-NS // remote_hz)
    half = took_remote // 2
    slack = np.where(half != 0, np.rint(half * (NS / remote_hz)).astype(np.int64) + 1, 0)
    columns = (kinds, good.tolist(), two_way.tolist(), (first_or_0 + half).tolist(),
               (before.values + slack - tick - 1).tolist(), (after_or_before - slack + tick + 1).tolist(),
               before.values.tolist(), after_or_before.tolist(), first_or_0.tolist(),
               [int(v) if k else None for v, k in zip(rates.values, rates.known, strict=True)])
    found: dict[Pairing, list[Arrival]] = {}
    bad = 0
    for pairing, row in zip(_pairings(rows), zip(*columns, strict=True), strict=True):
        made = _arrival(*row)
        if made is None:
            bad += 1
        else:
            found.setdefault(pairing, []).append(made)
    for each in found.values():
        each.sort(key=_measured)
    return found, bad


def _arrival(kind: str, good: bool, two_way: bool, x: int, lo: int, hi: int, before: int, after: int, first: int,
             ppb: int | None) -> Arrival | None:
    if not good:
        return None
    if kind == "exchange":
        return Node(x, lo, hi, after, after) if two_way else None
    if kind == "not_before":
        return Node(first, lo, OPEN, before)
    if kind == "not_after":
        return Node(first, -OPEN, hi, after)
    return Rate(first, ppb, before) if kind == "rate" and ppb is not None else None


def _measured(arrival: Arrival) -> int:
    return arrival.local


class _Stamps(NamedTuple):
    values: Ints
    known: NDArray[np.bool_]


def _stamps(rows: pa.RecordBatch, name: str) -> _Stamps:
    column = rows.column(name)
    if not column.null_count:
        return _Stamps(column.to_numpy(), np.ones(len(column), np.bool_))
    return _Stamps(column.fill_null(0).to_numpy(), column.is_valid().to_numpy(zero_copy_only=False))


def _within(stamps: Ints, hz: Ints) -> NDArray[np.bool_]:
    """Less than 146 years from 0."""
    seconds: NDArray[np.bool_] = np.abs(stamps // hz) <= MAX_TIME_S
    return seconds


def _pairings(rows: pa.RecordBatch) -> list[Pairing]:
    """The pair of each row; equal ones are one object."""
    columns = (rows.column(name).to_pylist() for name in Pairing._fields)
    made: dict[tuple[Any, ...], Pairing] = {}
    return [made.setdefault(key, Pairing(*key)) for key in zip(*columns, strict=True)]
