"""Watermarks, late rows, coverage, and producers that come and go."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from fleetscope.contracts.batch import Batch, StreamKey
from fleetscope.errors import Origin
from processors.align.progress import END
from tests.unit.processors.align.feeds import (
    KINDS,
    RAW,
    Feed,
    fleet,
    fleet_through,
    host,
    marks,
    marks_rise,
    new_feed,
    rows_of,
)
from tests.unit.processors.clocks.models import NS, Model


def coverage(feed: Feed, column: str) -> int:
    """Sum of a column over the coverage of the spans."""
    return sum(row[column] for row in rows_of(feed.outputs, "coverage") if row["contract"] == "spans")


def overtaken(feed: Feed) -> int:
    """Rows that came out behind a watermark said before."""
    behind, mark = 0, 0
    for output in feed.outputs:
        if output.batch.header.contract == "aligned_spans":
            behind += sum(t < mark for t in output.batch.rows.column("start_ns").to_pylist())
        mark = max(mark, output.batch.header.watermark_ns or 0)
    return behind


@pytest.mark.parametrize("seed", range(8))
def test_no_watermark_passes_a_row_that_waits(seed: int) -> None:
    rng = random.Random(seed)
    feed = new_feed()
    feed.device = Model(100_000_000, rng.randrange(10**15), rng.uniform(-90, 90))
    held: list[Batch] = []
    for number in range(30):
        if rng.random() < 0.8:
            feed.sample(number)
        for clock in ("dev0", RAW):
            moments = sorted(number + rng.uniform(0.1, 0.8) for _ in range(3))
            held.append(feed.spans(clock, *moments, sent_s=number + 0.9))
        while held and rng.random() < 0.7:
            feed.give(held.pop(0))
        feed.beat(number + 0.95)
        if rng.random() < 0.7:
            fleet_through(feed, number + 0.99)
    assert max(marks(feed.outputs)) > fleet(8)
    assert marks_rise(feed.outputs)
    assert overtaken(feed) == 0
    assert coverage(feed, "late_rows") == 0


def test_the_watermark_is_the_slowest_clock_s_promise() -> None:
    feed = new_feed()
    for number in range(8):
        feed.second(number)
    last = max(marks(feed.outputs))
    assert fleet(4) < last <= fleet(6.96)
    waits = min(host_time for key, queue in feed.state.hosts["h1"].waiting.items() if key.contract == "spans"
                for host_time in [queue[0].header.flushed_ticks or 0 if queue else END])
    assert last < fleet(0) + waits - host(0)


def test_no_watermark_is_said_before_every_kind_was_promised() -> None:
    feed = new_feed()
    fleet_through(feed, 60)
    feed.give(feed.spans(RAW, 1.0, sent_s=1.1))
    feed.beat(2, kinds=(("counters", RAW),))
    assert list(marks(feed.outputs)) == []
    feed.beat(3, kinds=(("counters", RAW), ("spans", RAW)))
    assert list(marks(feed.outputs))


def test_rows_behind_the_watermark_are_counted_as_late_and_marked_when_too_late() -> None:
    feed = new_feed(lateness_s=2.0)
    kinds = (("spans", RAW),)
    fleet_through(feed, 60)
    for number in range(6):
        feed.give(feed.spans(RAW, number + 0.5, sent_s=number + 0.9))
        feed.beat(number + 1, kinds=kinds)
    feed.give(feed.spans(RAW, 1.5, 5.5, 6.5, sent_s=6.6))
    feed.beat(7, kinds=kinds)
    assert coverage(feed, "late_rows") == 2
    late = [o for o in feed.outputs if o.batch.header.contract == "aligned_spans" and len(o.batch)][-1]
    assert late.batch.header.late_before_ns == max(m for m in marks(feed.outputs) if m < fleet(6.5)) - 2 * NS
    assert late.batch.rows.column("start_ns").to_pylist()[0] < late.batch.header.late_before_ns


def test_what_was_produced_is_what_came_or_was_lost() -> None:
    feed = new_feed(patience_s=3.0)
    fleet_through(feed, 60)
    kinds = (("spans", RAW),)
    for number in range(10):
        batch = feed.spans(RAW, number + 0.1, number + 0.2, sent_s=number + 0.9)
        if number not in (2, 9):
            feed.give(batch)
        feed.beat(number + 1, kinds=kinds)
    for number in range(11, 15):
        feed.beat(number, kinds=kinds)
    assert [coverage(feed, c) for c in ("produced_rows", "received_rows", "lost_rows")] == [20, 16, 4]


def test_a_batch_that_comes_after_it_was_given_up_is_taken_back_from_the_lost() -> None:
    feed = new_feed(patience_s=3.0)
    fleet_through(feed, 60)
    kinds = (("spans", RAW),)
    missing = feed.spans(RAW, 0.1, 0.2, sent_s=0.9)
    for number in range(1, 6):
        feed.beat(number, kinds=kinds)
    assert coverage(feed, "lost_rows") == 2
    feed.give(missing)
    feed.beat(7, kinds=kinds)
    assert [coverage(feed, c) for c in ("produced_rows", "received_rows", "lost_rows", "late_rows")] == [2, 2, 0, 2]


def test_a_rejected_message_is_not_lost_and_holds_nothing_up() -> None:
    feed = new_feed()
    fleet_through(feed, 60)
    kinds = (("spans", RAW),)
    feed.give(feed.spans(RAW, 0.1, sent_s=0.2))
    broken = feed.spans(RAW, 0.5, 0.6, sent_s=0.9)
    feed.state = feed.step.on_rejected(feed.state, broken.header)
    feed.beat(1, kinds=kinds)
    assert max(marks(feed.outputs)) > fleet(0.9)
    feed.state = feed.step.on_rejected(feed.step.restore(feed.step.snapshot(feed.state)), broken.header)
    fleet_through(feed, 70)
    feed.beat(2, kinds=kinds)
    assert [coverage(feed, c) for c in ("produced_rows", "received_rows", "lost_rows")] == [3, 1, 0]


def test_repeats_are_recognised_and_counted() -> None:
    feed = new_feed()
    fleet_through(feed, 60)
    batch = feed.spans(RAW, 0.1, 0.2, sent_s=0.9)
    for _ in range(3):
        feed.give(batch)
    feed.beat(1, kinds=(("spans", RAW),))
    assert coverage(feed, "redelivered_rows") == 4
    assert len(rows_of(feed.outputs, "aligned_spans")) == 2


def restarted(feed: Feed) -> Feed:
    """The same producer with its next epoch."""
    return Feed(feed.step, feed.state, feed.device, epoch=feed.epoch + 1, outputs=feed.outputs)


def keep_fleet(new: Feed, old: Feed) -> None:
    new.batches["fleet"], new.rows["fleet"] = old.batches["fleet"], old.rows["fleet"]


@pytest.mark.parametrize("closed", [False, True], ids=["killed", "closed"])
def test_after_a_restart_old_rows_come_out_and_the_watermark_never_falls(*, closed: bool) -> None:
    feed = new_feed()
    for number in range(6):
        feed.second(number)
    if closed:
        feed.beat(6, closed=True)
    old_rows = feed.rows["spans"]
    new = restarted(feed)
    keep_fleet(new, feed)
    for number in range(8, 24):
        new.second(number)
    kept = [m for m in marks(new.outputs) if m != END]
    assert marks_rise(o for o in new.outputs if o.batch.header.watermark_ns != END)
    assert list(marks(new.outputs))[-1] == max(kept) > fleet(18)
    made = rows_of(new.outputs, "aligned_spans")
    assert len([row for row in made if row["start_ns"] < fleet(7)]) == old_rows
    lanes = new.state.hosts["h1"].progress.lanes
    assert {key.contract for key in lanes} == {"spans", "clock_samples"}
    assert closed or overtaken(new) == 0
    assert coverage(feed, "late_rows") + coverage(new, "late_rows") == 0
    later = [row for row in made if row["clock"] == "dev0" and row["start_ns"] > fleet(16)]
    assert {row["alignment"] for row in later} == {"settled"}


def test_rows_of_a_former_epoch_hold_the_watermark_where_their_clock_is_gone() -> None:
    feed = new_feed()
    for number in range(6):
        feed.second(number)
    waiting = [q for key, q in feed.state.hosts["h1"].waiting.items() if key.clock == "dev0" and q]
    assert waiting
    new = restarted(feed)
    keep_fleet(new, feed)
    for number in range(7, 30):
        new.give(new.spans(RAW, number + 0.2, sent_s=number + 0.9))
        new.beat(number + 0.95, kinds=(("spans", RAW), ("clock_samples", RAW)))
        fleet_through(new, number + 0.99)
    assert overtaken(new) == 0
    assert max(marks(new.outputs)) > fleet(20)
    assert len([r for r in rows_of(new.outputs, "aligned_spans") if r["clock"] == "dev0"]) == 12


def begun_anew(*, lost_tail: bool = False) -> tuple[Feed, Feed, Batch]:
    """A producer that numbers from 0 again in its epoch after 6 s, and one of its batches before."""
    old = new_feed()
    for number in range(5):
        old.second(number)
    sent = old.spans(RAW, 5.1, 5.2, sent_s=5.3)
    old.give(sent)
    if lost_tail:
        old.spans(RAW, 5.4, sent_s=5.5)
    old.beat(5.95)
    new = Feed(old.step, old.state, old.device)
    keep_fleet(new, old)
    for number in range(6, 24):
        new.second(number)
    return old, new, sent


def test_a_producer_that_numbers_anew_in_its_epoch_loses_nothing_and_is_reported() -> None:
    old, new, sent = begun_anew()
    redelivered = new.give(sent)
    last = max(marks(new.outputs))
    new.outputs += new.step.on_end(new.state)
    stored = [(o.batch.parts[0].producer, row["start_ticks"]) for o in old.outputs + new.outputs
              if o.batch.header.contract == "aligned_spans" for row in o.batch.rows.to_pylist()]
    assert len(stored) == 4 * 5 + 2 + 4 * 18
    assert {name for name, _ in stored} == {"h1/agent", "h1/agent~2"}
    assert rows_of(redelivered, "aligned_spans") == []
    (incident,) = rows_of(new.outputs, "incidents")
    assert (incident["kind"], incident["device"], incident["start_ns"]) == ("sequence_restart", None, fleet(5.95))
    assert incident["end_ns"] == fleet(6.95)
    sums = {name: coverage(old, name) + coverage(new, name)
            for name in ("produced_rows", "received_rows", "lost_rows", "late_rows")}
    assert sums == {"produced_rows": 94, "received_rows": 94, "lost_rows": 0, "late_rows": 0}
    assert fleet(20) < last < END
    assert overtaken(new) == 0


def test_what_was_lost_before_a_producer_numbered_anew_is_counted() -> None:
    old, new, _ = begun_anew(lost_tail=True)
    assert coverage(old, "lost_rows") + coverage(new, "lost_rows") == 1
    assert max(marks(new.outputs)) > fleet(20)


def test_a_restart_amid_a_sequence_that_begins_anew_gives_the_same_rows() -> None:
    _, plain, _ = begun_anew()
    state = plain.step.restore(plain.step.snapshot(plain.state))
    assert plain.step.snapshot(state) == plain.step.snapshot(plain.state)
    again = Feed(plain.step, state, plain.device)
    assert rows_of(again.give(again.spans(RAW, 6.2, sent_s=6.9)), "aligned_spans") == []
    assert state.hosts["h1"].progress.tally(StreamKey("h1/agent~2", 1, "spans")).redelivered == 1


def other_producer(feed: Feed) -> Feed:
    return Feed(feed.step, feed.state, Model(100_000_000, 777, -40.0), "h1/other", outputs=feed.outputs)


def test_one_producer_measures_a_clock_and_the_samples_of_another_are_counted() -> None:
    feed = new_feed()
    other = other_producer(feed)
    for number in range(6):
        feed.second(number)
        other.sample(number + 0.5)
    clock = feed.state.hosts["h1"].clocks["dev0"]
    assert (clock.producer, clock.pair.steps) == ("h1/agent", 0)
    assert feed.state.hosts["h1"].bad_samples == 24


def test_another_producer_takes_a_clock_over_when_its_own_is_silent_for_long() -> None:
    feed = new_feed()
    for number in range(6):
        feed.second(number)
    other = Feed(feed.step, feed.state, feed.device, "h1/other", outputs=feed.outputs)
    for number in range(9, 24):
        other.sample(number)
    clock = feed.state.hosts["h1"].clocks["dev0"]
    assert clock.producer == "h1/other"
    assert feed.state.hosts["h1"].bad_samples == 4 * 7
    assert clock.pair.steps == 0


def test_a_producer_that_closes_ends_its_own_clocks_only() -> None:
    feed = new_feed()
    other = other_producer(feed)
    for number in range(6):
        feed.second(number)
        other.sample(number + 0.5, "dev1")
        other.beat(number + 0.7, kinds=(("clock_samples", RAW),))
    other.beat(6, closed=True, kinds=(("clock_samples", RAW),))
    feed.second(6)
    through = {name: clock.map.through for name, clock in feed.state.hosts["h1"].clocks.items()}
    assert through["dev1"] == END
    assert (through["dev0"] or END) < END


def test_state_restored_amid_waiting_rows_gives_the_same_rows() -> None:
    plain, cut = new_feed(), new_feed()
    for feed in (plain, cut):
        for number in range(5):
            feed.sample(number)
    batch = replace(plain.spans("dev0", 3.2, 3.9, sent_s=4.0), origin=Origin("raw.spans", 0, 7))
    for feed in (plain, cut):
        feed.give(batch)
    assert cut.step.held(cut.state) == {("raw.spans", 0): 7}
    cut.state = cut.step.restore(cut.step.snapshot(cut.state))
    cut.give(batch)
    for feed in (plain, cut):
        fleet_through(feed, 60)
        for number in range(5, 9):
            feed.sample(number)
    assert rows_of(cut.outputs, "aligned_spans") == rows_of(plain.outputs, "aligned_spans")
    assert len(rows_of(cut.outputs, "aligned_spans")) == 2


def test_a_closed_host_s_watermark_is_the_end() -> None:
    feed = new_feed()
    for number in range(4):
        feed.second(number)
    feed.beat(4, closed=True)
    fleet_through(feed, 60)
    assert max(marks(feed.outputs)) == END
    assert marks_rise(feed.outputs)
    assert {k for k, _ in KINDS} == {"spans", "clock_samples"}
