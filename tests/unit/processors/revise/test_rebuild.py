"""Windows rebuilt from rows alone, without a store."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from fleetscope.contracts.batch import Batch
from fleetscope.contracts.derived import ALIGNED_SPANS, COVERAGE
from fleetscope.step import replay
from processors.revise.asks import AskedWindow
from processors.revise.rebuild import History, batch_of, recompute
from processors.windows.step import WindowsStep
from tests.conformance.step_suite import numbered
from tests.unit.processors.windows.hosts import Feed, busy_host, coverage, fact, span

STEP = WindowsStep(window_ns=1000, lookback_ns=500)
Row = dict[str, Any]


def asked(start_ns: int, *, known_to_ns: int | None = None, late: int = 0, repeats: int = 0,
          other: tuple[int, int, int, int] = (0, 0, 0, 0), revision: int = 7) -> AskedWindow:
    return AskedWindow(start_ns, known_to_ns, late, repeats, other, revision)


def history_of(feed: Feed, begin_ns: int) -> History:
    """Everything of the feed; what was before is told by all windows before."""
    batches = [batch for _, batch in feed.messages if len(batch)]
    received: Counter[int] = Counter()
    seen: list[int] = []
    for batch in batches:
        if batch.header.contract != "coverage":
            times = batch.rows.column("start_ns" if batch.header.contract == "aligned_spans" else "time_ns").to_pylist()
            received.update(time // 1000 * 1000 for time in times)
            seen += times
    earlier = range(min(received), begin_ns, 1000)
    poor = Counter((row["time_ns"] // 1000 * 1000, row["device"]) for batch in batches
                   if batch.header.contract == "aligned_counters" for row in batch.rows.to_pylist()
                   if row["status"] == "sentinel" and row["device"])
    return History(feed.host, batches, received, None if min(seen) < begin_ns else min(seen), earlier=earlier,
                   no_numbers=[(*key, rows) for key, rows in sorted(poor.items())])


def in_time(feed: Feed) -> list[Row]:
    return [row for o in replay(STEP, numbered(feed.messages), end=False) if o.topic == "windows"
            for row in o.batch.rows.to_pylist()]


def test_each_window_is_that_of_the_step_in_all_columns_but_the_revision() -> None:
    feed = Feed()
    busy_host(feed, 9, 4000, close=False)
    expected = in_time(feed)
    assert len(expected) == 8
    for start in sorted({row["window_start_ns"] for row in expected}):
        found = recompute(history_of(feed, start), [asked(start)], STEP)
        assert found == [row | {"revision": 7} for row in expected if row["window_start_ns"] == start]


def test_neighbouring_windows_computed_together_are_the_same_as_alone() -> None:
    feed = Feed()
    busy_host(feed, 9, 4000, close=False)
    together = recompute(history_of(feed, 1000), [asked(1000), asked(2000, revision=8), asked(3000)], STEP)
    alone = [row for start, revision in ((1000, 7), (2000, 8), (3000, 7))
             for row in recompute(history_of(feed, start), [asked(start, revision=revision)], STEP)]
    assert together == alone


def test_the_order_in_which_rows_come_back_does_not_show() -> None:
    feed = Feed()
    busy_host(feed, 9, 3000, close=False)
    history = history_of(feed, 1000)
    turned = replace(history, batches=[b for b in reversed(history.batches) if b.header.contract != "coverage"]
                     + [b for b in history.batches if b.header.contract == "coverage"])
    assert recompute(turned, [asked(1000)], STEP) == recompute(history, [asked(1000)], STEP)


def test_late_and_repeated_rows_stay_where_they_were_told_and_coverage_of_other_times_with_them() -> None:
    feed = Feed()
    feed.spans(span("engine:matrix", 100, 50))
    feed.send("coverage", [coverage(0, 1000, 8)])
    row, = recompute(history_of(feed, 0), [asked(0, late=3, repeats=2, other=(2, 5, 5, 1))], STEP)
    assert (row["late_rows"], row["redelivered_rows"], row["dropped_rows"], row["lost_rows"]) == (3, 3, 5, 5)
    assert row["received_rows"] == 1
    assert row["coverage"] == pytest.approx(0.5 * 900 / 1000)


def test_a_loss_whose_rows_came_after_all_is_none() -> None:
    feed = Feed()
    feed.spans(span("engine:matrix", 100, 50))
    feed.send("coverage", [coverage(0, 1000, 8, lost=4)])
    feed.send("coverage", [coverage(50_000, 51_000, 9, lost=-4)])
    row, = recompute(replace(history_of(feed, 0), first_ns=None), [asked(0)], STEP)
    assert (row["lost_rows"], row["coverage"]) == (0, 1.0)


def test_time_before_the_first_row_and_after_the_host_closed_is_unknown() -> None:
    feed = Feed()
    feed.spans(span("engine:matrix", 300, 100))
    row, = recompute(replace(history_of(feed, 0), first_ns=300), [asked(0, known_to_ns=800)], STEP)
    assert (row["unknown_ns"], row["coverage"]) == (500, 0.5)


def test_a_device_that_only_earlier_windows_met_has_its_row_and_its_rank_decides_on_demand() -> None:
    feed = Feed()
    feed.spans(span("engine:matrix", 100, 50, "dev1", job="train", rank=1))
    feed.spans(span("cpu_thread", 2000, 400, None, step=4, job="train", rank=1),
               span("cpu_thread", 2000, 900, None, step=4, job="train", rank=0))
    history = replace(history_of(feed, 2000), devices=["dev0"], steps=[("train", 0)], earlier=[0])
    rows = recompute(history, [asked(2000)], STEP)
    assert [(row["device"], row["host_ns"]) for row in rows] == [("dev0", 0), ("dev1", 400)]


def test_inventory_of_later_times_does_not_reach_back() -> None:
    feed = Feed()
    feed.send("aligned_inventory", [fact("peak", "dev0", "flops_per_s", 1e9, 1),
                                    fact("peak", "dev0", "flops_per_s", 2e9, 1500)])
    feed.spans(span("engine:matrix", 100, 100, flops=50, bytes=0), span("engine:matrix", 1600, 100, flops=50, bytes=0))
    rows = recompute(replace(history_of(feed, 0), first_ns=None), [asked(0), asked(1000)], STEP)
    assert [row["compute_ns"] for row in rows] == [50, 25]


def test_stored_rows_become_a_batch_of_the_contract_with_blanks_for_what_was_not_read() -> None:
    table = pa.table({"start_ns": pa.array([5, 6]), "duration_ns": pa.array([1, 2]), "track": ["driver", "collective"],
                      "device": pa.array(["dev0", None]), "wait_ids": pa.array([[1], []], pa.list_(pa.int64()))})
    batch: Batch = batch_of(ALIGNED_SPANS, "h1", table, 3)
    assert batch.rows.schema == ALIGNED_SPANS.schema()
    blank = {"name": "", "start_ticks": 0, "job": None}
    assert batch.rows.select([*table.column_names, *blank]).to_pylist() == [row | blank for row in table.to_pylist()]
    lost = batch_of(COVERAGE, "h1", pa.table({"lost_rows": pa.array([-2])}), 0)
    assert lost.rows.column("lost_rows").to_pylist() == [-2]
