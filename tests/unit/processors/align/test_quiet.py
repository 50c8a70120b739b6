"""A host that goes silent: what it sent goes out with the bounds that hold, and the silence is an incident."""

from __future__ import annotations

from typing import Any

from processors.align.progress import END
from tests.unit.processors.align.feeds import RAW, Feed, fleet, fleet_through, marks, new_feed, rows_of
from tests.unit.processors.clocks.models import NS


def died(*, lost_tail: bool = False) -> Feed:
    """A host whose last rows, sent 0.25 s after its last beat, wait for samples that will not come."""
    feed = new_feed()
    for number in range(6):
        feed.second(number)
    feed.give(feed.spans("dev0", 6.05, 6.1, sent_s=6.2))
    if lost_tail:
        feed.spans(RAW, 5.99, sent_s=6.0)
    return feed


def spans(feed: Feed) -> list[dict[str, Any]]:
    return rows_of(feed.outputs, "aligned_spans")


def test_rows_of_a_dead_host_wait_while_only_fleet_time_goes_on() -> None:
    feed = died()
    fleet_through(feed, 90)
    assert len(spans(feed)) < 26
    feed.silence("silent", 5.95, 8.95)
    assert len(spans(feed)) < 26


def test_rows_of_a_host_that_is_gone_go_out_with_bounds_that_hold_and_nothing_is_held() -> None:
    feed = died()
    feed.silence("gone", 5.95, 65.95)
    fleet_through(feed, 90)
    found = spans(feed)
    assert len(found) == 26
    assert all(row["err_ns"] is not None for row in found)
    late = [row for row in found if row["start_ns"] > fleet(6)]
    assert len(late) == 2
    for row, second in zip(sorted(late, key=lambda r: r["start_ns"]), (6.05, 6.1), strict=True):
        assert row["alignment"] == "provisional"
        assert abs(row["start_ns"] - fleet(second)) <= row["err_ns"] < NS // 1_000
    assert dict(feed.step.held(feed.state)) == {}
    assert max(marks(feed.outputs)) < END  # it promised nothing for later: what it kept is not late when it comes


def test_the_order_of_both_tellings_and_a_restart_between_change_no_row() -> None:
    first, second = died(), died()
    first.silence("gone", 5.95, 65.95)
    fleet_through(first, 90)
    fleet_through(second, 90)
    second.silence("gone", 5.95, 65.95)
    key = lambda row: (row["clock"], row["start_ns"])  # noqa: E731
    assert sorted(spans(second), key=key) == sorted(spans(first), key=key)
    told = first.step.snapshot(first.state)
    assert first.step.snapshot(first.step.restore(told)) == told


def test_batches_a_dead_host_had_counted_are_lost_once_it_is_gone() -> None:
    feed = died(lost_tail=True)
    feed.beat(6.3)
    fleet_through(feed, 90)
    lost = [row["lost_rows"] for row in rows_of(feed.outputs, "coverage")]
    assert sum(lost) == 0
    feed.silence("gone", 6.3, 66.3)
    assert sum(row["lost_rows"] for row in rows_of(feed.outputs, "coverage")) == 1


def test_batches_on_their_way_when_a_host_ended_are_lost_when_the_others_have_gone_on() -> None:
    feed = new_feed()
    for number in range(4):
        feed.second(number)
    feed.spans(RAW, 4.0, sent_s=4.1)
    feed.beat(4.2, closed=True)
    fleet_through(feed, 90)
    assert END not in set(marks(feed.outputs))
    feed.silence("ended", 4.2, 14.2)
    assert sum(row["lost_rows"] for row in rows_of(feed.outputs, "coverage")) == 1
    assert max(marks(feed.outputs)) == END


def test_a_silence_is_an_incident_that_opens_and_ends() -> None:
    feed = died()
    fleet_through(feed, 7)
    feed.silence("silent", 5.95, 8.95)
    (opened,) = rows_of(feed.outputs, "incidents")
    assert (opened["kind"], opened["start_ns"], opened["end_ns"]) == ("host_silent", fleet(5.95), None)
    assert f'"detected_ns": {fleet(8.95)}' in opened["evidence"]
    feed.silence("gone", 5.95, 65.95)
    feed.silence("back", 5.95, 70.0)
    assert len(rows_of(feed.outputs, "incidents")) == 1
    fleet_through(feed, 71)
    ended = rows_of(feed.outputs, "incidents")[-1]
    assert (ended["start_ns"], ended["end_ns"]) == (fleet(5.95), fleet(70.0))
    assert ended["revision"] > opened["revision"]
    assert ended["evidence"].count(str(fleet(8.95))) == 1


def test_a_host_that_comes_back_after_it_was_given_up_goes_on() -> None:
    feed = died()
    feed.silence("gone", 5.95, 65.95)
    feed.silence("back", 5.95, 80.0)
    fleet_through(feed, 79)
    for number in range(80, 100):
        feed.second(number)
    found = sorted(row["start_ns"] for row in spans(feed) if row["start_ns"] > fleet(79))
    assert len(found) > 4 * 17
    settled = {row["alignment"] for row in spans(feed) if fleet(85) < row["start_ns"] < fleet(95)}
    assert settled == {"settled"}
