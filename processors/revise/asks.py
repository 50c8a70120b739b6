"""What a message of `late_windows` asks for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fleetscope.contracts.batch import Batch, Header

TABLES: Final = ("spans", "counters", "inventory", "coverage")
"""What a window is made of."""


@dataclass(frozen=True, slots=True)
class AskedWindow:
    """A closed window to account for again. ``known_to_ns``: end of the observed time where the host closed inside it.

    ``late_rows`` and ``redelivered_rows`` are what it has told of rows of any window; ``other`` [received, dropped,
    lost, redelivered] what it has told of coverage of other times. ``revision`` is the one its rows get.
    """

    start_ns: int
    known_to_ns: int | None
    late_rows: int
    redelivered_rows: int
    other: tuple[int, int, int, int]
    revision: int


@dataclass(frozen=True, slots=True)
class Request:
    """One message. ``needed``: by table the offset of the last message that must be in the store first; ``table``,
    ``cause`` (an offset) and ``rows`` name the message that came late."""

    header: Header
    host: str
    partition: int
    window_ns: int
    table: str
    cause: int
    rows: int
    needed: dict[str, int]
    windows: tuple[AskedWindow, ...]


def request_of(batch: Batch) -> Request | None:
    """The request in a batch of `late_windows` at its place in the topic; None where it asks for nothing.

    A window's new revision is the request's, which no row of the window has passed, plus one and the place of the
    request: a later answer is higher than an earlier one, and the same request gives the same revision.
    Raises ValueError for a batch without origin.
    """
    if batch.origin is None:
        raise ValueError("late_windows without origin: where it stood is part of the revision")
    rows: list[dict[str, Any]] = batch.rows.to_pylist()
    if not rows:
        return None
    first = rows[0]
    after = 1 + batch.origin.offset
    windows = tuple(AskedWindow(row["window_start_ns"], row["known_to_ns"], row["told_late_rows"],
                                row["told_redelivered_rows"],
                                (row["other_received_rows"], row["other_dropped_rows"], row["other_lost_rows"],
                                 row["other_redelivered_rows"]), row["revision"] + after) for row in rows)
    needed = {table: first[f"{table}_offset"] for table in TABLES if first[f"{table}_offset"] is not None}
    return Request(batch.header, batch.header.host, first["partition"], first["window_ns"],
                   first["topic"].removeprefix("aligned."), first["offset"], first["rows"], needed, windows)
