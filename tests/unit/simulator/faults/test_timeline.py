from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.faults.timeline import NS, Change, pieces

OFFSET_NS = 86_400 * NS
GRID = np.arange(0, 10 * NS, 7_654_321, dtype=np.int64)


def reading(changes: list[Change], tau: list[int] | np.ndarray, ppm: float = 0.0) -> list[int]:
    made, _ = pieces(changes, OFFSET_NS, lambda at: int(at * ppm * 1e-6))
    assert made is not None
    moved, running = made.moved(np.asarray(tau, dtype=np.int64))
    return [int(m) + OFFSET_NS + int(r * ppm * 1e-6) for m, r in zip(moved, running, strict=True)]


def test_nothing_planned_is_no_piece() -> None:
    assert pieces([], 0, lambda at: 0) == (None, ())


def test_a_jump_moves_every_later_reading_by_its_size_and_no_earlier_one() -> None:
    before, at, after = reading([Change(2 * NS, "jump", -250)], [2 * NS - 1, 2 * NS, 3 * NS])
    assert (before, at, after) == (OFFSET_NS + 2 * NS - 1, OFFSET_NS + 2 * NS - 250, OFFSET_NS + 3 * NS - 250)


def test_a_restarted_clock_reads_what_it_was_told_whatever_its_oscillator_had_done() -> None:
    at, later = reading([Change(2 * NS, "restart", 5)], [2 * NS, 2 * NS + 1000], ppm=30)
    assert (at, later) == (5, 1005)


@given(st.floats(-100, 100), st.integers(1, NS), st.integers(1, 5 * NS))
def test_a_stopped_clock_stands_still_and_goes_on_where_it_stood(ppm: float, at: int, length: int) -> None:
    changes = [Change(at, "stop", 0, "stuck"), Change(at + length, "go", 0, "stuck")]
    first, middle, last, on = reading(changes, [at, at + length // 2, at + length, at + length + 1_000_000], ppm)
    assert first == middle == last
    assert on - last == pytest.approx(1_000_000, abs=102)  # 100 ppm and two roundings
    _, (step,) = pieces(changes, OFFSET_NS, lambda tau: int(tau * ppm * 1e-6))
    assert (step.at_ns, step.size_ns, step.cause) == (at, -length, "stuck")


def test_a_clock_stopped_for_two_reasons_goes_on_when_both_are_over() -> None:
    changes = [Change(1 * NS, "stop"), Change(2 * NS, "stop"), Change(3 * NS, "go"), Change(4 * NS, "go")]
    one, three, five = reading(changes, [1 * NS, 3 * NS + 5, 5 * NS])
    assert (three - one, five - one) == (0, NS)
    assert [step.size_ns for step in pieces(changes, 0, lambda at: 0)[1]] == [-3 * NS]


def test_rates_are_exact_over_a_month_and_make_no_step() -> None:
    month = 30 * 86_400 * NS
    changes = [Change(0, "rate", 400_000_000), Change(month, "rate", NS)]
    end, later = reading(changes, [month, month + 1])
    assert end - OFFSET_NS == month * 4 // 10
    assert later - end == 1
    assert pieces(changes, 0, lambda at: 0)[1] == ()


def test_a_slew_is_taken_off_again_and_leaves_what_it_made_up_for() -> None:
    changes = [Change(NS, "slew", 500_000), Change(3 * NS, "slew", -500_000)]
    assert reading(changes, [4 * NS])[0] - OFFSET_NS - 4 * NS == 1_000_000


@given(st.lists(st.tuples(st.integers(0, 10 * NS), st.sampled_from(["rate", "slew", "stop"]),
                          st.integers(NS // 100, 2 * NS)), max_size=8))
def test_without_jumps_and_restarts_no_clock_goes_back(events: list[tuple[int, str, int]]) -> None:
    changes = []
    for at, kind, amount in events:
        if kind == "stop":
            changes += [Change(at, "stop"), Change(at + amount, "go")]
        else:
            changes.append(Change(at, kind, amount if kind == "rate" else amount // 1000))  # type: ignore[arg-type]
    if changes:
        assert (np.diff(reading(changes, GRID, ppm=-50)) >= 0).all()
