"""What `fleetscope doctor` finds in a store: each kind of trouble gives its finding, and none gives none."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from fleetscope.cli.doctor_report import Part
from fleetscope.cli.doctor_store import look_at_store
from fleetscope.contracts import CONTRACTS, Contract
from fleetscope.contracts.batch import Batch, from_rows
from fleetscope.errors import Origin
from fleetscope.store.arrange import arrange, table_of
from fleetscope.store.clickhouse import ClickHouseStore
from fleetscope.store.migrate import DEFAULT_TTL_DAYS, migrate
from tests.support.contract_batches import header
from tests.support.stores import embedded

__all__ = ["embedded"]

S = 10**9
NOW = 1_790_000_000 * S


@pytest.fixture
def db(embedded: ClickHouseStore) -> ClickHouseStore:
    migrate(embedded, dict.fromkeys(DEFAULT_TTL_DAYS, 0))  # rows of these tests were stored long ago
    return embedded


def put(db: ClickHouseStore, name: str, *rows: dict[str, Any], host: str = "h1", offset: int = 0) -> None:
    contract = CONTRACTS[name]
    made = from_rows(contract, [_whole(contract, {"host": host, **row}) for row in rows])
    batch = Batch(header(contract, len(rows), host=host, sequence=offset), made, Origin("t", 0, offset))
    db.insert(table_of(name), arrange([batch]))


def _whole(contract: Contract, given: dict[str, Any]) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for column in contract.columns:
        kind = column.type
        number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        zero = 0 if number else False if pa.types.is_boolean(kind) else "x"
        row[column.name] = given.get(column.name, None if column.nullable else zero)
    return row


def piece(start: int, stop: int, state: str = "settled", err: int | None = 700, **more: Any) -> dict[str, Any]:
    return {"clock": "dev0", "target_host": "h1", "target_clock": "monotonic_raw", "valid_from_ticks": start,
            "valid_to_ticks": stop, "err_ns": err, "state": state, **more}


def counts(**given: int) -> dict[str, Any]:
    return {"source": "h1/agent", "contract": "spans", "to_ns": NOW, "produced_rows": 1000, "received_rows": 1000,
            **given}


def beat(at_s: int, *, closed: bool = False) -> dict[str, Any]:
    return {"contract": "spans", "time_ns": NOW + at_s * S, "closed": closed, "alignment": "settled"}


FLEET = piece(0, 1000, err=1, clock="monotonic_raw", target_clock="fleet", utc_err_ns=60_000)


def found(part: Part) -> list[tuple[str, str]]:
    return [(f.severity, f.subject) for f in part.findings]


def look(db: ClickHouseStore, at_s: int = 10) -> Part:
    return look_at_store(db, "Store", now_ns=NOW + at_s * S)


def test_a_healthy_store_gives_figures_and_no_finding(db: ClickHouseStore) -> None:
    put(db, "segments", FLEET, piece(0, 900), piece(900, 1000, "provisional", 9000))
    put(db, "coverage", counts())
    put(db, "aligned_heartbeats", beat(5))
    put(db, "windows", {"device": "dev0", "window_start_ns": NOW + 3 * S, "window_ns": S})
    part = look(db)
    assert found(part) == []
    document = part.document()
    assert document["schema"].startswith("0")
    assert document["pending_migrations"] == []
    clock = document["clocks"][0]
    assert (clock["err_p50_ns"], clock["err_p99_ns"], clock["steps"], clock["gap_share"]) == (700, 9000, 0, 0.0)
    assert document["coverage"][0]["received_share"] == 1.0
    assert document["freshness"] == [{
        "host": "h1", "last_heard_ns": NOW + 5 * S, "last_window_ns": NOW + 4 * S, "heard_age_s": 5.0,
        "windows_behind_s": 1.0, "closed": False}]


def test_an_empty_store_says_how_to_fill_it(db: ClickHouseStore) -> None:
    part = look(db)
    assert found(part) == [("info", "store")]
    assert "fleetscope demo" in part.findings[0].advice


@pytest.mark.parametrize(("pieces", "expected"), [
    ([piece(0, 900), piece(900, 1000, "gap", None)], [("warning", "clock h1/dev0")]),
    ([piece(0, 900, "gap", None), piece(900, 1000)], [("warning", "clock h1/dev0")]),
    ([piece(0, 999), piece(999, 1000, epoch=1)], [("info", "clock h1/dev0")]),
    ([piece(0, 1000, err=2_000_000)], [("warning", "clock h1/dev0")]),
    ([piece(0, 1000), piece(1000, 1 << 62, "gap", None)], []),
], ids=["a gap now", "gaps before", "a step", "a wide bound", "closed"])
def test_clocks_without_a_good_bound_are_found(db: ClickHouseStore, pieces: list[dict[str, Any]],
                                               expected: list[tuple[str, str]]) -> None:
    put(db, "coverage", counts())
    put(db, "segments", FLEET, *pieces)
    assert found(look(db)) == expected


def test_a_host_without_a_bound_to_fleet_time_is_critical_and_a_silent_clock_is_not(db: ClickHouseStore) -> None:
    put(db, "coverage", counts())
    gap = piece(1000, 2000, "gap", None, clock="monotonic_raw", target_clock="fleet", rate_q32=1 << 32)
    put(db, "segments", {**FLEET, "rate_q32": 1 << 32}, gap, piece(0, 900), piece(900, 1000, "provisional"))
    part = look(db)
    assert found(part) == [("critical", "clock h1/monotonic_raw")]
    assert "against fleet now, for 1 µs so far" in part.findings[0].text
    assert part.document()["clock_gaps"][0]["last_err_ns"] == 1


def test_a_clock_that_is_read_too_rarely_is_told_so(db: ClickHouseStore) -> None:
    put(db, "coverage", counts())
    put(db, "segments", FLEET, piece(0, 400), piece(400, 1000, "provisional"))
    assert found(look(db)) == [("warning", "clock h1/dev0")]
    put(db, "segments", piece(1000, 1 << 62, "gap", None), offset=1)
    assert found(look(db)) == []  # its producer closed: nothing more could be read


def test_a_step_is_told_with_its_size(db: ClickHouseStore) -> None:
    put(db, "coverage", counts())
    one = {"rate_q32": 1 << 32}
    put(db, "segments", FLEET, piece(0, 999, **one),
        piece(999, 1000, epoch=1, src0_ticks=999, dst0_ticks=51_000, **one))
    part = look(db)
    assert found(part) == [("info", "clock h1/dev0")]
    assert "1 times, last by 50.00 µs forwards" in part.findings[0].text
    assert part.document()["clock_steps"][0]["size_ns"] == 50_001


def test_orders_that_cannot_be_are_told_by_pair_of_clocks(db: ClickHouseStore) -> None:
    put(db, "coverage", counts())
    put(db, "segments", FLEET, piece(0, 1000))
    pair = {"rule": "submission", "cause_clock": "monotonic_raw", "effect_clock": "dev0", "beyond_ns": 1_500,
            "inversion_ns": 2_000}
    put(db, "causality_violations", {**pair, "time_ns": NOW}, {**pair, "time_ns": NOW + 3_600 * S, "beyond_ns": 9})
    part = look(db)
    assert found(part) == [("warning", "clocks monotonic_raw and dev0 of h1")]
    assert "2 pairs" in part.findings[0].text
    assert "over 2 hours, the worst 1.50" in part.findings[0].text
    assert [row["violations"] for row in part.document()["clock_inversions"]] == [1, 1]


def test_a_host_without_fleet_time_is_critical(db: ClickHouseStore) -> None:
    put(db, "coverage", counts())
    put(db, "segments", piece(0, 1000))
    assert found(look(db)) == [("critical", "host h1")]


@pytest.mark.parametrize(("given", "severity", "text"), [
    ({"received_rows": 990, "lost_rows": 10}, "warning", "10 of 1,000 rows were published and never received"),
    ({"received_rows": 900, "lost_rows": 100}, "critical", "100 of 1,000 rows were published and never received"),
    ({"dropped_rows": 3}, "warning", "3 of 1,003 rows were dropped at the source"),
    ({"late_rows": 20}, "warning", "20 of 1,000 rows came behind the watermark"),
    ({"redelivered_rows": 5}, "info", "5 rows came again, were recognised and dropped"),
])
def test_rows_that_did_not_arrive_as_they_should_are_found(db: ClickHouseStore, given: dict[str, int], severity: str,
                                                           text: str) -> None:
    put(db, "segments", FLEET)
    put(db, "coverage", counts(**given))
    assert [(f.severity, f.subject, f.text) for f in look(db).findings] == [(severity, "spans of h1", text)]


def test_a_loss_that_came_after_all_is_none(db: ClickHouseStore) -> None:
    put(db, "segments", FLEET)
    put(db, "coverage", counts(received_rows=990, lost_rows=10),
        counts(produced_rows=0, received_rows=10, lost_rows=-10, to_ns=NOW + S))
    part = look(db)
    assert found(part) == []
    assert part.document()["coverage"][0]["received_rows"] == 1000


@pytest.mark.parametrize(("code", "advice"), [
    ("no_fleet_time", "raw.clock_links"), ("unknown_version", "Update the processors"), ("corrupt", "Fix or replace")])
def test_dead_letters_come_with_advice_by_reason(db: ClickHouseStore, code: str, advice: str) -> None:
    put(db, "segments", FLEET)
    put(db, "coverage", counts())
    put(db, "dead_letters", {"topic": "raw.spans", "offset": 7, "code": code, "rows": 40})
    finding, = look(db).findings
    assert (finding.severity, finding.text) == ("warning", f"1 messages (40 rows): {code}")
    assert advice in finding.advice


def test_a_silent_host_is_found_unless_it_has_closed(db: ClickHouseStore) -> None:
    put(db, "segments", FLEET)
    put(db, "coverage", counts())
    put(db, "aligned_heartbeats", beat(0))
    assert found(look(db, at_s=61)) == [("warning", "host h1")]
    put(db, "aligned_heartbeats", beat(1, closed=True), offset=1)
    assert found(look(db, at_s=61)) == []


def test_windows_that_do_not_follow_the_heartbeats_are_found(db: ClickHouseStore) -> None:
    put(db, "segments", FLEET)
    put(db, "coverage", counts())
    put(db, "windows", {"device": "dev0", "window_start_ns": NOW, "window_ns": S})
    put(db, "aligned_heartbeats", beat(40))
    finding, = look(db, at_s=41).findings
    assert finding.text == "its newest window ends 39 s before its newest heartbeat"


def test_the_last_piece_of_a_closed_clock_reads_as_ended(db: ClickHouseStore) -> None:
    put(db, "segments", FLEET, piece(0, 1000, "provisional"))
    assert [(c["clock"], c["to"], c["standing"]) for c in look(db).document()["clocks"]] == [
        ("dev0", "monotonic_raw", "provisional"), ("monotonic_raw", "fleet", "settled")]
    put(db, "segments", piece(1000, 1 << 62, "gap", None), offset=1)
    assert look(db).document()["clocks"][0]["standing"] == "ended"
