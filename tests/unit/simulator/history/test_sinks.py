from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from fleetscope.errors import UsageError
from fleetscope.store.clickhouse import ClickHouseStore
from fleetscope.store.migrate import migrate
from simulator.history.plan import Plan, make_plan
from simulator.history.run import Written, run_history
from simulator.history.sinks import ParquetSink, StoreSink
from tests.unit.simulator.history.histories import EVERYTHING, START_NS, busy, small

BLOCK_ROWS = 2_000


def plan() -> Plan:
    return make_plan(small(hours=12, hosts=6, **EVERYTHING), 1, START_NS)


def count(store: ClickHouseStore, table: str) -> int:
    return int(store.command(f"SELECT count() FROM {table}"))


def test_a_store_holds_every_row_once_however_often_the_history_is_written(embedded: ClickHouseStore) -> None:
    migrate(embedded)
    for _ in range(2):
        sink = StoreSink(embedded, plan(), BLOCK_ROWS)
        written = run_history(plan(), sink, BLOCK_ROWS)
        assert sink.skipped_operators == written.operators > 0
        assert count(embedded, "windows") == written.windows == 12 * 60 * 6 * 2
        assert count(embedded, "inventory") == written.inventory
        assert count(embedded, "marks") == written.marks
    stored = embedded.query("SELECT sum(kernels) AS kernels, sum(memory_bandwidth_ns) AS ns, uniq(job) AS jobs, "
                            "sum(unknown_ns) AS unknown FROM windows FINAL").to_pylist()[0]
    made = busy().windows.to_pandas()
    assert stored == {"kernels": made.kernels.sum(), "ns": made.memory_bandwidth_ns.sum(), "jobs": 2,
                      "unknown": made.unknown_ns.sum()}


def test_another_seed_is_another_history_and_is_stored(embedded: ClickHouseStore) -> None:
    migrate(embedded)
    for seed in (1, 2):
        one = make_plan(small(hours=1, hosts=1, devices=1), seed, START_NS)
        run_history(one, StoreSink(embedded, one, BLOCK_ROWS), BLOCK_ROWS)
    assert count(embedded, "windows") == 120


def test_hourly_rows_go_to_their_table_where_there_is_one(embedded: ClickHouseStore) -> None:
    migrate(embedded)
    embedded.command("CREATE TABLE operator_hours (hour_start_ns Int64, host String, job String, model String, "
                     "kind String, operator String, role String, batch_bucket Int64, driver String, firmware String, "
                     "compiler String, model_version String, devices Int64, count Int64, total_ns Int64, "
                     "mean_ns Nullable(Float64), variance_ns2 Nullable(Float64), flops_per_call Int64, "
                     "bytes_per_call Int64) ENGINE = MergeTree ORDER BY (job, operator, hour_start_ns)")
    sink = StoreSink(embedded, plan(), BLOCK_ROWS)
    written = run_history(plan(), sink, BLOCK_ROWS)
    assert sink.skipped_operators == 0
    assert count(embedded, "operator_hours") == written.operators == busy().operators.num_rows


def test_versions_of_the_inventory_and_marks_follow_the_deployments(embedded: ClickHouseStore) -> None:
    migrate(embedded)
    run_history(plan(), StoreSink(embedded, plan(), BLOCK_ROWS), BLOCK_ROWS)
    for event in plan().events:
        if event.kind == "deployment":
            hosts = [plan().host_names[host] for host in event.hosts]
            at_ns = START_NS + event.start * 60 * 10**9
            for table, condition in (("marks", "kind = 'deployment' AND subject = 'compiler' AND version = '2.4.0'"),
                                     ("inventory", "component = 'compiler' AND text = '2.4.0'")):
                found = embedded.query(f"SELECT host FROM {table} WHERE {condition} AND time_ns = {at_ns} "
                                       "ORDER BY host")
                assert found.column("host").to_pylist() == hosts, table


def test_parquet_files_hold_the_same_rows(tmp_path: Path) -> None:
    seen: list[int] = []
    written = run_history(plan(), ParquetSink(tmp_path), BLOCK_ROWS, lambda done: seen.append(done.windows))
    windows = pq.read_table(sorted(tmp_path.glob("windows-*.parquet"))).to_pandas()
    windows = windows.sort_values(["host", "device", "window_start_ns"], ignore_index=True)
    assert (windows.memory_bandwidth_ns == busy().windows.to_pandas().memory_bandwidth_ns).all()
    assert written == Written(len(windows), busy().operators.num_rows, written.inventory, written.marks)
    assert sum(pq.read_metadata(p).num_rows for p in tmp_path.glob("operator_hours-*")) == written.operators
    assert set(pq.read_table(tmp_path / "marks.parquet").column("host").to_pylist()) == set(plan().host_names)
    assert seen == sorted(seen)
    assert seen[-1] == written.windows
    assert not list(tmp_path.glob("*.part"))


def test_a_folder_that_holds_a_history_is_not_mixed_with_another(tmp_path: Path) -> None:
    (tmp_path / "windows-00000.parquet").touch()
    with pytest.raises(UsageError, match=r"already holds windows-00000\.parquet"):
        ParquetSink(tmp_path)


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write to"):
        ParquetSink(tmp_path / "file" / "below")
