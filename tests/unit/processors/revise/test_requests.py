"""What the windows step asks for when something comes for windows that have closed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fleetscope.contracts.codec import decode, encode
from fleetscope.step import Output, replay
from processors.windows.late import MAX_AFTER
from processors.windows.step import WindowsStep
from tests.conformance.step_suite import numbered
from tests.unit.processors.windows.hosts import Feed, coverage, fact, span

STEP = WindowsStep(window_ns=1000, lookback_ns=1000)


def started(until: int = 5000, device: str = "dev0") -> Feed:
    """A host whose windows are closed up to ``until``."""
    feed = Feed()
    feed.send("aligned_inventory", [fact("device", device, "kind", time=5)])
    feed.spans(span("engine:matrix", 10, 20, device, job="train", rank=0))
    feed.mark(until)
    return feed


def outputs(feed: Feed, step: WindowsStep = STEP) -> list[Output]:
    return replay(step, numbered(feed.messages), end=False)


def asked(feed: Feed) -> list[dict[str, Any]]:
    return [row for o in outputs(feed) if o.topic == "late_windows" for row in o.batch.rows.to_pylist()]


def starts(feed: Feed) -> list[int]:
    return [row["window_start_ns"] for row in asked(feed)]


def test_rows_that_come_in_time_ask_for_nothing() -> None:
    feed = started()
    feed.spans(span("engine:matrix", 5000, 10))
    feed.close()
    assert starts(feed) == []


def test_a_late_kernel_asks_for_every_closed_window_it_lies_in_and_none_besides() -> None:
    feed = started()
    feed.spans(span("engine:matrix", 1900, 1200))
    assert starts(feed) == [1000, 2000, 3000]


def test_a_late_submission_asks_for_as_long_as_its_work_may_look_back_to_it() -> None:
    feed = started()
    feed.spans(span("driver", 1500, 100, None))
    assert starts(feed) == [1000, 2000]


def test_the_open_part_of_a_late_kernel_is_not_asked_for_and_still_accounted_for_by_the_step() -> None:
    feed = started()
    feed.spans(span("engine:matrix", 4500, 1000), span("engine:matrix", 5800, 100))
    feed.mark(6000)
    assert starts(feed) == [4000]
    rows = [row for o in outputs(feed) if o.topic == "windows" for row in o.batch.rows.to_pylist()]
    assert [r["kernel_unattributed_ns"] for r in rows if r["window_start_ns"] == 5000] == [600]


def test_a_request_names_its_message_what_was_counted_and_how_many_rows_of_each_window_were_late() -> None:
    feed = started()
    feed.send("coverage", [coverage(0, 900, 2)])
    feed.spans(span("engine:matrix", 1100, 10), span("engine:matrix", 1200, 10), span("host_api", 3100, 10, None))
    rows = asked(feed)
    assert [(r["window_start_ns"], r["late_rows"]) for r in rows] == [(1000, 2), (3000, 1)]
    first = rows[0]
    assert (first["topic"], first["partition"], first["offset"], first["rows"]) == ("aligned.spans", 0, 2, 3)
    assert (first["producer"], first["epoch"], first["sequence"], first["row0"]) == ("h1/agent", 1, 1, 0)
    assert (first["spans_offset"], first["inventory_offset"], first["coverage_offset"]) == (2, 0, 1)
    assert first["counters_offset"] is None


def test_requests_are_numbered_without_gap_and_pass_the_codec() -> None:
    feed = started()
    for at in (1100, 2100, 3100):
        feed.spans(span("engine:matrix", at, 10))
    found = [o.batch for o in outputs(feed) if o.topic == "late_windows"]
    assert [b.header.sequence for b in found] == [0, 1, 2]
    message = encode(found[0])
    origin = numbered(feed.messages)[0].origin
    assert origin is not None
    assert decode(message.key, message.value, message.headers, origin).rows.to_pylist() == found[0].rows.to_pylist()


def test_a_repeat_of_a_late_batch_asks_for_nothing() -> None:
    feed = started()
    feed.spans(span("engine:matrix", 1100, 10))
    feed.messages.append((feed.messages[-1][0], replace(feed.messages[-1][1])))
    assert starts(feed) == [1000]


def test_rows_that_were_never_published_ask_for_nothing_since_no_store_has_them() -> None:
    feed = started()
    feed.spans(span("engine:matrix", 1100, 10))
    found = replay(STEP, [batch for _, batch in feed.messages], end=False)
    assert [o for o in found if o.topic == "late_windows"] == []


def test_a_device_that_nobody_knew_is_asked_for_in_every_window_from_its_first_work_on() -> None:
    feed = started()
    feed.spans(span("engine:matrix", 2100, 10, "dev9", job="train", rank=3))
    feed.spans(span("engine:matrix", 1100, 10, "dev9", job="train", rank=3))
    assert starts(feed) == [2000, 3000, 4000, 1000]
    feed.mark(6000)
    rows = [row for o in outputs(feed) if o.topic == "windows" for row in o.batch.rows.to_pylist()]
    assert [r["device"] for r in rows if r["window_start_ns"] == 5000] == ["dev0", "dev9"]


def test_late_inventory_asks_from_its_time_on_and_does_not_replace_what_is_newer() -> None:
    feed = started(1000)
    feed.send("aligned_inventory", [fact("peak", "dev0", "flops_per_s", 2e9, 2500)])
    feed.mark(5000)
    feed.send("aligned_inventory", [fact("peak", "dev0", "flops_per_s", 1e9, 1500)])
    feed.spans(span("engine:matrix", 5100, 100, flops=100, bytes=0), span("engine:matrix", 5300, 10))
    feed.mark(6000)
    assert starts(feed) == [1000, 2000, 3000, 4000]
    rows = [row for o in outputs(feed) if o.topic == "windows" for row in o.batch.rows.to_pylist()]
    assert [r["compute_ns"] for r in rows if r["window_start_ns"] == 5000] == [50]


def test_a_row_before_the_first_window_asks_for_all_up_to_it_and_a_row_of_absurd_age_for_a_bounded_number() -> None:
    feed = Feed()
    feed.spans(span("engine:matrix", 10_000_000, 10))
    feed.mark(10_002_000)
    feed.spans(span("engine:matrix", 9_998_500, 10))
    assert starts(feed) == [9_998_000, 9_999_000, 10_000_000]
    feed.spans(span("engine:matrix", 0, 10))
    assert starts(feed)[3:] == [1000 * k for k in range(MAX_AFTER + 1)]


def test_a_loss_that_came_after_all_is_put_right_in_open_windows_and_asked_for_in_closed_ones() -> None:
    feed = started(2000)
    feed.send("coverage", [coverage(1000, 3000, 60, lost=20)])
    feed.mark(2000)
    feed.send("coverage", [coverage(3000, 4000, 60, lost=-20)])
    assert starts(feed) == []
    feed.mark(4000)
    rows = [row for o in outputs(feed) if o.topic == "windows" for row in o.batch.rows.to_pylist()]
    assert [r["lost_rows"] for r in rows if r["window_start_ns"] >= 2000] == [0, 0]

    feed = started(1000)
    feed.send("coverage", [coverage(1000, 3000, 60, lost=20), coverage(3000, 3500, 10, lost=3)])
    feed.mark(2000)
    feed.send("coverage", [coverage(3500, 4000, 60, lost=-21)])
    feed.mark(4000)
    assert starts(feed) == [1000]
    rows = [row for o in outputs(feed) if o.topic == "windows" for row in o.batch.rows.to_pylist()]
    assert [(r["window_start_ns"], r["lost_rows"]) for r in rows[1:]] == [(1000, 10), (2000, 1), (3000, 0)]


def test_what_a_window_told_of_others_stands_in_the_request_so_that_it_is_told_once() -> None:
    feed = started(2000)
    feed.spans(span("engine:matrix", 1500, 10))
    feed.messages.append((feed.messages[-1][0], replace(feed.messages[-1][1])))
    feed.mark(3000)
    feed.spans(span("engine:matrix", 2500, 10))
    last = asked(feed)[-1]
    assert (last["window_start_ns"], last["told_late_rows"], last["told_redelivered_rows"]) == (2000, 1, 1)


def test_a_host_that_closed_is_asked_for_with_the_end_of_its_time_and_all_that_its_last_window_told() -> None:
    feed = Feed()
    feed.spans(span("engine:matrix", 10, 1200))
    feed.close()
    feed.spans(span("engine:matrix", 1100, 50))
    feed.send("coverage", [coverage(5000, 6000, 10, lost=3)])
    first, second = asked(feed)
    revisions = [row["revision"] for o in outputs(feed) if o.topic == "windows" for row in o.batch.rows.to_pylist()
                 if row["window_start_ns"] == 1000]
    assert (first["window_start_ns"], first["known_to_ns"], first["told_late_rows"]) == (1000, 1210, 1)
    assert (second["window_start_ns"], second["known_to_ns"], second["told_late_rows"]) == (1000, 1210, 1)
    assert (second["other_received_rows"], second["other_lost_rows"]) == (10, 3)
    assert second["revision"] >= max(revisions)


def test_a_restart_keeps_what_requests_need() -> None:
    feed = started(3000)
    feed.send("coverage", [coverage(1000, 2000, 10, lost=5)])
    feed.mark(4000)
    feed.spans(span("engine:matrix", 1500, 10))
    feed.mark(5000)
    feed.spans(span("engine:matrix", 4500, 10))
    batches = numbered(feed.messages)
    state = STEP.start()
    for batch in batches[:-1]:
        state, _ = STEP.on_batch(state, batch)
    again = STEP.restore(STEP.snapshot(state))
    _, expected = STEP.on_batch(state, batches[-1])
    _, found = STEP.on_batch(again, batches[-1])
    assert [o.batch.rows.to_pylist() for o in found] == [o.batch.rows.to_pylist() for o in expected]
    assert found[0].batch.header == expected[0].batch.header
