"""The queries behind `fleetscope report`: a few rows in, exact rows out."""

from __future__ import annotations

from typing import Any

from fleetscope.store.clickhouse import ClickHouseStore
from tests.sql.test_queries import NOW, S, ask, db, put, window  # noqa: F401

MS = 1_000_000


def of_host(name: str, job: str | None = "train", **states: int) -> dict[str, Any]:
    return window(0, job=job, **states) | {"host": name, "coverage": 1.0, "err_ns": 700}


def verdict(start_s: int, cause: str, share: float, **changes: Any) -> dict[str, Any]:
    return {"host": "h1", "device": "dev0", "job": "llm", "window_start_ns": NOW + start_s * S, "window_ns": S,
            "revision": 1, "cause": cause, "share": share, "share_low": share - 0.1, "share_high": share + 0.1,
            "confidence": 0.5, "recoverable_ns": round(share * S), "runner_up": "host", "advice": f"fix {cause}",
            } | changes


def incident(kind: str, host: str, start_s: int, end_s: int | None, severity: str) -> dict[str, Any]:
    return {"host": host, "device": None, "kind": kind, "start_ns": NOW + start_s * S,
            "end_ns": None if end_s is None else NOW + end_s * S, "revision": 1, "severity": severity,
            "evidence": "{}"}


def test_the_overview_counts_what_has_a_job_and_takes_its_coverage(db: ClickHouseStore) -> None:  # noqa: F811
    put(db, "windows", [window(0, compute=S) | {"coverage": 0.9}, window(1, host=S) | {"coverage": 1.0},
                        window(2, device="dev1", job=None, unknown=S) | {"coverage": 0.0}])
    assert ask(db, "report_overview") == [(NOW, NOW + 3 * S, 3, 1, 2, 1, 3 * S, 0.95, 0.9)]
    assert ask(db, "report_overview", job="none") == []


def test_states_add_up_by_job_and_shares_of_demand_leave_out_what_is_no_demand(
        db: ClickHouseStore) -> None:  # noqa: F811
    put(db, "windows", [window(0, compute=600 * MS, host_input=200 * MS, no_demand=200 * MS),
                        window(0, device="dev1", compute=S)])
    assert ask(db, "report_states") == [
        ("llm", 2, "compute", 1_600 * MS, 0.8, 1600 / 1800), ("llm", 2, "host_input", 200 * MS, 0.1, 200 / 1800),
        ("llm", 2, "no_demand", 200 * MS, 0.1, None)]


def test_verdicts_are_counted_by_job_with_their_mean_limits(db: ClickHouseStore) -> None:  # noqa: F811
    put(db, "verdicts", [verdict(0, "compute", 0.4), verdict(1, "compute", 0.6), verdict(2, "host", 0.3),
                         verdict(3, "host", 0.3, job=None)])
    rows = ask(db, "report_verdicts")
    assert [row[:4] for row in rows] == [("llm", "compute", 2, 3), ("llm", "host", 1, 3), (None, "host", 1, 1)]
    assert rows[0][4:] == (0.5, 0.4, 0.6, 0.5, S, "host", "fix compute")


def test_incidents_that_touch_the_range_come_worst_first(db: ClickHouseStore) -> None:  # noqa: F811
    put(db, "incidents", [incident("a", "h1", 0, 5, "warning"), incident("b", "h1", 1, None, "warning"),
                          incident("c", "h2", 2, 3, "critical"), incident("d", "h2", 50, 60, "critical")])
    rows = ask(db, "report_incidents", to_ns=str(NOW + 10 * S))
    assert [(row[0], row[1], row[6]) for row in rows] == [
        ("critical", "c", S), ("warning", "b", None), ("warning", "a", 5 * S)]
    assert [row[1] for row in ask(db, "report_incidents", from_ns=str(NOW + 20 * S))] == ["d", "b"]


def test_the_host_with_incidents_comes_first_then_the_one_that_loses_more_than_its_peers(
        db: ClickHouseStore) -> None:  # noqa: F811
    put(db, "windows", [of_host(name, compute=900 * MS, throttled=100 * MS) for name in ("a", "b", "c")])
    put(db, "windows", [of_host("slow", compute=600 * MS, throttled=400 * MS)], offset=1)
    put(db, "windows", [of_host("other", job="alone", host=S)], offset=2)
    put(db, "incidents", [incident("data_loss", "b", 0, None, "warning")])
    rows = {row[0]: row[1:] for row in ask(db, "report_hosts")}
    assert list(rows) == ["b", "slow", "a", "c", "other"]
    assert rows["b"][:5] == (1, 0, 1, 1, "data_loss")
    assert rows["slow"][5:] == ("throttled", 0.4 - 0.1, 1.0, 700)
    assert rows["other"][5:7] == (None, None)  # no host to compare with


def test_gains_put_losses_first_and_say_how_much_faster_at_most(db: ClickHouseStore) -> None:  # noqa: F811
    put(db, "windows", [window(0, compute=400 * MS, host=400 * MS, no_demand=200 * MS)])
    assert ask(db, "report_gains") == [("llm", "host", "loss", 400 * MS, 0.5, 2.0),
                                       ("llm", "compute", "limit", 400 * MS, 0.5, 2.0)]
    assert len(ask(db, "report_gains", top="1")) == 1
