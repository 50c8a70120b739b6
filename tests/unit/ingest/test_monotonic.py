"""Counters that go backwards never become a spike."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetscope.contracts.counters import CounterDescriptor
from ingest.monotonic import JITTER_FLOOR, JITTER_READINGS, Tracker, classify, delta
from ingest.reading import Reading, count

WIDE = CounterDescriptor("wide", "B", 64)
NARROW = CounterDescriptor("narrow", "B", 32)
TOP32 = 1 << 32


def _statuses(tracker: Tracker, descriptor: CounterDescriptor, values: list[int | None]) -> list[str]:
    return [tracker.observe([count("t", descriptor, value)])[0].status for value in values]


@pytest.mark.parametrize(("previous", "current", "width", "largest", "status"), [
    (5, 5, 64, None, "ok"),
    (5, 9, 64, None, "ok"),
    (TOP32 - 10, 20, 32, 100, "wrapped"),
    (TOP32 - 10, 20, 32, None, "wrapped"),
    (TOP32 - 10, 20, 64, None, "reset"),
    (TOP32 - 10, 500_000, 32, 10, "reset"),
    (TOP32 - 10, TOP32 // 4, 32, None, "reset"),
    (5 * TOP32 + 7, 4 * TOP32 + 9, 32, 10, "wrapped"),
    (1_000_000, 0, 64, None, "reset"),
    (1_000_000, 17, 64, None, "reset"),
    (1_000_000, 999_999, 64, None, "jitter"),
    (1_000_000, 999_100, 64, None, "jitter"),
    (1_000_000, 990_000, 64, None, "reset"),
    (3, 0, 64, None, "reset"),
    (3, 1, 64, None, "jitter"),
])
def test_a_step_has_one_cause(previous: int, current: int, width: int, largest: int | None, status: str) -> None:
    assert classify(previous, current, width, largest) == status


@given(st.integers(0, TOP32 - 1), st.integers(0, TOP32 - 1), st.one_of(st.none(), st.integers(0, TOP32)))
def test_a_difference_is_never_negative_and_never_beyond_what_a_wrap_may_be(
        previous: int, current: int, largest: int | None) -> None:
    status = classify(previous, current, 32, largest)
    step = delta(previous, current, status, 32)
    if status in ("reset", "jitter"):
        assert step is None
    else:
        assert step is not None
        assert step >= 0
        assert (previous + step) % TOP32 == current
        if status == "wrapped":
            assert step <= TOP32 // 16


@given(st.integers(0, TOP32 - 1), st.lists(st.integers(0, 1_000_000), min_size=2, max_size=40))
def test_a_register_that_wraps_gives_back_every_true_difference(start: int, steps: list[int]) -> None:
    # A first step of the usual size, as a wrap is judged by the steps before it.
    pace = max(steps) + 1
    tracker, total = Tracker((NARROW,)), start
    values = [start % TOP32]
    for step in [pace, *steps]:
        total += step
        values.append(total % TOP32)
    statuses = _statuses(tracker, NARROW, list(values))
    assert set(statuses) <= {"ok", "wrapped"}
    found = [delta(a, b, s, 32) for a, b, s in zip(values, values[1:], statuses[1:], strict=False)]
    assert found == [pace, *steps]


@given(st.integers(1_000_000, 1 << 62), st.lists(st.integers(1, 1_000), min_size=1, max_size=20), st.integers(0, 1_000))
def test_a_reset_loses_one_difference_and_invents_none(start: int, steps: list[int], after: int) -> None:
    values = [start]
    for step in steps:
        values.append(values[-1] + step)
    values += [after, after + 5]
    statuses = _statuses(Tracker((WIDE,)), WIDE, list(values))
    assert statuses[-2:] == ["reset", "ok"]
    found = [delta(a, b, s, 64) for a, b, s in zip(values, values[1:], statuses[1:], strict=False)]
    assert found == [*steps, None, 5]


def test_after_jitter_counting_goes_on_from_the_value_before_it() -> None:
    tracker = Tracker((WIDE,))
    assert _statuses(tracker, WIDE, [100_000, 99_990, 99_995, 100_007]) == ["ok", "jitter", "jitter", "ok"]
    assert delta(100_000, 100_007, "ok", 64) == 7


def test_a_counter_that_stays_behind_was_reset_after_all() -> None:
    values: list[int | None] = [JITTER_FLOOR, *range(1, JITTER_READINGS + 3)]
    assert _statuses(Tracker((WIDE,)), WIDE, values) == ["ok", *["jitter"] * JITTER_READINGS, "reset", "ok"]


def test_the_raw_value_stays_exact_whatever_the_status() -> None:
    tracker = Tracker((WIDE,))
    for value in ((1 << 62) + 1, (1 << 62) - 1, 3):
        (reading,) = tracker.observe([count("t", WIDE, value)])
        assert reading.raw == value


def test_a_series_that_vanishes_is_missing_once_and_starts_anew_when_it_comes_back() -> None:
    tracker = Tracker((WIDE,))
    eth0 = Reading("t", "wide", "eth0", raw=50)
    tracker.observe([eth0])
    assert tracker.observe([]) == [Reading("t", "wide", "eth0", raw=None, status="missing")]
    assert tracker.observe([]) == []
    assert tracker.observe([Reading("t", "wide", "eth0", raw=20)])[0].status == "ok"


def test_all_ones_is_a_sentinel_and_what_int64_cannot_hold_is_saturated() -> None:
    assert count("t", WIDE, (1 << 64) - 1) == Reading("t", "wide", status="sentinel")
    assert count("t", WIDE, 1 << 63) == Reading("t", "wide", status="saturated")
    top = CounterDescriptor("errors", "errors", 16, "saturating")
    assert count("t", top, 65_535).status == "saturated"
    assert count("t", top, 65_534).status == "ok"
