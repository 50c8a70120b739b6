"""Coverage rows spread over the windows they speak of.

A negative loss says that rows counted as lost before came after all. They are taken from the newest losses of the same
stream, so that reading only the rows from some time on gives the same pairs; what of such a loss lies in open windows
is put right there, and a closed window is asked for again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from fleetscope.contracts.batch import Batch
from processors.windows.intervals import Bools
from processors.windows.state import Host

MAX_EARLY: Final = 4_096
"""Windows of coverage kept for a host before its first row."""
MAX_LOSSES: Final = 256
"""Losses remembered of a stream, and streams remembered of a host; a loss that is forgotten stays told."""

_AMOUNTS: Final = ("received_rows", "dropped_rows", "lost_rows", "redelivered_rows")
_RECEIVED: Final = 0
_LOST: Final = 2


def cover(host: Host, batch: Batch, new: Bools, window_ns: int, max_span_ns: int) -> int:
    """Spread each beat's counts over the windows it covers, by time and without losing a row. What lies in closed
    windows is told by those still to close; a first beat may speak of a time long before it. Returns the newest beat's
    time, 0 where no row is new."""
    streams = zip(*(batch.rows.column(name).to_pylist() for name in ("source", "source_epoch", "contract")),
                  strict=True)
    columns = [batch.rows.column(name).to_pylist() for name in ("from_ns", "to_ns", *_AMOUNTS)]
    newest = 0
    for fresh, stream, begin, end, *amounts in zip(new.tolist(), streams, *columns, strict=True):
        if not fresh:
            continue
        newest = max(newest, end)
        begin = min(max(begin, end - max_span_ns), end - 1)
        if host.edge_ns is not None:
            begin, end = max(begin, host.edge_ns), max(end, host.edge_ns + 1)
        name = "/".join(map(str, stream))
        if amounts[_LOST] < 0:
            _give_back(host, name, amounts, window_ns)
        for window, share in _spread(begin, end, amounts, window_ns):
            _add(host, window, share)
        if amounts[_LOST] > 0:
            _remember(host, name, [begin, end, *amounts])
    while host.known_from_ns is None and len(host.coverage) > MAX_EARLY:
        # a host that sends no rows: all this will be told by its first window
        oldest, following = sorted(host.coverage)[:2]
        host.coverage[following] = [a + b for a, b in zip(host.coverage.pop(oldest), host.coverage[following],
                                                          strict=True)]
    return newest


def _spread(begin: int, end: int, amounts: list[int], window_ns: int) -> Iterator[tuple[int, list[int]]]:
    """The share of each window; the shares add up to the amounts exactly."""
    at, length = begin, end - begin
    while at < end:
        window = at // window_ns * window_ns
        to = min(window + window_ns, end)
        yield window, [a * (to - begin) // length - a * (at - begin) // length for a in amounts]
        at = to


def _add(host: Host, window: int, amounts: list[int]) -> None:
    sums = host.coverage.setdefault(window, [0, 0, 0, 0])
    for index, amount in enumerate(amounts):
        sums[index] += amount


def _give_back(host: Host, stream: str, amounts: list[int], window_ns: int) -> None:
    """Move rows that came after all from ``amounts`` (changed in place) to the losses they were counted in."""
    losses = host.losses.get(stream, [])
    while amounts[_LOST] < 0 and losses:
        begin, end, *before = losses[-1]
        count = min(-amounts[_LOST], before[_LOST])
        after = list(before)
        for where, sign in ((after, 1), (amounts, -1)):
            where[_RECEIVED] += sign * count
            where[_LOST] -= sign * count
        for (window, old), (_, new) in zip(_spread(begin, end, before, window_ns),
                                           _spread(begin, end, after, window_ns), strict=True):
            if host.edge_ns is not None and window < host.edge_ns:
                host.touched.setdefault(window, 0)
            else:
                _add(host, window, [b - a for a, b in zip(old, new, strict=True)])
        losses.pop()
        if after[_LOST]:
            losses.append([begin, end, *after])


def _remember(host: Host, stream: str, loss: list[int]) -> None:
    losses = host.losses.setdefault(stream, [])
    losses.append(loss)
    del losses[:-MAX_LOSSES]
    while len(host.losses) > MAX_LOSSES:
        del host.losses[min(host.losses, key=lambda name: host.losses[name][-1][1] if host.losses[name] else 0)]
