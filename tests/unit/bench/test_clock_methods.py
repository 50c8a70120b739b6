"""The methods of other tools, and the table made of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.clocks.baselines import METHODS, WINDOW, Lines, Readings, last_two, readings, snapshot, trimmed_window
from bench.clocks.compare import OURS, compare_case
from bench.clocks.document import BEGIN, END, PAGE, TITLES, replaced, text
from bench.clocks.probes import CASES, pcie
from bench.clocks.section import SHORT, clock_methods
from bench.sections import Bench, Options

S = 10**9


def straight(bursts: int = 40, exchanges: int = 4, ppm: int = 20) -> Readings:
    """A source of 1 GHz that runs ``ppm`` slow, read without any delay once a second."""
    y = 5 * S + np.arange(bursts, dtype=np.int64)[:, None] * S + np.arange(exchanges, dtype=np.int64) * 1000
    x = (y - 5 * S) - (y - 5 * S) * ppm // 1_000_000
    return Readings(x, y, np.ones_like(y), S)


@pytest.mark.parametrize("name", METHODS)
def test_a_straight_clock_read_without_delay_is_mapped_to_the_ns_unless_the_slope_is_taken_as_1(name: str) -> None:
    taken = straight()
    truth = np.array([8 * S + 300_000_000, 30 * S], np.int64)
    ticks = (truth - 5 * S) - (truth - 5 * S) * 20 // 1_000_000
    error = METHODS[name](taken).at(ticks, truth) - truth
    limit = 20_000 if name.startswith("nearest") else 2
    assert np.abs(error).max() <= limit


def test_slope_1_is_off_by_the_skew_times_the_age_of_the_snapshot() -> None:
    truth = np.array([10 * S + 500_000_000], np.int64)
    ticks = (truth - 5 * S) - (truth - 5 * S) * 20 // 1_000_000
    assert snapshot(straight()).at(ticks, truth)[0] - truth[0] == pytest.approx(-10_000, abs=30)


def test_the_last_two_calibrations_know_the_rate_only_of_the_past() -> None:
    taken = straight()
    kinked = Readings(taken.x.copy(), taken.y, taken.wait, S)
    kinked.x[20:] += np.arange(20)[:, None] * 1_000  # 1 ppm faster from burst 20 on
    rates = last_two(kinked).rate
    assert rates[20] == pytest.approx(rates[19], rel=1e-9)
    assert rates[21] == pytest.approx(rates[20] - 1e-6, abs=2e-8)


def test_a_slow_exchange_is_dropped_before_the_regression() -> None:
    taken = straight(exchanges=10)
    late = Readings(taken.x, taken.y.copy(), taken.wait.copy(), S)
    late.y[:, 3] += 50_000
    late.wait[:, 3] = 100_000
    lines, clean = trimmed_window(late), trimmed_window(taken)
    at = np.full(1, 20)
    assert abs(int(lines.mapped(late.x[20, :1], at)[0] - clean.mapped(late.x[20, :1], at)[0])) <= 2


def test_a_window_holds_two_bursts_after_the_event_and_no_more() -> None:
    taken = straight()
    broken = Readings(taken.x, taken.y.copy(), taken.wait, S)
    broken.y[25:] += 1_000_000
    same = METHODS["quickest of a burst, 16 bursts regressed (as chrony)"]
    before, after = same(broken), same(taken)
    assert np.array_equal(before.rate[WINDOW:23], after.rate[WINDOW:23])
    assert before.rate[23] != after.rate[23]


def test_a_stretch_is_found_by_the_true_time_so_that_a_clock_which_stepped_back_is_not_mixed_up() -> None:
    lines = Lines(np.array([0, 100]), np.array([0, 50]), np.array([0, 100]), np.array([1.0, 1.0]))
    assert lines.at(np.array([60, 60]), np.array([60, 110])).tolist() == [60, 110]


def test_round_trips_leave_out_the_time_the_other_side_took() -> None:
    taken = readings(pcie(3, 20))
    assert taken.x.shape == taken.y.shape
    assert taken.x.shape[1] == 8
    assert (taken.wait > 0).all()
    assert (np.diff(taken.best[1]) > 0).all()


def test_ours_alone_states_a_bound_and_finds_the_steps() -> None:
    found = compare_case("host-device", (5,), 120)
    ours = found["methods"][OURS]
    assert ours["outside"] == 0
    assert ours["inside"] == 1.0
    assert ours["error_max_ns"] <= ours["bound_max_ns"]
    assert found["steps"] == {"planted": 2, "found": 2, "false": 0}
    others = [figures for name, figures in found["methods"].items() if name != OURS]
    assert len(others) == len(METHODS)
    assert all(figures["inside"] is None and figures["bound_p50_ns"] is None for figures in others)
    assert all(figures["no_bound_share"] == 1.0 for figures in others)
    assert all(figures["error_max_ns"] > 10 * ours["error_max_ns"] for figures in others)


def test_the_short_section_takes_one_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    def noted(*given: Any) -> dict[str, Any]:
        asked.append(given)
        return {}

    monkeypatch.setattr("bench.clocks.section.compare", noted)
    with Bench(Options(short=True), lambda _: None) as bench:
        assert clock_methods(bench) == {"clocks": {}}
    assert asked == [SHORT]


FIGURES: dict[str, Any] = {
    "error_p50_ns": 112.4, "error_p99_ns": 1_730.0, "error_max_ns": 2.5e6, "error_p99_ns_before_step": None,
    "bound_p50_ns": None, "bound_p99_ns": None, "inside": 0.9999999, "outside": 1, "events": 10_000_000,
    "no_bound_share": 0.0, "cpu_us_per_probe": 11.3, "mapped_m_per_s": 254.2}


def test_the_page_has_the_figures_with_units_and_never_rounds_up_to_all() -> None:
    figures = {"seeds": [1, 2], "seconds": 3_600, "events_a_second": 20, "cases": {"host-device": {
        "steps": {"planted": 4, "found": 3, "false": 1}, "state_bytes": 2_048, "methods": {"ours": FIGURES}}}}
    row = "| ours | 112 ns | 1.73 µs | 2.5 ms | – | – | – | 99.9999 % (1 of 10,000,000 outside) | 0 % | 11 | 254 |"
    assert row in text(figures).splitlines()
    assert "Steps found 3 of 4, 1 found that were none; state of the pair 2.0 KiB." in text(figures)
    page = f"before\n{BEGIN}\nold\n{END}\nafter\n"
    assert replaced(page, figures) == f"before\n{BEGIN}\n\n{text(figures)}\n{END}\nafter\n"
    with pytest.raises(ValueError, match="lacks"):
        replaced("nothing", figures)


def test_the_page_shows_every_method_for_every_pair_of_clocks() -> None:
    assert TITLES.keys() == CASES.keys()
    shown = PAGE.read_text().partition(BEGIN)[2].partition(END)[0]
    tables = shown.split("### ")[1:]
    assert [table.splitlines()[0] for table in tables] == list(TITLES.values())
    for table in tables:
        assert [line.split(" | ")[0] for line in table.splitlines() if line.startswith("| ")][1:] == [
            f"| {name}" for name in (OURS, *METHODS)]
