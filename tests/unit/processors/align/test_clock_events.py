"""Steps and gaps of clocks are incidents with a start and an end."""

from __future__ import annotations

import json

from processors.align.clock_events import note
from processors.align.host import Host, LocalClock
from processors.clocks.pair import Pair
from processors.clocks.segments import Segment, SegmentMap, State
from tests.unit.processors.align.feeds import Feed, fleet, fleet_through, new_feed, rows_of
from tests.unit.processors.clocks.models import NS, Model


def incidents(feed: Feed) -> list[tuple[str, str | None, int, int]]:
    return [(row["kind"], row["device"], row["start_ns"], row["end_ns"]) for row in rows_of(feed.outputs, "incidents")]


def test_a_device_clock_that_was_reset_stepped_between_two_bursts() -> None:
    feed = new_feed()
    for number in range(8):
        feed.second(number)
    feed.device = Model(100_000_000, -round(8.3 * NS), 21.0)
    for number in range(9, 24):
        feed.second(number)
    ((kind, device, start, end),) = incidents(feed)
    assert (kind, device) == ("clock_step", "dev0")
    assert fleet(7) <= start <= fleet(8.3) <= end <= fleet(9.1)
    (row,) = rows_of(feed.outputs, "incidents")
    assert json.loads(row["evidence"]) == {"clock": "dev0", "detected_ns": end}


def noted(*pieces: tuple[int, int, int, int | None]) -> list[tuple[str, str, int, int]]:
    """What is noted of a map of (epoch, from, to, error), one second of the device and of the host alike."""
    host = Host("h1", SegmentMap())
    host.clocks["dev0"] = LocalClock(Pair(NS), "h1/agent")
    for epoch, start, stop, err in pieces:
        state: State = "gap" if err is None else "settled"
        ready = [Segment(epoch, start * NS, stop * NS, 0, 0, 1 << 32, err, None, state, stop * NS)]
        host.clocks["dev0"].map.extend(ready)
        note(host, "dev0", ready)
    return [(kind, clock, start // NS, end // NS) for kind, clock, start, end in host.clock_events]


def test_time_without_a_bound_is_a_gap_and_with_a_new_epoch_after_it_a_step() -> None:
    assert noted((0, 0, 5, 9), (0, 5, 6, None), (0, 6, 9, None), (0, 9, 12, 9)) == [("clock_gap", "dev0", 5, 9)]
    assert noted((0, 0, 5, 9), (0, 5, 6, None), (0, 6, 9, None), (1, 9, 12, 9)) == [("clock_step", "dev0", 5, 9)]
    assert noted((0, 0, 5, 9), (1, 5, 6, 9)) == [("clock_step", "dev0", 5, 5)]
    assert noted((0, 0, 5, 9), (0, 5, 1 << 32, None)) == []


def test_a_clock_in_order_has_no_incident_and_a_restart_keeps_what_waits() -> None:
    feed = new_feed()
    for number in range(20):
        feed.second(number)
    assert incidents(feed) == []
    feed.device = Model(100_000_000, -round(20.3 * NS), 21.0)
    for number in range(21, 36):
        feed.sample(number)
        feed.beat(number + 0.95)
    assert incidents(feed) == []
    feed.state = feed.step.restore(feed.step.snapshot(feed.state))
    feed.batches["fleet"] = feed.rows["fleet"] = 0
    fleet_through(feed, 40)
    assert [kind for kind, *_ in incidents(feed)] == ["clock_step"]
