"""From the end of an event until it can be queried."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from bench import latency
from bench.latency import SETTLE_S, _summary, _Watched
from bench.sections import START_UNIX_NS

S = 1_000_000_000
PLAYED_AT_NS = 1_800_000_000 * S


class Hand:
    """The wall clock, moved by the store."""

    now = 0

    def time_ns(self) -> int:
        return self.now


class SlowStore:
    """Takes a second for each insert."""

    def __init__(self, clock: Hand) -> None:
        self.clock = clock
        self.tables: list[str] = []

    def insert(self, table: str, rows: pa.Table, *, token: str = "") -> None:
        self.clock.now += S
        self.tables.append(table)


def spans(*events: tuple[float, float]) -> pa.Table:
    """Spans by start [s] after the fleet's start and length [s]."""
    return pa.table({"start_ns": [START_UNIX_NS + round(start * S) for start, _ in events],
                     "duration_ns": [round(length * S) for _, length in events]})


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> _Watched:
    clock = Hand()
    clock.now = PLAYED_AT_NS + 14 * S
    monkeypatch.setattr(latency, "time", clock)
    return _Watched(cast("Any", SlowStore(clock)))


def test_latency_runs_from_the_end_of_the_event_to_the_acknowledgement_of_its_insert(watched: _Watched) -> None:
    watched.insert("spans", spans((10.0, 0.5), (12.0, 0.0)))
    assert watched.latencies(PLAYED_AT_NS - START_UNIX_NS, 20.0).tolist() == [4.5, 3.0]


def test_events_before_settling_and_after_the_end_of_the_workload_are_left_out(watched: _Watched) -> None:
    watched.insert("spans", spans((SETTLE_S - 1.0, 0.5), (10.0, 0.0), (12.0, 0.0)))
    assert watched.latencies(PLAYED_AT_NS - START_UNIX_NS, 12.0).tolist() == [5.0]


def test_rows_of_other_tables_are_inserted_and_not_timed(watched: _Watched) -> None:
    watched.insert("spans", spans((10.0, 0.0)))
    watched.insert("counters", pa.table({"time_ns": [START_UNIX_NS + 10 * S]}))
    assert len(watched.latencies(PLAYED_AT_NS - START_UNIX_NS, 20.0)) == 1
    assert cast("Any", watched._store).tables == ["spans", "counters"]


def test_the_summary_says_at_what_rate_and_how_far_behind_the_player_was() -> None:
    result = _summary(np.arange(1.0, 102.0), SETTLE_S + 10.0, 3.0, 250_000_000)
    assert (result.p50_s, result.p99_s, result.worst_s) == (51.0, 100.0, 101.0)
    assert (result.events_per_s, result.cpu_s, result.behind_s) == (10.1, 3.0, 0.25)
