"""Windows read back from the store are those that the windows step made when every row came in time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fleetscope.contracts.batch import Batch
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
from tests.unit.processors.windows.hosts import Feed, busy_host

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


@pytest.mark.parametrize(("window_ns", "lookback_ns"), [(1000, 500), (250, 50)])
def test_every_window_of_a_busy_host_comes_back_from_the_store_alone_and_in_runs(
        store: ClickHouseStore, window_ns: int, lookback_ns: int) -> None:
    feed = Feed(f"busy-{window_ns}")
    busy_host(feed, 5, 4000, close=False)
    batches = numbered(feed.messages)
    step = WindowsStep(window_ns=window_ns, lookback_ns=lookback_ns)
    outputs = [output for output in replay(step, batches, end=False) if output.topic == "windows"]
    rows = [row for output in outputs for row in output.batch.rows.to_pylist()]
    expected = by_window(rows)
    fill(store, [*batches, *(Batch(o.batch.header, o.batch.rows, b.origin) for o, b in zip(outputs, batches, strict=False))])
    archive = Archive(store, step)
    starts = sorted({start for start, _ in expected})
    assert len(starts) >= 4
    for run in ([[start] for start in starts] + [starts]):
        history = archive.history(feed.host, run[0], run[-1] + window_ns)
        found = recompute(history, [asked(start) for start in run], step)
        assert {row["revision"] for row in found} == {99}
        assert by_window(found) == {key: row for key, row in expected.items() if key[0] in run}
