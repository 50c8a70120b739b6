"""What waits in `align`, for how long, and with which bound it goes out."""

from __future__ import annotations

from typing import Any

import pytest

from processors.clocks.pair import PairRules
from tests.unit.processors.align.feeds import RAW, SHIFT, Feed, fleet, fleet_through, host, new_feed, rows_of
from tests.unit.processors.clocks.models import NS, Model


def spans(feed: Feed, clock: str = "dev0") -> list[dict[str, Any]]:
    return [row for row in rows_of(feed.outputs, "aligned_spans") if row["clock"] == clock]


def wrong(feed: Feed, clock: Model | None = None) -> list[dict[str, Any]]:
    """Spans on the device's clock whose bound the truth breaks; the truth by searching the tick's time."""
    device = clock or feed.device
    found = []
    for row in spans(feed):
        at = row["start_ns"] - SHIFT
        error = abs(device.read(at) - row["start_ticks"]) * (NS // device.hz)
        if row["err_ns"] is not None and error > row["err_ns"] + 2 * NS // device.hz:
            found.append(row)
    return found


def test_rows_wait_until_every_clock_is_settled() -> None:
    feed = new_feed()
    for second in range(3):
        feed.sample(second)
    waiting = feed.spans("dev0", 1.1, 1.2, sent_s=1.3)
    assert rows_of(feed.give(waiting), "aligned_spans") == []
    fleet_through(feed, 60)
    assert spans(feed) == []
    for second in range(3, 6):
        feed.sample(second)
    made = spans(feed)
    assert [row["alignment"] for row in made] == ["settled", "settled"]
    assert not wrong(feed)
    assert all(abs(row["start_ns"] - fleet(s)) < 1_200 for row, s in zip(made, (1.1, 1.2), strict=True))


def test_rows_on_the_reference_clock_wait_for_fleet_time_alone() -> None:
    feed = new_feed()
    feed.give(feed.spans(RAW, 1.1, sent_s=1.3))
    fleet_through(feed, 1.0)
    assert spans(feed, RAW) == []
    fleet_through(feed, 1.2)
    (row,) = spans(feed, RAW)
    assert (row["start_ns"], row["err_ns"], row["utc_err_ns"], row["alignment"]) == (fleet(1.1), 3, 50, "settled")


def test_rows_go_out_in_the_order_of_their_lane() -> None:
    feed = new_feed()
    feed.give(feed.spans(RAW, 2.0, sent_s=2.1))
    feed.give(feed.spans(RAW, 1.0, sent_s=2.2))
    fleet_through(feed, 1.5)
    assert spans(feed, RAW) == []
    fleet_through(feed, 3)
    assert [row["start_ns"] for row in spans(feed, RAW)] == [fleet(2.0), fleet(1.0)]


def test_where_samples_stop_rows_go_out_provisional_with_a_wider_bound_that_holds() -> None:
    feed = new_feed()
    for number in range(40):
        feed.second(number, samples=number < 8)
    made = spans(feed)
    assert {row["alignment"] for row in made} == {"settled", "provisional"}
    settled = max(row["err_ns"] for row in made if row["alignment"] == "settled")
    provisional = [row["err_ns"] for row in made if row["start_ns"] > fleet(15)]
    assert len(provisional) > 15
    assert min(provisional) > 10 * settled
    assert not wrong(feed)


def test_rows_of_a_clock_that_is_never_measured_go_out_without_a_bound() -> None:
    feed = new_feed(rules=PairRules(limit_s=5.0))
    for number in range(8):
        feed.second(number, samples=False)
    made = spans(feed)
    assert len(made) >= 4
    assert {(row["err_ns"], row["utc_err_ns"], row["alignment"]) for row in made} == {(None, None, "gap")}
    assert all(abs(row["start_ns"] - fleet(i // 2 + 0.5)) < NS for i, row in enumerate(made))


def test_a_host_without_samples_of_any_kind_does_not_wait_for_ever() -> None:
    feed = new_feed(no_reference_s=30.0)
    kinds = (("spans", "dev0"),)
    for number in range(40):
        feed.give(feed.spans("dev0", number + 0.5, sent_s=number + 0.9))
        feed.beat(number + 0.95, kinds=kinds)
        fleet_through(feed, number + 0.99)
    assert 5 <= len(spans(feed)) <= 15
    assert feed.state.hosts["h1"].progress.watermark is not None


def test_rows_of_a_host_without_fleet_time_become_dead_letters_at_the_end() -> None:
    feed = new_feed()
    feed.give(feed.spans(RAW, 1.0, 1.1, sent_s=1.2))
    out = feed.step.on_end(feed.state)
    (letter,) = rows_of(out, "dead_letters")
    assert (letter["rows"], letter["code"], letter["host"]) == (2, "no_fleet_time", "h1")
    assert rows_of(out, "aligned_spans") == []


def test_rows_of_a_host_without_fleet_time_become_dead_letters_after_long() -> None:
    feed = new_feed(no_reference_s=30.0)
    feed.give(feed.spans(RAW, 1.0, sent_s=1.2))
    assert rows_of(feed.beat(31.1), "dead_letters") == []
    assert [r["rows"] for r in rows_of(feed.beat(31.3), "dead_letters")] == [1]


def test_everything_comes_out_at_the_end() -> None:
    feed = new_feed()
    for number in range(3):
        feed.second(number)
    feed.outputs += feed.step.on_end(feed.state)
    assert (len(spans(feed)), len(spans(feed, RAW))) == (6, 6)
    assert not wrong(feed)
    assert feed.step.held(feed.state) == {}


def test_a_batch_lost_before_the_closing_heartbeat_is_counted_lost_at_the_end() -> None:
    feed = new_feed()
    for number in range(3):
        feed.second(number)
    feed.spans(RAW, 3.0, 3.1, sent_s=3.2)  # counted, and never given
    feed.beat(3.3, closed=True)
    fleet_through(feed, 4)
    feed.outputs += feed.step.on_end(feed.state)
    told = [row for row in rows_of(feed.outputs, "coverage") if row["contract"] == "spans"]
    assert sum(row["produced_rows"] for row in told) == 14
    assert sum(row["received_rows"] for row in told) == 12
    assert sum(row["lost_rows"] for row in told) == 2
    assert feed.state.hosts["h1"].progress.watermark == 1 << 62


def test_a_stamp_from_the_future_does_not_keep_others_waiting() -> None:
    feed = new_feed()
    for number in range(3):
        feed.second(number)
    feed.give(feed.spans("dev0", 3.1, sent_s=3.2, ticks=[1 << 61]))
    feed.give(feed.spans(RAW, 3.1, sent_s=3.2, ticks=[1 << 61]))
    for number in range(4, 10):
        feed.second(number)
    for clock in ("dev0", RAW):
        absurd = [row for row in spans(feed, clock) if row["start_ticks"] == 1 << 61]
        assert [row["err_ns"] for row in absurd] == [None]
        assert absurd[0]["start_ns"] <= fleet(3.3)
        assert max(row["start_ns"] for row in spans(feed, clock)) > fleet(5)


@pytest.mark.parametrize("uptime_s", [6, 30])
def test_rows_around_a_reset_are_placed_before_or_after_it_and_none_is_stuck(uptime_s: int) -> None:
    feed = new_feed()
    old = feed.device = Model(100_000_000, 0, 20.0)
    new = Model(100_000_000, -round((uptime_s + 0.3) * NS), 21.0)
    for number in range(uptime_s):
        feed.second(number)
    feed.sample(uptime_s)
    feed.give(feed.spans("dev0", uptime_s + 0.2, sent_s=uptime_s + 0.25))
    feed.device = new
    feed.give(feed.spans("dev0", uptime_s + 0.35, uptime_s + 0.6, sent_s=uptime_s + 0.9))
    feed.beat(uptime_s + 0.95)
    fleet_through(feed, uptime_s + 0.99)
    for number in range(uptime_s + 1, uptime_s + 25):
        feed.second(number)
    expected = [s + part for s in range(uptime_s) for part in (0.2, 0.5)]
    expected += [uptime_s + part for part in (0.2, 0.35, 0.6)]
    expected += [s + part for s in range(uptime_s + 1, uptime_s + 25) for part in (0.2, 0.5)]
    made = spans(feed)
    assert len(made) > 2 * uptime_s + 30
    bounded = [(row, s) for row, s in zip(made, expected, strict=False) if row["err_ns"] is not None]
    assert len(bounded) > 2 * uptime_s + 20
    assert [s for row, s in bounded if abs(row["start_ns"] - fleet(s)) > row["err_ns"]] == []
    assert all(abs(row["start_ns"] - fleet(s)) < NS // 2 for row, s in zip(made, expected, strict=False))
    assert old.read(host(1)) < old.read(host(uptime_s))


def test_fleet_segments_that_come_twice_are_taken_once() -> None:
    feed = new_feed()
    feed.give(feed.spans(RAW, 1.0, sent_s=1.2))
    fleet_through(feed, 5)
    feed.batches["fleet"] = 0
    fleet_through(feed, 9)
    assert len(feed.state.fleet["h1"].segments) == 1
