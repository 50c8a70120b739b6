"""Readings as a faulty source gives them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.codec import decode, encode
from fleetscope.contracts.raw import COUNTERS
from simulator.faults.counters import CounterFaults
from simulator.faults.plan import NS, host_plan
from simulator.faults.settings import Clocks, Collection
from tests.unit.simulator.faults.runs import faulty, rows, simulated

TENTH = NS // 10


def readings(*events: dict[str, Any], device: int | None = 0, batches: int = 2) -> list[tuple[str, Any, Any, str]]:
    """(counter, raw, value, status) of 20 readings of a counter and a gauge in two batches of one second."""
    collection = Collection.model_validate({"events": [{"at_s": 0.5, **event} for event in events]})
    faults = CounterFaults(host_plan(Clocks(), collection, 0, 2, 10.0, 1))
    found = []
    for number in range(batches):
        made, at = [], []
        for tenth in range(number * 10, number * 10 + 10):
            made += [{"counter": "bytes", "time_ticks": tenth, "raw": 1_000 * tenth, "status": "ok"},
                     {"counter": "watts", "time_ticks": tenth, "value": 50.0 + tenth, "status": "ok"}]
            at += [tenth * TENTH] * 2
        batch = faults.apply(from_rows(COUNTERS, made), device, np.array(at, dtype=np.int64))
        message = encode(Batch(Header("counters", 1, "h", "h/agent", 1, number, len(made)), batch))
        found += decode(message.key, message.value, message.headers).rows.to_pylist()
    return [(row["counter"], row["raw"], row["value"], row["status"]) for row in found]


def series(found: list[tuple[str, Any, Any, str]], counter: str) -> tuple[list[Any], list[str]]:
    mine = [row for row in found if row[0] == counter]
    return [row[1] if counter == "bytes" else row[2] for row in mine], [row[3] for row in mine]


PLAIN = [1_000 * tenth for tenth in range(20)]


def test_readings_of_other_devices_and_of_the_host_are_left_alone() -> None:
    for device in (None, 1):
        assert series(readings({"kind": "counter_stuck", "device": 0}, device=device), "bytes") == (PLAIN, ["ok"] * 20)


def test_a_stuck_counter_repeats_its_last_reading_and_then_shows_the_truth() -> None:
    found = readings({"kind": "counter_stuck", "for_s": 0.8})
    values, status = series(found, "bytes")
    assert values == PLAIN[:6] + [5_000] * 7 + PLAIN[13:]
    assert status == ["ok"] * 5 + ["stuck"] * 8 + ["ok"] * 7
    assert series(found, "watts")[0][5:13] == [55.0] * 8


def test_a_stuck_counter_that_nobody_notices_says_it_is_fine() -> None:
    values, status = series(readings({"kind": "counter_stuck", "counter": "bytes", "labelled": False}), "bytes")
    assert values[5:15] == [5_000] * 10
    assert set(status) == {"ok"}


def test_a_reset_counter_begins_from_0_and_counts_on() -> None:
    values, status = series(readings({"kind": "counter_reset"}), "bytes")
    assert values == PLAIN[:5] + [1_000 * n for n in range(15)]
    assert [n for n, word in enumerate(status) if word != "ok"] == [5]
    assert status[5] == "reset"


def test_a_narrow_register_wraps_at_its_width_and_loses_nothing_modulo_it() -> None:
    values, status = series(readings({"kind": "counter_wrap", "bits": 16, "margin": 2_500}), "bytes")
    assert values[5] == (1 << 16) - 2_500
    assert max(values[5:]) < 1 << 16
    assert [(b - a) % (1 << 16) for a, b in pairwise(values[5:])] == [1_000] * 14
    assert [n for n, word in enumerate(status) if word == "wrapped"] == [8]


@pytest.mark.parametrize(("labelled", "expected"), [(True, ((None, None), "sentinel")),
                                                    (False, ((0xFFFF_FFFF, 4294967295.0), "ok"))])
def test_a_sentinel_is_null_where_it_is_noticed_and_a_number_where_it_is_not(labelled: bool, expected: Any) -> None:
    found = readings({"kind": "counter_sentinel", "for_s": 0.3, "labelled": labelled})
    (raw, value), status = expected
    assert series(found, "bytes")[0][5:9] == [raw] * 3 + [8_000]
    assert series(found, "watts")[0][5:9] == [value] * 3 + [58.0]
    assert series(found, "watts")[1][5:9] == [status] * 3 + ["ok"]


def test_minus_one_is_told_as_it_comes_and_not_available_is_missing() -> None:
    minus = readings({"kind": "counter_sentinel", "value": -1, "labelled": False})
    assert series(minus, "bytes")[0][5] == -1
    absent = readings({"kind": "counter_sentinel", "value": "N/A", "labelled": False})
    assert (series(absent, "bytes")[0][5], series(absent, "bytes")[1][5]) == (None, "missing")


def test_a_saturated_counter_stands_at_its_top_and_gauges_do_not() -> None:
    found = readings({"kind": "counter_saturated", "bits": 8, "for_s": 0.5})
    assert series(found, "bytes")[0][5:11] == [255] * 5 + [10_000]
    assert series(found, "watts")[0] == [50.0 + n for n in range(20)]


def test_counters_of_a_vanished_device_are_missing() -> None:
    found = readings({"kind": "device_vanish", "device": 0, "for_s": 0.4})
    values, status = series(found, "bytes")
    assert values[4:10] == [4_000, None, None, None, None, 9_000]
    assert status[4:10] == ["ok", *["missing"] * 4, "ok"]


def test_in_a_fleet_the_named_counter_of_the_named_device_is_hit_and_the_truth_says_so() -> None:
    event = {"kind": "counter_stuck", "host": 1, "device": 0, "counter": "power_w", "at_s": 0.5, "for_s": 1.0}
    publications, _, notes = simulated(faulty(collection={"events": [event]}))
    stuck = {(row["device"], row["counter"]) for row in rows(publications, "counters", "sim01")
             if row["status"] == "stuck"}
    assert stuck == {("dev0", "power_w")}
    assert not [row for row in rows(publications, "counters", "sim00") if row["status"] != "ok"]
    assert notes.incidents == [("stuck_counter", "sim01", "dev0", NS // 2, NS * 3 // 2)]
