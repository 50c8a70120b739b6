"""Rows of `clock_samples` to nodes of a pair, in either direction.

An exchange by stamps h1 (local), r1 [, r2] (remote), h2 (local) says that the remote reading happened between the
local ones. A clock that reads t stands in [t, t + tick): every interval is widened by the ticks of both.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from processors.clocks.hull import Assumptions, Node

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
                exchange.after)


def local_to_remote(exchange: Exchange) -> Node:
    """Node of the pair local → remote: at local tick x the remote clock (ns) stood in [lo, hi]."""
    x = (exchange.before + exchange.after) // 2
    half = exchange.after - x
    return Node(x, exchange.last - half - 2, exchange.first + half + 2, exchange.last)


def assumptions_for(clock: str) -> Assumptions:
    """What is believed of a clock by its name: disciplined clocks may kink their rate at any time."""
    if clock.startswith(DISCIPLINED) or clock == "monotonic":
        return Assumptions(rho=100e-6, curvature_per_s=None)
    return Assumptions()
