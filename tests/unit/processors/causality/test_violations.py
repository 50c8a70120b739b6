from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetscope.contracts.batch import Batch
from fleetscope.step import replay
from processors.causality.events import RULES, Events, Sides, read, violations
from processors.causality.step import CLOSED, CausalityStep
from tests.unit.processors.causality.hosts import S, kernel, muddled_host, submission, wait
from tests.unit.processors.windows.hosts import Feed, span, together


def flagged(*batches: Batch, **step: Any) -> list[dict[str, Any]]:
    return [row for output in replay(CausalityStep(**step), batches) for row in output.batch.rows.to_pylist()]


def spans(*rows: dict[str, Any], watermark: int | None = None) -> Batch:
    return Feed().spans(*rows, watermark=watermark)


def test_work_that_starts_before_its_submission_ends_is_flagged_beyond_both_bounds_with_both_events() -> None:
    feed = Feed()
    host = feed.spans(submission(1_000, 3_000, 4), submission(0, 10, 1))
    device = feed.spans(kernel(0, 1, 99), kernel(2_499, 9_000, 4, name="matmul"))
    (row,) = flagged(host, device)
    assert row["rule"] == "submission"
    assert (row["host"], row["process_id"], row["correlation_id"]) == ("h1", 7, 4)
    assert (row["time_ns"], row["inversion_ns"], row["beyond_ns"]) == (2_499, 501, 1)
    assert [row[f"cause_{n}"] for n in ("track", "device", "time_ns", "err_ns", "producer", "epoch", "sequence",
                                        "row")] == ["driver", None, 3_000, 100, "h1/agent", 1, 0, 0]
    assert [row[f"effect_{n}"] for n in ("track", "device", "name", "time_ns", "err_ns", "sequence", "row")] == [
        "engine:matrix", "dev0", "matmul", 2_499, 400, 1, 1]


@pytest.mark.parametrize("effect", [
    kernel(2_500, 9_000, 4), kernel(2_499, 9_000, 4, err=None), kernel(2_499, 9_000, 5),
    kernel(2_499, 9_000, 4, process_id=8), kernel(2_499, 9_000, 4, process_id=None), kernel(2_499, 9_000, 4, err=401),
    span("cpu_thread", 2_499, 5, None, correlation_id=4)])
def test_inside_the_bounds_without_one_or_of_another_work_nothing_is_flagged(effect: dict[str, Any]) -> None:
    assert flagged(spans(submission(1_000, 3_000, 4), effect)) == []


def test_a_span_that_waited_for_work_cannot_end_before_it() -> None:
    late = spans(kernel(0, 9_000, 4), kernel(0, 5_000, 5), wait(100, 8_499, 5, 4))
    (row,) = flagged(late)
    assert (row["rule"], row["correlation_id"], row["cause_time_ns"], row["effect_time_ns"]) == (
        "completion", 4, 9_000, 8_499)
    assert row["effect_track"] == "host_api"
    assert flagged(spans(kernel(0, 9_000, 4), wait(100, 8_500, 4))) == []


def test_every_kernel_of_one_submission_is_judged() -> None:
    rows = flagged(spans(submission(0, 3_000, 4), kernel(100, 200, 4), kernel(4_000, 4_100, 4), kernel(300, 400, 4)))
    assert [row["effect_time_ns"] for row in rows] == [100, 300]


def test_rows_of_a_message_of_several_batches_keep_their_own_identity() -> None:
    feed = Feed()
    message = together(feed.spans(submission(0, 3_000, 4)), feed.spans(kernel(9_000, 9_001, 3), kernel(100, 200, 4)))
    (row,) = flagged(message)
    assert (row["cause_sequence"], row["cause_row"], row["effect_sequence"], row["effect_row"]) == (0, 0, 1, 1)


def test_partners_wait_for_each_other_as_long_as_the_watermark_lets_them() -> None:
    cause, effect = submission(1_000, 2 * S, 4), kernel(S, S + 5, 4)
    moved = spans(watermark=S)
    assert len(flagged(spans(effect), moved, spans(cause))) == 1
    assert len(flagged(spans(cause), moved, spans(effect))) == 1
    gone = spans(watermark=4 * S)
    assert flagged(spans(effect), gone, spans(cause)) == []
    assert flagged(spans(cause), gone, spans(effect)) == []


def test_what_waits_is_bounded_by_event_time_and_held_by_offset() -> None:
    step = CausalityStep()
    state = step.start()
    feed = Feed()
    muddled_host(feed, 3, 30)
    most = 0
    for _, batch in (m for m in feed.messages if m[0] == "aligned.spans"):
        state, _ = step.on_batch(state, batch)
        most = max(most, sum(len(kept.source.parts) for kept in state["h1"].kept))
    assert most < 60
    state, _ = step.on_batch(state, spans(watermark=CLOSED))
    assert state["h1"].kept == []


def test_a_host_that_comes_back_after_it_closed_is_watched_again() -> None:
    rows = flagged(spans(watermark=CLOSED), spans(submission(5 * S, 6 * S, 4), kernel(5 * S, 6 * S, 4)),
                   spans(watermark=20 * S))
    assert len(rows) == 1


def test_an_inversion_longer_than_the_reach_is_no_pair() -> None:
    rows = (submission(0, 3 * S, 4), kernel(5, 9, 4))
    assert flagged(spans(*rows), reach_s=2.0) == []
    assert len(flagged(spans(*rows), reach_s=3.0)) == 1


EVENT = st.tuples(st.integers(0, 50), st.integers(0, 9), st.integers(1, 3), st.integers(-3, 3))


@given(st.lists(EVENT, max_size=12), st.lists(EVENT, max_size=12))
def test_the_join_finds_what_comparing_everything_with_everything_finds(
        causes: list[tuple[int, ...]], effects: list[tuple[int, ...]]) -> None:
    def events(rows: list[tuple[int, ...]]) -> Events:
        columns = np.array([(*row, 0, i) for i, row in enumerate(rows)], np.int64).reshape(-1, 6).T
        return Events(*columns)

    literal = {(i, j) for i, (ct, ce, cp, cid) in enumerate(causes) for j, (et, ee, ep, eid) in enumerate(effects)
               if (cp, cid) == (ep, eid) and et + ee < ct - ce}
    assert set(violations(Sides(events(causes), events(effects)))) == literal


def test_a_batch_without_words_or_ids_has_no_events() -> None:
    found, _ = read(spans(span("cpu_thread", 5, 5, None), span("engine:0", 5, 5, process_id=None)))
    assert all(len(found[rule].causes) == len(found[rule].effects) == 0 for rule in RULES)
