"""One counter: wraps, resets and steps back are three things; it is stuck only where chance cannot explain it."""

from __future__ import annotations

import pytest

from processors.counters.series import Series

NS = 1_000_000_000
TOP32 = (1 << 32) - 1


def fed(*values: float, top: int | None = TOP32, every_ns: int = NS // 10) -> tuple[Series, list[str]]:
    series = Series()
    return series, [series.read(value, n * every_ns, top) for n, value in enumerate(values)]


def test_a_register_that_passes_its_top_wraps() -> None:
    assert fed(TOP32 - 300, TOP32 - 200, TOP32 - 100, TOP32, 99)[1][-1] == "wrap"
    assert fed(TOP32 - 10, 50)[1] == ["first", "wrap"]


def test_a_fall_that_no_wrap_explains_is_a_reset() -> None:
    assert fed(1000, 2000, 3000, 4000, 5000, 0)[1][-1] == "reset"
    assert fed(*range(1_000_000, 1_010_000, 1_000), 7, top=(1 << 63) - 1)[1][-1] == "reset"
    assert fed(10_000, 5)[1] == ["first", "reset"]


def test_the_width_decides_between_a_wrap_and_a_reset() -> None:
    values = (65_000, 65_200, 65_400, 65_500, 60)
    assert fed(*values, top=(1 << 16) - 1)[1][-1] == "wrap"
    assert fed(*values, top=TOP32)[1][-1] == "reset"


def test_a_small_step_back_is_neither() -> None:
    assert fed(1000, 2000, 3000, 4000, 3990, 5000)[1] == ["first", *["moved"] * 3, "jitter", "moved"]


def test_a_gauge_may_fall() -> None:
    assert fed(5.0, 1.0, 1.0, top=None)[1] == ["first", "moved", "still"]


def judged(values: list[float], *, busy: bool = True, at_limit: bool = False, top: int | None = TOP32) -> list[bool]:
    series = Series()
    return [series.judge(series.read(value, n, top), busy=busy, at_limit=at_limit) for n, value in enumerate(values)]


def test_a_counter_that_always_moved_is_stuck_after_a_few_readings_and_no_longer_when_it_moves() -> None:
    found = judged([*range(50), *[49.0] * 8, 60.0])
    assert not any(found[:52])
    assert found[57]
    assert not found[58]


def test_nothing_is_stuck_before_it_is_known_how_often_it_moves() -> None:
    assert not any(judged([*range(10), *[9.0] * 100]))


def test_a_counter_that_seldom_moves_is_never_stuck() -> None:
    assert not any(judged([n // 10 for n in range(300)]))
    coarse = [30.0 + (n % 2) for n in range(60)]
    coarse[::3] = coarse[1::3]
    assert not any(judged([*coarse, *[31.0] * 60], top=None))


@pytest.mark.parametrize("how", ["idle", "limit"])
def test_a_stand_of_an_idle_device_or_at_a_limit_says_nothing(how: str) -> None:
    values = [*range(50), *[49.0] * 50]
    assert not any(judged(values, busy=how != "idle", at_limit=how == "limit"))


def test_a_gauge_that_drifted_may_have_settled_and_one_that_always_trembled_is_stuck() -> None:
    warming = [20.0 + n for n in range(50)]
    trembling = [300.0 + 10 * (n % 2) + n % 7 for n in range(50)]
    assert not any(judged([*warming, *[69.0] * 30], top=None))
    assert any(judged([*trembling, *[300.0] * 30], top=None)[50:])


def test_after_a_reading_that_was_none_there_is_nothing_to_compare_with() -> None:
    series, _ = fed(1000, 2000)
    series.forget()
    assert series.read(5, NS, TOP32) == "first"
