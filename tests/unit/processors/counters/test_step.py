"""Incidents of counters and devices, from what a host reads."""

from __future__ import annotations

import json
from typing import Any

from fleetscope.step import replay
from processors.counters.step import CountersStep
from tests.unit.processors.counters.readings import START_NS, STEP_NS, Change, Row, messages


def incidents(change: Change, seconds: int = 8, **more: Any) -> list[Row]:
    """As the store shows them: the latest of each."""
    made = replay(CountersStep(), [batch for _, batch in messages(seconds, change, **more)])
    rows: dict[tuple[Any, ...], Row] = {}
    for row in (row for output in made for row in output.batch.rows.to_pylist()):
        rows[row["device"], row["kind"], row["start_ns"]] = row
    return list(rows.values())


def at(number: int) -> int:
    return START_NS + number * STEP_NS


def told(rows: list[Row]) -> list[tuple[Any, ...]]:
    """(device, kind, first and last reading by number)."""
    return [(r["device"], r["kind"], (r["start_ns"] - START_NS) / STEP_NS,
             None if r["end_ns"] is None else (r["end_ns"] - START_NS) / STEP_NS) for r in rows]


def only(device: str, counter: str | None, first: int, last: int, **values: Any) -> Change:
    def change(row: Row, number: int) -> Row:
        hit = row["device"] == device and counter in (None, row["counter"]) and first <= number < last
        return row | values if hit else row
    return change


def test_a_host_whose_counters_are_in_order_has_no_incident() -> None:
    assert incidents(lambda row, number: row) == []


def test_readings_that_are_no_numbers_are_an_incident_until_all_are_numbers_again() -> None:
    (row,) = incidents(only("dev1", "power_w", 30, 37, value=None, status="sentinel"))
    assert told([row]) == [("dev1", "counter_invalid", 30, 37)]
    assert json.loads(row["evidence"]) == {"counters": ["power_w"], "detected_ns": at(30)}


def test_a_reset_is_an_incident_and_a_wrap_is_none() -> None:
    def falls(row: Row, number: int) -> Row:
        hit = number >= 40 and row["counter"] == "other_bytes" and row["device"] == "dev0"
        return row | {"raw": row["raw"] - 2_800} if hit else row
    (row,) = incidents(falls)
    assert told([row]) == [("dev0", "counter_reset", 39, 40)]

    def wraps(row: Row, number: int) -> Row:
        return row if row["raw"] is None else row | {"raw": (row["raw"] + (1 << 16) - 30_000) % (1 << 16)}
    assert incidents(wraps, bits=16) == []


def test_several_counters_reset_at_once_are_one_incident() -> None:
    def falls(row: Row, number: int) -> Row:
        return row | {"raw": row["raw"] % 40_000} if row["counter"] == "work_bytes" and number >= 40 else row
    rows = incidents(falls)
    assert sorted(told(rows)) == [(device, "counter_reset", 39, 40) for device in ("dev0", "dev1", "dev2")]


def test_a_counter_that_stands_still_while_its_device_works_is_stuck_until_it_moves() -> None:
    change = only("dev2", "work_bytes", 40, 55, raw=40_000)
    (row,) = incidents(change)
    assert told([row]) == [("dev2", "stuck_counter", 40, 55)]
    assert at(43) <= json.loads(row["evidence"])["detected_ns"] <= at(50)
    assert incidents(change, busy=False) == []
    assert incidents(only("dev2", "work_bytes", 5, 12, raw=5_000)) == []


def test_a_labelled_stuck_counter_is_believed() -> None:
    assert told(incidents(only("dev0", "power_w", 12, 20, status="stuck"))) == [("dev0", "stuck_counter", 12, 20)]


def test_a_device_whose_readings_are_all_missing_has_vanished_until_it_is_back() -> None:
    rows = incidents(only("dev1", None, 30, 45, raw=None, value=None, status="missing"))
    assert told(rows) == [("dev1", "device_vanished", 30, 45)]
    assert incidents(only("dev1", "power_w", 30, 45, value=None, status="missing")) == []


def test_a_device_that_is_read_no_more_while_others_are_has_vanished() -> None:
    def silent(row: Row, number: int) -> Row | None:
        return None if row["device"] == "dev1" and 30 <= number < 95 else row
    (row,) = incidents(silent, 11)
    assert told([row]) == [("dev1", "device_vanished", 29, 95)]
    assert json.loads(row["evidence"]) == {"detected_ns": at(80)}
    assert incidents(silent, 11, lost=(3, 4)) == []
    assert incidents(lambda row, number: None if 30 <= number < 95 else row, 11) == []


def test_one_batch_that_could_not_be_read_is_no_device_that_vanished() -> None:
    assert incidents(lambda row, number: None if row["device"] == "dev1" and 30 <= number < 79 else row, 11) == []


def test_readings_whose_time_has_no_bound_are_not_compared_and_no_absence() -> None:
    def unsure(row: Row, number: int) -> Row:
        if row["device"] != "dev1" or not 20 <= number < 90:
            return row
        earlier = row["time_ns"] - (number % 3) * 4 * STEP_NS  # out of order
        return row | {"err_ns": None, "alignment": "gap", "time_ns": earlier}
    assert incidents(unsure, 11) == []


def test_what_is_not_over_stays_open() -> None:
    assert told(incidents(only("dev1", "power_w", 70, 99, value=None, status="sentinel"))) == [
        ("dev1", "counter_invalid", 70, None)]


def test_readings_wait_for_the_windows_that_say_whether_the_device_worked() -> None:
    step = CountersStep()
    state = step.start()
    made = messages(8, only("dev1", "power_w", 30, 37, value=None, status="sentinel"), end=False)
    for topic, batch in made:
        if topic != "windows":
            state, out = step.on_batch(state, batch)
            assert out == []
    rows = [r for topic, b in made if topic == "windows" for o in step.on_batch(state, b)[1]
            for r in o.batch.rows.to_pylist()]
    assert [row["end_ns"] for row in rows] == [None, at(37)]
