"""When windows close, and what becomes of rows that come late, twice or after the end."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from fleetscope.contracts.batch import Batch
from fleetscope.contracts.codec import decode, encode
from fleetscope.errors import Origin
from fleetscope.step import Output, TopicPartition, replay
from processors.windows.step import WindowsStep
from tests.unit.processors.windows.hosts import TOPICS, Feed, counter, coverage, fact, span, together

STEP = WindowsStep(window_ns=1000, lookback_ns=500)


def rows_of(outputs: list[Output]) -> list[dict[str, Any]]:
    return [row for output in outputs for row in output.batch.rows.to_pylist()]


def run(feed: Feed, *, end: bool = False, step: WindowsStep = STEP) -> list[dict[str, Any]]:
    return rows_of(replay(step, [b for _, b in feed.messages], end=end))


def starts(rows: list[dict[str, Any]]) -> list[int]:
    return [row["window_start_ns"] for row in rows]


def kernel(start: int, duration: int = 10, device: str = "dev0", **more: Any) -> dict[str, Any]:
    return span("engine:matrix", start, duration, device, **more)


def test_a_window_closes_when_the_last_of_the_four_topics_has_reached_its_end() -> None:
    feed = Feed()
    feed.spans(kernel(100))
    for contract in list(TOPICS)[:3]:
        feed.send(contract, [], 1000)
    assert run(feed) == []
    feed.send("coverage", [], 999)
    assert run(feed) == []
    feed.send("coverage", [], 1000)
    assert starts(run(feed)) == [0]


def test_the_batch_of_a_window_names_its_end_as_watermark_and_numbers_without_gap() -> None:
    feed = Feed()
    feed.spans(kernel(100))
    feed.mark(3500)
    outputs = replay(STEP, [b for _, b in feed.messages], end=False)
    headers = [o.batch.header for o in outputs]
    assert [(h.watermark_ns, h.sequence) for h in headers] == [(1000, 0), (2000, 1), (3000, 2)]
    assert {(o.topic, o.batch.header.producer, o.batch.header.host) for o in outputs} == {("windows", "windows", "h1")}


def test_output_passes_the_codec() -> None:
    feed = Feed()
    feed.spans(kernel(100))
    feed.mark(1000)
    for output in replay(STEP, [b for _, b in feed.messages], end=False):
        message = encode(output.batch)
        assert decode(message.key, message.value, message.headers).rows.equals(output.batch.rows)


def test_a_closed_host_gets_all_windows_up_to_its_last_row_and_the_rest_of_the_last_is_unknown() -> None:
    feed = Feed()
    feed.spans(kernel(100), kernel(2100, 50))
    feed.close()
    rows = run(feed)
    assert starts(rows) == [0, 1000, 2000]
    assert rows[0]["unknown_ns"] == 100
    assert rows[2]["unknown_ns"] == 850
    assert rows[2]["coverage"] == pytest.approx(0.15)


def test_the_end_of_the_input_closes_what_still_waits_once() -> None:
    feed = Feed()
    feed.spans(kernel(100))
    state = STEP.start()
    for _, batch in feed.messages:
        state, _out = STEP.on_batch(state, batch)
    assert starts(rows_of(STEP.on_end(state))) == [0]
    assert STEP.on_end(state) == []


def test_silent_windows_are_told_since_idleness_is_data() -> None:
    feed = Feed()
    feed.spans(kernel(100))
    feed.mark(4000)
    rows = run(feed)
    assert starts(rows) == [0, 1000, 2000, 3000]
    assert [r["no_demand_ns"] for r in rows[1:]] == [1000] * 3


def test_a_host_silent_for_too_long_gets_no_windows_until_its_next_row() -> None:
    feed = Feed()
    feed.spans(kernel(100))
    feed.spans(kernel(50_100))
    feed.mark(51_000)
    assert starts(run(feed, step=WindowsStep(window_ns=1000, max_empty_windows=3))) == [0, 1000, 2000, 3000, 50_000]


def test_a_late_row_is_counted_in_the_next_window_and_its_open_part_is_accounted_for() -> None:
    feed = Feed()
    feed.spans(kernel(100))
    feed.mark(1000)
    feed.spans(kernel(900, 300))
    feed.mark(2000)
    rows = run(feed)
    assert [(r["late_rows"], r["received_rows"]) for r in rows] == [(0, 1), (1, 0)]
    assert rows[1]["kernel_unattributed_ns"] == 200


def test_a_row_that_comes_after_its_host_has_closed_rewrites_the_last_window_with_its_count() -> None:
    feed = Feed()
    feed.spans(kernel(100))
    feed.close()
    feed.spans(kernel(50))
    rows = run(feed)
    assert [(r["window_start_ns"], r["late_rows"]) for r in rows] == [(0, 0), (0, 1)]
    assert rows[1]["revision"] > rows[0]["revision"]
    assert rows[1]["kernel_unattributed_ns"] == rows[0]["kernel_unattributed_ns"]


def test_a_host_that_starts_again_after_closing_gets_windows_again() -> None:
    feed = Feed()
    feed.spans(kernel(100))
    feed.close()
    feed.spans(kernel(5100), watermark=5000)
    feed.spans(kernel(5200), watermark=6000)
    assert starts(run(feed)) == [0, 1000, 2000, 3000, 4000, 5000]


def test_a_repeat_is_dropped_and_counted() -> None:
    feed = Feed()
    batch = feed.spans(kernel(100), kernel(200))
    feed.messages.append(("aligned.spans", batch))
    feed.mark(1000)
    row = run(feed)[0]
    assert (row["kernels"], row["received_rows"], row["redelivered_rows"]) == (2, 2, 2)


def test_rows_of_several_batches_in_one_message_are_known_by_their_own_identities() -> None:
    feed = Feed()
    first, second, third = (feed.spans(kernel(at), kernel(at + 50)) for at in (100, 200, 300))
    feed.messages[1:] = [("aligned.spans", together(first, second)), ("aligned.spans", together(second, third)),
                         ("aligned.spans", third)]
    feed.mark(1000)
    row = run(feed)[0]
    assert (row["kernels"], row["received_rows"], row["redelivered_rows"]) == (6, 6, 6)


def test_the_revision_is_the_highest_offset_taken_from_the_host() -> None:
    feed = Feed()
    feed.spans(kernel(100))
    feed.mark(1000)
    batches = [replace(b, origin=Origin(topic, 0, 40 + i)) for i, (topic, b) in enumerate(feed.messages)]
    assert rows_of(replay(STEP, batches, end=False))[0]["revision"] == 44


def _at(batch: Batch, offset: int) -> Batch:
    return replace(batch, origin=Origin(TOPICS[batch.header.contract], 0, offset))


def test_rows_of_open_windows_hold_their_offset_until_the_window_closed() -> None:
    feed = Feed()
    state = STEP.start()
    state, _ = STEP.on_batch(state, _at(feed.spans(kernel(100)), 3))
    state, _ = STEP.on_batch(state, _at(feed.spans(kernel(1100)), 4))
    spans = TopicPartition("aligned.spans", 0)
    assert STEP.held(state) == {spans: 3}
    feed.messages.clear()
    feed.mark(1000)
    for _, batch in feed.messages:
        state, _ = STEP.on_batch(state, batch)
    assert STEP.held(state) == {spans: 4}
    feed.messages.clear()
    feed.close()
    for _, batch in feed.messages:
        state, _ = STEP.on_batch(state, batch)
    assert STEP.held(state) == {}


def test_after_a_restart_no_window_closes_before_its_rows_were_read_again() -> None:
    feed = Feed()
    state = STEP.start()
    first, second = feed.spans(kernel(100)), feed.spans(kernel(200))
    for batch in (_at(first, 0), _at(second, 1)):
        state, _ = STEP.on_batch(state, batch)
    state = STEP.restore(STEP.snapshot(state))
    feed.messages.clear()
    feed.mark(1000)
    outputs: list[Output] = []
    for _, batch in feed.messages:
        state, out = STEP.on_batch(state, batch)
        outputs += out
    state, out = STEP.on_batch(state, _at(first, 0))
    assert outputs + out == []
    state, out = STEP.on_batch(state, _at(second, 1))
    row = rows_of(out)[0]
    assert (row["kernels"], row["received_rows"], row["redelivered_rows"]) == (2, 2, 0)


def test_a_message_and_its_repeat_that_are_both_read_again_count_once() -> None:
    feed = Feed()
    batch = feed.spans(kernel(100))
    messages = [_at(batch, 0), _at(batch, 1)]
    state = STEP.start()
    for message in messages:
        state, _ = STEP.on_batch(state, message)
    state = STEP.restore(STEP.snapshot(state))
    for message in messages:
        state, _ = STEP.on_batch(state, message)
    row = rows_of(STEP.on_end(state))[0]
    assert (row["kernels"], row["redelivered_rows"]) == (1, 1)


@pytest.mark.parametrize("last", TOPICS)
def test_the_windows_of_a_closed_host_do_not_depend_on_which_topic_closes_last(last: str) -> None:
    feed = Feed()
    feed.spans(kernel(100), watermark=3900)
    for contract in TOPICS:
        feed.send(contract, [], 1500)
    for contract in [c for c in TOPICS if c != last] + [last]:
        feed.send(contract, [], 1 << 62)
    assert [(r["window_start_ns"], r["no_demand_ns"]) for r in run(feed)] == [(0, 890), (1000, 1000), (2000, 1000)]


def test_what_producers_count_after_the_last_row_is_told_by_the_last_window() -> None:
    feed = Feed()
    feed.spans(kernel(0))
    feed.send("coverage", [coverage(4000, 5000, 10, lost=3)])
    feed.close()
    assert run(feed)[-1]["lost_rows"] == 3


def test_lost_and_dropped_rows_lower_the_coverage_of_the_windows_they_belong_to() -> None:
    feed = Feed()
    feed.spans(kernel(0, 10), kernel(1100))
    feed.send("coverage", [coverage(500, 1500, 80, dropped=10, lost=10, redelivered=4)])
    feed.mark(2000)
    rows = run(feed)
    assert [(r["dropped_rows"], r["lost_rows"], r["redelivered_rows"]) for r in rows] == [(5, 5, 2), (5, 5, 2)]
    assert [r["coverage"] for r in rows] == [pytest.approx(0.8)] * 2


def test_coverage_of_closed_windows_is_told_by_the_next_one_and_no_row_is_lost_in_the_split() -> None:
    feed = Feed()
    feed.spans(kernel(0), kernel(2500))
    feed.mark(1000)
    feed.send("coverage", [coverage(0, 900, 10, lost=7), coverage(900, 2100, 10, lost=5)])
    feed.mark(3000)
    assert sum(r["lost_rows"] for r in run(feed)) == 12


def test_rows_of_all_kinds_count_as_received() -> None:
    feed = Feed()
    feed.spans(kernel(100), span("host_api", 120, 5, None))
    feed.send("aligned_counters", [counter(10), counter(1010)])
    feed.send("aligned_inventory", [fact("host", "host", "kind", time=20)])
    feed.mark(1000)
    assert run(feed)[0]["received_rows"] == 4


def test_a_snapshot_of_other_windows_is_refused() -> None:
    with pytest.raises(ValueError, match="the snapshot is of"):
        WindowsStep(window_ns=2000).restore(STEP.snapshot(STEP.start()))


@pytest.mark.parametrize("bad", [{"window_ns": 0}, {"lookback_ns": -1}, {"max_span_ns": 0}, {"max_empty_windows": -1}])
def test_thresholds_that_make_no_sense_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError):
        WindowsStep(**bad)
