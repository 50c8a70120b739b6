"""Who is called silent, by the time of the others and in the order of one log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from processors.silence.watch import Beat, Fleet, Limits, Told

NS = 1_000_000_000
LIMITS = Limits(missed=3, gone_s=60.0, closed_s=10.0)
START = {"a": 500 * NS, "b": 9_000 * NS, "c": 70 * NS}


def beats(host: str, first: int, last: int, *, closed: bool = False, run: int = 1) -> list[tuple[int, Beat]]:
    """A beat a second, as (second, beat); the clocks of the hosts do not agree."""
    made = [(second, Beat(host, run, START[host] + second * NS, False)) for second in range(first, last)]
    if closed:
        made[-1] = (last - 1, Beat(host, run, START[host] + (last - 1) * NS, True))
    return made


def live(*series: list[tuple[int, Beat]]) -> list[Beat]:
    """All beats in the order of their time."""
    return [beat for _, beat in sorted((item for one in series for item in one), key=lambda item: item[0])]


def told(order: Iterable[Beat], fleet: Fleet | None = None) -> Iterator[Told]:
    fleet = fleet or Fleet()
    for beat in order:
        yield from fleet.beat(beat, LIMITS)


def test_a_host_is_silent_after_three_of_its_usual_intervals_and_gone_after_a_minute() -> None:
    found = list(told(live(beats("a", 0, 100), beats("b", 0, 20))))
    last = START["b"] + 19 * NS
    assert found == [Told("b", "silent", last, last + 3 * NS), Told("b", "gone", last, last + 60 * NS)]


def test_a_host_that_comes_back_is_told_with_the_time_that_has_passed() -> None:
    found = list(told(live(beats("a", 0, 60), beats("b", 0, 20), beats("b", 30, 60))))
    assert [item.state for item in found] == ["silent", "back"]
    assert found[1] == Told("b", "back", START["b"] + 19 * NS, START["b"] + 30 * NS)


def test_a_host_that_delivers_later_what_it_kept_was_silent_meanwhile() -> None:
    kept = [(50, beat) for _, beat in beats("b", 20, 50)]
    found = list(told(live(beats("a", 0, 90), beats("b", 0, 20), kept, beats("b", 51, 90))))
    assert [item.state for item in found] == ["silent", "back"]
    assert abs(found[1].now - START["b"] - 50 * NS) <= NS


def test_what_one_host_delivers_late_makes_no_other_silent() -> None:
    for first in ("a", "b"):
        other = "b" if first == "a" else "a"
        kept = [(40, beat) for _, beat in beats(other, 10, 40)]
        found = list(told(live(beats(first, 0, 80), beats(other, 0, 10), kept, beats(other, 41, 80))))
        assert {item.host for item in found} == {other}


def test_a_host_first_read_while_it_catches_up_does_not_carry_the_others_away() -> None:
    kept = [(300, beat) for _, beat in beats("c", 0, 300)]
    found = list(told(live(beats("a", 0, 400), beats("b", 0, 400), kept, beats("c", 301, 400))))
    assert found == []


def test_nobody_waits_for_what_was_on_its_way_long_after_a_host_ended() -> None:
    found = list(told(live(beats("a", 0, 100), beats("b", 0, 20, closed=True))))
    last = START["b"] + 19 * NS
    assert found == [Told("b", "ended", last, last + 10 * NS)]


def test_a_host_that_began_again_is_heard_whatever_its_clock_shows() -> None:
    again = [(second + 30, Beat("b", 2, 5 * NS + second * NS, False)) for second in range(20)]
    found = list(told(live(beats("a", 0, 60), beats("b", 0, 20), again)))
    assert [(item.host, item.state) for item in found] == [("b", "silent"), ("b", "back"), ("b", "silent")]


def test_one_host_alone_is_never_called_silent() -> None:
    assert list(told(live(beats("a", 0, 10), beats("a", 500, 510)))) == []


def test_where_the_first_host_dies_at_once_the_others_go_on_after_ten_minutes() -> None:
    found = list(told(live(beats("a", 0, 2), beats("b", 0, 700), beats("c", 0, 640))))
    assert ("a", "silent") in {(item.host, item.state) for item in found}  # by what is usual in the fleet
    assert ("c", "silent") in {(item.host, item.state) for item in found}
    assert "b" not in {item.host for item in found}


def test_a_state_restored_says_the_same() -> None:
    order = live(beats("a", 0, 100), beats("b", 0, 20), beats("c", 3, 90))
    plain = list(told(order))
    fleet = Fleet()
    cut = list(told(order[:70], fleet))
    assert cut + list(told(order[70:], Fleet.of_plain(fleet.plain()))) == plain
    assert plain
