"""The queries about clocks: a few rows in, exact rows out."""

from __future__ import annotations

from typing import Any

import pytest

from fleetscope.store.clickhouse import ClickHouseStore
from tests.sql.test_queries import NOW, S, ask, db, put

__all__ = ["db"]

ONE = 1 << 32
END = 1 << 62
RAW = ("h1", "gpu0", "h1", "monotonic_raw")
FLEET = ("h1", "monotonic_raw", "h0", "fleet")


def piece(start: int, stop: int, dst0: int, err: int | None = 600, state: str = "settled", epoch: int = 0,
          clock: str = "gpu0", rate: int = ONE, **more: Any) -> dict[str, Any]:
    """A piece of the device's map; the device counts ns, and ``start`` and ``dst0`` are the anchor."""
    return {"host": "h1", "clock": clock, "target_host": "h1", "target_clock": "monotonic_raw", "epoch": epoch,
            "valid_from_ticks": start, "valid_to_ticks": stop, "src0_ticks": start, "dst0_ticks": dst0,
            "rate_q32": rate, "err_ns": err, "state": state, **more}


def fleet(start: int, stop: int, dst0: int, err: int | None = 1, **more: Any) -> dict[str, Any]:
    return piece(start, stop, dst0, err, clock="monotonic_raw", target_host="h0", target_clock="fleet", **more)


@pytest.fixture
def mapped(db: ClickHouseStore) -> ClickHouseStore:
    """The device stepped back by 4 s at 20 s of the host's clock, with a gap of 1 s; fleet time is NOW + host time."""
    put(db, "segments", [
        fleet(0, 40 * S, NOW, utc_err_ns=70),
        fleet(40 * S, END, NOW + 40 * S, None, state="gap"),
        piece(0, 10 * S, 10 * S), piece(10 * S, 20 * S, 20 * S, 900, "provisional"),
        piece(20 * S, 21 * S, 30 * S, None, "gap"), piece(17 * S, 26 * S, 31 * S, 500, epoch=1)])
    return db


def test_bounds_over_time_are_weighted_by_time_and_a_step_without_bound_is_null(mapped: ClickHouseStore) -> None:
    rows = ask(mapped, "clock_bounds", step_ns=str(10 * S), clock="gpu0")
    start = NOW // (10 * S) * 10 * S
    assert [row[:4] for row in rows] == [RAW] * 3
    assert [row[4:] for row in rows] == [
        (start + 10 * S, 600, 600, 600, None, 1.0, 0.0, 0.0),
        (start + 20 * S, 900, 900, 900, None, 0.0, 1.0, 0.0),
        (start + 30 * S, 500, 500, 500, None, 0.9, 0.0, 0.1)]
    assert ask(mapped, "clock_bounds", clock="monotonic_raw")[0][5:9] == (1, 1, 1, 70)
    assert ask(mapped, "clock_bounds", clock="gpu0", from_ns=str(NOW + 30 * S), to_ns=str(NOW + 31 * S))[0][5:] == (
        None, None, None, None, 0.0, 0.0, 1.0)


def test_a_step_has_its_time_size_and_gap(mapped: ClickHouseStore) -> None:
    assert ask(mapped, "clock_steps") == [(*RAW, 1, NOW + 31 * S, 31 * S - 27 * S, 500 + 900, S)]
    assert ask(mapped, "clock_steps", from_ns=str(NOW + 32 * S)) == []
    assert ask(mapped, "clock_steps", host="h2") == []


def test_a_step_to_the_map_before_it_is_told_by_its_rate(db: ClickHouseStore) -> None:
    put(db, "segments", [fleet(0, 40 * S, NOW), piece(0, 10 * S, 0, rate=2 * ONE),
                         piece(11 * S, 12 * S, 22 * S + 5, epoch=1)])
    assert ask(db, "clock_steps")[0][5:] == (NOW + 22 * S + 5, 5, 1_200, 2 * S + 5)


def test_an_epoch_after_one_without_any_bound_has_no_size(db: ClickHouseStore) -> None:
    put(db, "segments", [piece(0, S, 0, None, "gap"), piece(S, 2 * S, S, epoch=1)])
    assert ask(db, "clock_steps") == [(*RAW, 1, None, None, None, None)]


def test_pairs_in_gap_are_those_that_end_in_one_and_are_not_closed(db: ClickHouseStore) -> None:
    put(db, "segments", [fleet(0, 9 * S, NOW), piece(0, 2 * S, S), piece(2 * S, 3 * S, 3 * S, None, "gap"),
                         piece(3 * S, 5 * S, 4 * S, None, "gap", epoch=1),
                         piece(0, 2 * S, S, None, "gap", clock="gpu1")])
    assert ask(db, "clock_pairs_in_gap") == [
        (*RAW, NOW + 3 * S, 600, 3 * S), ("h1", "gpu1", "h1", "monotonic_raw", None, None, 2 * S)]
    put(db, "segments", [piece(5 * S, END, 6 * S, None, "gap", epoch=1),
                         piece(2 * S, 4 * S, 3 * S, clock="gpu1")], offset=1)
    assert ask(db, "clock_pairs_in_gap") == []


def violation(at: int, beyond: int, row: int = 0, **more: Any) -> dict[str, Any]:
    sides = {f"{side}_{name}": value for side, clock, track in (("cause", "monotonic_raw", "driver"),
                                                                ("effect", "gpu0", "engine:0"))
             for name, value in (("clock", clock), ("track", track), ("name", f"{side} {row}"),
                                 ("producer", "agent"), ("epoch", 3), ("sequence", 8), ("row", row))}
    return {"host": "h1", "rule": "submission", "time_ns": at, "process_id": 7, "correlation_id": 40 + row,
            "inversion_ns": beyond + 100, "beyond_ns": beyond, **sides, **more}


def test_inversions_are_counted_by_pair_and_hour_with_both_events_of_the_worst(db: ClickHouseStore) -> None:
    hour = NOW // (3_600 * S) * 3_600 * S
    put(db, "causality_violations", [violation(hour, 5), violation(hour + S, 70, 1), violation(hour + 2 * S, 6, 2),
                                     violation(hour + 3_600 * S, 9, 3)])
    put(db, "causality_violations", [violation(hour, 5)], offset=1)
    first, second = ask(db, "clock_inversions")
    assert first == ("h1", "submission", "monotonic_raw", "gpu0", hour, 3, 6, 70, 7, 41, "driver cause 1",
                     "agent 3 8 1", "engine:0 effect 1", "agent 3 8 1")
    assert second[4:8] == (hour + 3_600 * S, 1, 9, 9)
    assert ask(db, "clock_inversions", to_ns=str(hour + 1))[0][5] == 1
    assert ask(db, "clock_inversions", host="h2") == []


def test_the_order_check_tells_what_is_in_order_indeterminate_and_wrong(db: ClickHouseStore) -> None:
    def work(correlation: int, start: int, err: int | None) -> dict[str, Any]:
        return {"device": "gpu0", "track": "engine:0", "name": "k", "start_ns": NOW + start, "err_ns": err,
                "process_id": 7, "correlation_id": correlation, "alignment": "settled"}

    def submitted(correlation: int) -> dict[str, Any]:
        return {"track": "driver", "name": "submit", "start_ns": NOW, "duration_ns": 1_000, "err_ns": 100,
                "process_id": 7, "correlation_id": correlation, "alignment": "settled"}

    put(db, "aligned_spans", [
        *(submitted(c) for c in range(1, 8)), work(1, 9_000, 400), work(2, 1_000, 400), work(3, 500, 400),
        work(4, 499, 400), work(5, 400, 400), work(6, 1_500, None), work(99, 0, 1)])
    assert ask(db, "clock_order_check") == [("h1", "gpu0", 6, 1, 2, 1, 2, 2, -500, 0.4)]
    flag = violation(NOW + 499, 1, process_id=7, correlation_id=4, cause_producer="host-1/agent", cause_epoch=7,
                     cause_sequence=0, cause_row=3, effect_producer="host-1/agent", effect_epoch=7, effect_sequence=0,
                     effect_row=10)
    put(db, "causality_violations", [flag])
    assert ask(db, "clock_order_check")[0][6:8] == (2, 1)
    assert ask(db, "clock_order_check", from_ns=str(NOW + 9_000))[0][2:8] == (1, 0, 1, 0, 0, 0)


def test_the_assumptions_are_estimated_from_settled_pieces_of_one_epoch(db: ClickHouseStore) -> None:
    def stretch(number: int, tick: int, **more: Any) -> dict[str, Any]:
        return piece(tick, tick + S, number * 10 * S, 1_000, **more)

    ppm = 10 * S // 10**6
    ticks = [0, 10 * S, 20 * S - 20 * ppm, 30 * S - 50 * ppm]  # the device runs at 0, −20 and −30 ppm of the host's
    put(db, "segments", [stretch(n, t) for n, t in enumerate(ticks)])
    put(db, "segments", [stretch(4, 90 * S, epoch=1), stretch(5, 100 * S, epoch=1),
                         stretch(6, 1, state="provisional", epoch=1)], offset=1)
    fact = {"kind": "clock", "component": "gpu0", "attribute": "hz", "number": 1e9, "time_ns": NOW,
            "alignment": "settled"}
    ((*_, stretches, p50, largest, change_p50, change_max, noise, noise_change),) = ask(db, "clock_assumptions")
    assert (stretches, p50, largest) == (4, None, None)
    put(db, "aligned_inventory", [fact])
    ((*_, stretches, p50, largest, change_p50, change_max, noise, noise_change),) = ask(db, "clock_assumptions")
    assert stretches == 4
    assert largest == pytest.approx(30.0, abs=0.01)
    assert p50 == pytest.approx(20.0, abs=0.01) or p50 == pytest.approx(0.0, abs=0.01)
    assert change_max == pytest.approx(2.0, abs=0.01)
    assert change_p50 == pytest.approx(2.0, abs=0.01) or change_p50 == pytest.approx(1.0, abs=0.01)
    assert noise == pytest.approx(0.2, abs=0.001)
    assert noise_change == pytest.approx(0.04, abs=0.001)


def test_a_clock_whose_host_has_no_map_to_fleet_time_has_pieces_without_a_time(db: ClickHouseStore) -> None:
    put(db, "segments", [piece(0, S, 5 * S, rate=3 * ONE // 2)])
    assert db.query("SELECT time_ns, target_from, length_ns FROM clock_pieces").to_pylist() == [
        {"time_ns": None, "target_from": 5 * S, "length_ns": 3 * S // 2}]
    put(db, "segments", [fleet(5 * S, 9 * S, NOW)], offset=1)
    assert db.query("SELECT time_ns FROM clock_pieces WHERE clock = 'gpu0'").to_pylist() == [{"time_ns": NOW}]
