"""Amounts of counters in a window, by interpolation between readings."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.windows.readings import Readings, counted, forget, run_wait_share, series_of, touches

S = 1_000_000_000
MS = 1_000_000
LOOKBACK = S


def readings(device: str, counter: str, values: dict[int, float], instance: str = "") -> Readings:
    """By ms."""
    return {series_of(device, counter, instance): [[time * MS, value] for time, value in values.items()]}


def conflict(values: dict[int, float], mhz: float | None = 1_000.0) -> float | None:
    """ns of 1 GHz cycles in the window of the first second after the first."""
    return counted(readings("dev0", "sram_conflict_cycles", values), "dev0", S, 2 * S, LOOKBACK, mhz).conflict_ns


def test_an_interval_across_the_edge_counts_by_its_part_inside() -> None:
    assert conflict({900: 0, 1_100: 200, 1_500: 1_000, 1_999: 1_000}) == pytest.approx(100 + 800, abs=1)


def test_the_end_of_the_window_goes_on_at_the_last_rate() -> None:
    assert conflict({1_000: 0, 1_500: 500}) == pytest.approx(1_000)


def test_a_counter_that_began_inside_stands_for_the_whole_window() -> None:
    assert conflict({1_500: 0, 1_600: 100}) == pytest.approx(1_000)


def test_steps_back_tell_nothing_and_the_rest_stands_for_them() -> None:
    assert conflict({1_000: 900, 1_200: 1_100, 1_400: 0, 1_600: 200, 1_999: 599}) == pytest.approx(1_000, rel=1e-3)


def test_one_reading_or_readings_long_ago_tell_nothing() -> None:
    assert conflict({1_500: 7}) is None
    assert conflict({-500: 0, -400: 100, 1_900: 7}) is None
    assert conflict({500: 0, 600: 100}) is None


def test_without_a_full_clock_cycles_are_no_time() -> None:
    assert conflict({1_000: 0, 1_900: 900}, None) is None


def test_later_readings_change_nothing_and_neither_does_the_order() -> None:
    values = {900: 0, 1_100: 200, 1_300: 250, 1_800: 1_000}
    plain = conflict(values)
    shuffled = list((values | {2_000: 5_000, 2_100: 9_000}).items())
    random.Random(3).shuffle(shuffled)
    assert conflict(dict(shuffled)) == plain


@given(st.lists(st.integers(1, 400), min_size=3, max_size=30), st.integers(1, 50))
def test_a_steady_counter_has_its_rate_in_every_window_it_covers(gaps: list[int], rate: int) -> None:
    times = [500 + sum(gaps[:n]) for n in range(len(gaps))]
    found = conflict({time: time * rate for time in times})
    if sum(1_000 < time < 2_000 for time in times) >= 2:
        assert found == pytest.approx(rate * 1_000)


def test_spills_are_a_share_of_the_bytes_moved() -> None:
    moved = readings("dev0", "hbm_bytes", {1_000: 0, 1_900: 900})
    both = moved | readings("dev0", "spill_bytes", {1_000: 0, 1_900: 90})
    assert counted(both, "dev0", S, 2 * S, LOOKBACK, None).spill_share == pytest.approx(0.1)
    assert counted(moved, "dev0", S, 2 * S, LOOKBACK, None).spill_share is None


def test_the_stretch_is_weighted_by_how_busy_the_engines_were() -> None:
    found = (readings("dev0", "clock_mhz", {1_100: 500.0, 1_200: 1_000.0, 1_300: 250.0})
             | readings("dev0", "engine_active", {1_100: 0.6, 1_200: 0.2, 1_300: 0.0}, "matrix")
             | readings("dev0", "engine_active", {1_100: 1.0, 1_200: 1.0, 1_300: 1.0}, "pcie_h2d"))
    assert counted(found, "dev0", S, 2 * S, LOOKBACK, 1_000.0).stretch == pytest.approx((0.6 * 1 + 0.2 * 0) / 0.8)
    clock = readings("dev0", "clock_mhz", {1_100: 2_000.0, 1_200: 500.0})
    assert counted(clock, "dev0", S, 2 * S, LOOKBACK, 1_000.0).stretch == pytest.approx(0.5)  # never shorter


def test_pipes_are_told_by_engine() -> None:
    found = readings("dev0", "pipe_active_cycles", {1_000: 0, 1_999: 499.5}, "matrix")
    assert counted(found, "dev0", S, 2 * S, LOOKBACK, 1_000.0).occupied_ns == {
        "engine:matrix": pytest.approx(500, rel=1e-3)}


def test_run_wait_is_that_of_the_rank() -> None:
    found = readings("", "cpu_run_wait_us", {1_000: 0, 1_999: 499_500}, "3")
    assert run_wait_share(found, 3, S, 2 * S, LOOKBACK) == pytest.approx(0.5)
    assert run_wait_share(found, 2, S, 2 * S, LOOKBACK) == 0.0


def test_what_no_window_looks_at_is_forgotten() -> None:
    found = readings("dev0", "hbm_bytes", {1_000: 0, 2_000: 1}) | readings("dev1", "hbm_bytes", {1_000: 0})
    forget(found, 1_500 * MS)
    assert found == {series_of("dev0", "hbm_bytes", ""): [[2_000 * MS, 1]]}


def test_a_late_reading_touches_its_window_and_those_that_look_back_to_it() -> None:
    assert touches([1_500 * MS], LOOKBACK, S, 10 * S) == {S, 2 * S}
    assert touches([1_500 * MS], LOOKBACK, S, 2 * S) == {S}
