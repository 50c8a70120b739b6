"""Windows read back from the store are those that the windows step made when every row came in time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fleetscope.contracts.batch import Batch
from fleetscope.errors import Origin
from fleetscope.settings import StoreSettings
from fleetscope.step import replay
from fleetscope.store.arrange import arrange, table_of
from fleetscope.store.clickhouse import ClickHouseStore, open_store
from fleetscope.store.migrate import migrate
from processors.revise.asks import AskedWindow
from processors.revise.history import Archive
from processors.revise.rebuild import recompute
from processors.windows.step import WindowsStep
from tests.conformance.step_suite import numbered
from tests.unit.processors.windows.hosts import Feed, busy_host, coverage, span

Row = dict[str, Any]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    folder: Path = tmp_path_factory.mktemp("revise")
    with open_store(StoreSettings(path=folder / "store")) as opened:
        migrate(opened)
        yield opened


def fill(store: ClickHouseStore, batches: list[Batch]) -> None:
    for contract in dict.fromkeys(batch.header.contract for batch in batches):
        rows = [batch for batch in batches if batch.header.contract == contract and len(batch)]
        if rows:
            store.insert(table_of(contract), arrange(rows))


def by_window(rows: list[Row]) -> dict[tuple[int, str], Row]:
    return {(row["window_start_ns"], row["device"]): {n: v for n, v in row.items() if n != "revision"} for row in rows}


def asked(start_ns: int, known_to_ns: int | None = None) -> AskedWindow:
    return AskedWindow(start_ns, known_to_ns, 0, 0, (0, 0, 0, 0), 99)


def in_time_and_stored(store: ClickHouseStore, feed: Feed, step: WindowsStep) -> dict[tuple[int, str], Row]:
    """The windows of the step; they and what they were made of stand in the store."""
    batches = numbered(feed.messages)
    outputs = [output.batch for output in replay(step, batches, end=False) if output.topic == "windows"]
    fill(store, [*batches, *(replace(b, origin=Origin("windows", 0, i)) for i, b in enumerate(outputs))])
    return by_window([row for batch in outputs for row in batch.rows.to_pylist()])


@pytest.mark.parametrize(("window_ns", "lookback_ns"), [(1000, 500), (250, 50)])
def test_every_window_of_a_busy_host_comes_back_from_the_store_alone_and_in_runs(
        store: ClickHouseStore, window_ns: int, lookback_ns: int) -> None:
    feed = Feed(f"busy-{window_ns}")
    busy_host(feed, 5, 4000, close=False)
    step = WindowsStep(window_ns=window_ns, lookback_ns=lookback_ns)
    expected = in_time_and_stored(store, feed, step)
    starts = sorted({start for start, _ in expected})
    assert len(starts) >= 4
    for run in [[start] for start in starts] + [starts]:
        history = Archive(store, step).history(feed.host, run[0], run[-1] + window_ns)
        found = recompute(history, [asked(start) for start in run], step)
        assert {row["revision"] for row in found} == {99}
        assert by_window(found) == {key: row for key, row in expected.items() if key[0] in run}


def test_what_idle_devices_did_last_and_who_marked_steps_is_found_far_before_the_window(
        store: ClickHouseStore) -> None:
    second = 1_000_000_000
    feed = Feed("idle")
    feed.spans(span("engine:matrix", 100, second // 2, "dev0", job="train", rank=0),
               span("engine:matrix", 100, second // 3, "dev1", job="train", rank=1))
    feed.spans(span("cpu_thread", 200, 40 * second, None, step=1, job="train", rank=0),
               span("cpu_thread", 200, 5, None, step=1, job="train", rank=1))
    feed.spans(span("engine:matrix", 20 * second, 7, "dev2", job="serve", rank=0))
    feed.mark(31 * second)
    step = WindowsStep(window_ns=second)
    expected = in_time_and_stored(store, feed, step)
    assert expected[30 * second, "dev0"]["host_ns"] == second
    assert expected[30 * second, "dev1"]["no_demand_ns"] == second
    history = Archive(store, step).history("idle", 30 * second, 31 * second)
    assert history.earlier == [0, 20 * second]
    assert by_window(recompute(history, [asked(30 * second)], step)) == {
        key: row for key, row in expected.items() if key[0] == 30 * second}


def test_losses_that_came_after_all_are_paired_in_the_order_they_were_counted(store: ClickHouseStore) -> None:
    feed = Feed("lossy")
    feed.spans(*(span("engine:matrix", at, 10) for at in (10, 1010, 2010, 3010)))
    for begin, lost in ((0, 5), (1000, 7), (2000, 0), (3000, -7), (4000, -2)):
        feed.send("coverage", [coverage(begin, begin + 1000, 10 - lost, lost=lost, host="lossy")])
    feed.mark(900)
    step = WindowsStep(window_ns=1000)
    fill(store, numbered(feed.messages))
    found = recompute(Archive(store, step).history("lossy", 0, 4000), [asked(at) for at in range(0, 4000, 1000)], step)
    assert [row["lost_rows"] for row in found] == [3, 0, 0, 0]
    assert [row["received_rows"] for row in found] == [1, 1, 1, 1]
    alone = recompute(Archive(store, step).history("lossy", 1000, 2000), [asked(1000)], step)
    assert (alone[0]["lost_rows"], alone[0]["coverage"]) == (0, 1.0)
