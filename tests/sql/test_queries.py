"""Each query of the library: a few rows in, exact rows out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from fleetscope.contracts import CONTRACTS, Contract
from fleetscope.contracts.batch import Batch, from_rows
from fleetscope.contracts.derived import STATE_NAMES
from fleetscope.errors import Origin
from fleetscope.store.arrange import arrange, table_of
from fleetscope.store.clickhouse import ClickHouseStore
from fleetscope.store.library import find_query
from fleetscope.store.migrate import DEFAULT_TTL_DAYS, migrate
from tests.support.contract_batches import header

S = 10**9
NOW = 1_790_000_000 * S


def minimal(contract: Contract, given: dict[str, Any]) -> dict[str, Any]:
    """A row with nulls and zeros for what is not ``given``."""
    row: dict[str, Any] = {}
    for column in contract.columns:
        if column.nullable:
            row[column.name] = None
        elif pa.types.is_integer(column.type):
            row[column.name] = 0
        elif pa.types.is_floating(column.type):
            row[column.name] = 0.0
        elif pa.types.is_boolean(column.type):
            row[column.name] = False
        else:
            row[column.name] = "x"
    assert given.keys() <= row.keys(), given.keys() - row.keys()
    return row | given


@pytest.fixture
def db(embedded: ClickHouseStore) -> ClickHouseStore:
    migrate(embedded, dict.fromkeys(DEFAULT_TTL_DAYS, 0))  # rows of these tests were stored long ago
    return embedded


def put(db: ClickHouseStore, contract: str, rows: list[dict[str, Any]], *, host: str = "h1", offset: int = 0) -> None:
    made = from_rows(CONTRACTS[contract], [minimal(CONTRACTS[contract], row) for row in rows])
    batch = Batch(header(CONTRACTS[contract], len(rows), host=host, sequence=offset), made, Origin("t", 0, offset))
    db.insert(table_of(contract), arrange([batch]))


def ask(db: ClickHouseStore, name: str, **given: str) -> list[tuple[Any, ...]]:
    query = find_query(name)
    return [tuple(row.values()) for row in db.query(query.sql, query.parameters(given)).to_pylist()]


def window(start_s: int, revision: int = 1, device: str = "dev0", job: str | None = "llm",
           **states: int) -> dict[str, Any]:
    return {"host": "h1", "device": device, "job": job, "window_start_ns": NOW + start_s * S, "window_ns": S,
            "revision": revision, **{f"{name}_ns": value for name, value in states.items()}}


WINDOWS = [
    window(0, compute=S),
    window(0, revision=2, compute=600_000_000, pcie_h2d=300_000_000, no_demand=100_000_000),
    window(1, compute=200_000_000, pcie_h2d=300_000_000, host=400_000_000, unknown=100_000_000),
    window(0, device="dev1", job=None, no_demand=S),
]


def test_top_limits_rank_causes_by_device_over_the_last_revisions(db: ClickHouseStore) -> None:
    put(db, "windows", WINDOWS)
    assert ask(db, "top_limits", per_device="2") == [
        ("llm", "h1", "dev0", "compute", 800_000_000, 0.4, 2), ("llm", "h1", "dev0", "pcie_h2d", 600_000_000, 0.3, 2)]
    assert ask(db, "top_limits", job="other") == []
    assert ask(db, "top_limits", from_ns=str(NOW + S)) == [
        ("llm", "h1", "dev0", "host", 400_000_000, 0.4, 1), ("llm", "h1", "dev0", "pcie_h2d", 300_000_000, 0.3, 1),
        ("llm", "h1", "dev0", "compute", 200_000_000, 0.2, 1)]


def test_time_accounting_adds_up_to_the_whole(db: ClickHouseStore) -> None:
    put(db, "windows", WINDOWS)
    rows = ask(db, "time_accounting")
    assert rows == [
        ("h1", "dev0", "compute", 800_000_000, 0.4), ("h1", "dev0", "pcie_h2d", 600_000_000, 0.3),
        ("h1", "dev0", "host", 400_000_000, 0.2), ("h1", "dev0", "no_demand", 100_000_000, 0.05),
        ("h1", "dev0", "unknown", 100_000_000, 0.05), ("h1", "dev1", "no_demand", S, 1.0)]
    assert ask(db, "time_accounting", to_ns=str(NOW + 1), job="llm") == [
        ("h1", "dev0", "compute", 600_000_000, 0.6), ("h1", "dev0", "pcie_h2d", 300_000_000, 0.3),
        ("h1", "dev0", "no_demand", 100_000_000, 0.1)]


def test_accounting_check_finds_the_window_that_does_not_add_up(db: ClickHouseStore) -> None:
    whole = window(0, **dict.fromkeys(STATE_NAMES[1:], S // 25))
    whole["compute_ns"] = S - (S // 25) * (len(STATE_NAMES) - 1)
    put(db, "windows", [whole, window(1, compute=S, host=1)])
    assert ask(db, "accounting_check") == [("h1", "dev0", NOW + S, S, S + 1)]


def span(track: str, name: str, start_s: int, duration_ns: int, **more: Any) -> dict[str, Any]:
    return {"device": "dev0", "track": track, "name": name, "start_ns": NOW + start_s * S, "duration_ns": duration_ns,
            "alignment": "settled", **more}


def test_slowest_operators_share_the_engine_time(db: ClickHouseStore) -> None:
    put(db, "aligned_spans", [span("engine:0", "matmul", 0, 500), span("engine:1", "matmul", 1, 100),
                              span("engine:0", "softmax", 2, 200), span("host_api", "launch", 0, 9000)])
    put(db, "aligned_spans", [span("engine:0", "late", 0, 200, job="b")], host="h2")
    assert ask(db, "slowest_operators") == [
        ("matmul", 2, 600, 0.6, 300.0, 500, 500), ("late", 1, 200, 0.2, 200.0, 200, 200),
        ("softmax", 1, 200, 0.2, 200.0, 200, 200)]
    assert ask(db, "slowest_operators", host="h2") == [("late", 1, 200, 1.0, 200.0, 200, 200)]
    assert ask(db, "slowest_operators", job="b", limit="1") == [("late", 1, 200, 1.0, 200.0, 200, 200)]


def test_coverage_counts_what_arrived_of_what_was_made(db: ClickHouseStore) -> None:
    base = {"host": "h1", "source": "agent", "contract": "spans"}
    put(db, "coverage", [
        {**base, "from_ns": NOW, "to_ns": NOW + S, "produced_rows": 90, "received_rows": 80, "late_rows": 3,
         "redelivered_rows": 2, "dropped_rows": 10, "lost_rows": 10},
        {**base, "from_ns": NOW + S, "to_ns": NOW + 2 * S, "produced_rows": 100, "received_rows": 110,
         "lost_rows": -10},
        {**base, "contract": "counters", "from_ns": NOW, "to_ns": NOW + S}])
    assert ask(db, "coverage_by_host") == [
        ("h1", "counters", 0, 0, 0, 0, 0, 0, None), ("h1", "spans", 190, 190, 3, 2, 10, 0, 0.95)]
    assert ask(db, "coverage_by_host", to_ns=str(NOW + S))[1] == ("h1", "spans", 90, 80, 3, 2, 10, 10, 0.8)


def test_clock_health_takes_the_last_version_of_each_piece(db: ClickHouseStore) -> None:
    def piece(start: int, stop: int, version: int, state: str, err: int | None, epoch: int = 0) -> dict[str, Any]:
        return {"host": "h1", "clock": "gpu0", "target_host": "h1", "target_clock": "monotonic_raw", "epoch": epoch,
                "version": version, "valid_from_ticks": start, "valid_to_ticks": stop, "err_ns": err, "state": state}

    put(db, "segments", [piece(0, 500, 0, "provisional", 9000), piece(0, 500, 1, "settled", 800),
                         piece(500, 600, 0, "gap", None), piece(600, 1000, 0, "settled", 600, epoch=1)])
    known = ("h1", "gpu0", "h1", "monotonic_raw", 3, 2, 0.9, 0.0, 0.1, 800, 800, 800, None, "settled")
    assert ask(db, "clock_health") == [(*known, False)]
    put(db, "segments", [piece(1000, 1 << 62, 0, "gap", None, epoch=1)], offset=1)
    assert ask(db, "clock_health") == [(*known, True)]  # the end of a closed producer is no gap


def test_freshness_tells_a_silent_host_from_a_closed_one(db: ClickHouseStore) -> None:
    def beat(at_s: int, contract: str = "spans", *, closed: bool = False) -> dict[str, Any]:
        return {"contract": contract, "time_ns": NOW + at_s * S, "closed": closed, "alignment": "settled"}

    put(db, "windows", WINDOWS)
    put(db, "aligned_heartbeats", [beat(0), beat(3), beat(3, "marks", closed=True)])
    put(db, "aligned_heartbeats", [beat(1, closed=True), beat(4, closed=True)], host="h2")
    assert ask(db, "freshness", now_ns=str(NOW + 10 * S)) == [
        ("h1", NOW + 3 * S, NOW + 2 * S, 7.0, 1.0, False), ("h2", NOW + 4 * S, None, 6.0, None, True)]
    put(db, "windows", [window(3, compute=S)], offset=1)
    assert ask(db, "freshness", host="h1")[0][2:5:2] == (NOW + 4 * S, 0.0)  # the open window ends after the heartbeat


def test_host_readings_are_the_latest_of_each_counter(db: ClickHouseStore) -> None:
    def reading(counter: str, at: int, **more: Any) -> dict[str, Any]:
        return {"counter": counter, "time_ns": NOW + at, "status": "ok", "alignment": "settled", **more}

    put(db, "aligned_counters", [
        reading("cpu_user", 1, raw=5, instance="cpu0"), reading("cpu_user", 2, raw=2**53 + 1, instance="cpu0"),
        reading("memory", 3, value=1.5), reading("memory", 4, status="missing"), reading("power", 9, device="dev0")])
    assert ask(db, "host_readings") == [
        ("h1", "cpu_user", "cpu0", 2**53 + 1, None, None, "ok", NOW + 2),
        ("h1", "memory", None, None, None, None, "missing", NOW + 4)]
    assert ask(db, "host_readings", device="dev0") == [("h1", "power", None, None, None, None, "ok", NOW + 9)]
    assert ask(db, "host_readings", counter="cpu_user")[0][1] == "cpu_user"


def test_host_readings_have_the_unit_of_the_newest_descriptor_of_their_host(db: ClickHouseStore) -> None:
    def fact(at: int, component: str, attribute: str, text: str | None, kind: str = "counter") -> dict[str, Any]:
        return {"kind": kind, "component": component, "attribute": attribute, "text": text, "time_ns": NOW + at,
                "alignment": "settled"}

    def reading(counter: str, instance: str) -> dict[str, Any]:
        return {"counter": counter, "instance": instance, "time_ns": NOW, "raw": 1, "status": "ok",
                "alignment": "settled"}

    put(db, "aligned_inventory", [fact(2, "cpu", "unit", "ms"), fact(1, "cpu", "unit", "jiffies"),
                                  fact(3, "cpu", "kind", "monotonic"), fact(4, "cpu", "unit", None),
                                  fact(5, "cpu", "unit", "B", kind="device")])
    readings = [reading("cpu", "0"), reading("cpu", "1"), reading("other", "0")]
    put(db, "aligned_counters", readings)
    put(db, "aligned_counters", readings[:1], host="h2")
    assert [(r[0], r[1], r[2], r[5]) for r in ask(db, "host_readings")] == [
        ("h1", "cpu", "0", "ms"), ("h1", "cpu", "1", "ms"), ("h1", "other", "0", None), ("h2", "cpu", "0", None)]


def test_dead_letters_are_counted_once_by_reason(db: ClickHouseStore) -> None:
    def letter(offset: int, code: str, at: int) -> dict[str, Any]:
        return {"topic": "raw.spans", "partition": 1, "offset": offset, "step": "align", "code": code,
                "reason": f"why {offset}", "rows": 10, "time_ms": at}

    put(db, "dead_letters", [letter(5, "corrupt", 30), letter(3, "corrupt", 20), letter(9, "null", 10)])
    put(db, "dead_letters", [letter(5, "corrupt", 30)], offset=1)
    assert ask(db, "dead_letters_by_reason") == [
        ("raw.spans", "align", "corrupt", 2, 20, 20, 30, "raw.spans[1]@3: why 3"),
        ("raw.spans", "align", "null", 1, 10, 10, 10, "raw.spans[1]@9: why 9")]
    assert ask(db, "dead_letters_by_reason", topic="other") == []


def test_ingest_lag_runs_from_the_end_of_a_span_to_its_storing(db: ClickHouseStore) -> None:
    rows = [minimal(CONTRACTS["aligned_spans"], span("engine:0", "k", 0, 500_000_000)) for _ in range(3)]
    batch = Batch(header(CONTRACTS["aligned_spans"], 3, host="h1"), from_rows(CONTRACTS["aligned_spans"], rows),
                  Origin("t", 0, 0))
    stored = [NOW // 10**6 + 500 + lag for lag in (10, 20, 400)]
    table = arrange([batch]).append_column("ingested_at", pa.array(stored, pa.timestamp("ms", "UTC")))
    db.insert("spans", table.set_column(table.column_names.index("late"), "late", pa.array([False, True, False])))
    assert ask(db, "ingest_lag") == [("h1", 3, 1, 20, 400, 400)]


def test_pcie_throughput_is_payload_over_transfer_time(db: ClickHouseStore) -> None:
    put(db, "aligned_spans", [
        span("pcie_h2d", "copy", 0, 1000, bytes=3000), span("pcie_h2d", "copy", 0, 1000, bytes=1000),
        span("pcie_h2d", "copy", 0, 500), span("pcie_d2h", "copy", 0, 10), span("engine:0", "k", 0, 10, bytes=7)])
    assert ask(db, "pcie_throughput") == [
        ("h1", "dev0", "d2h", 1, None, 10, None, None), ("h1", "dev0", "h2d", 3, 4000, 2500, 2e9, 2000.0)]
