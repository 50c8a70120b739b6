"""Rows of one host go out together: fewer messages, the same rows and identities."""

from __future__ import annotations

from dataclasses import replace

from fleetscope.contracts.batch import Part
from fleetscope.contracts.codec import decode, encode
from fleetscope.errors import Origin
from fleetscope.step import Output
from processors.align import step as align
from tests.unit.processors.align.feeds import RAW, Feed, fleet_through, new_feed, rows_of


def settled(*, busy: bool) -> Feed:
    """A host whose clocks are decided far ahead of the rows to come."""
    feed = new_feed()
    for number in range(12):
        feed.second(number)
    fleet_through(feed, 400)
    feed.outputs.clear()
    feed.busy = busy
    return feed


def messages(outputs: list[Output]) -> list[Output]:
    return [o for o in outputs if o.batch.header.contract == "aligned_spans" and len(o.batch)]


def test_rows_of_all_clocks_of_a_host_go_out_as_one_message_with_the_next_heartbeat() -> None:
    feed = settled(busy=True)
    given = [feed.spans(RAW, 12.1, 12.2, sent_s=12.3), feed.spans(RAW, 12.4, sent_s=12.5),
             feed.spans(RAW, 12.6, 12.7, 12.8, sent_s=12.9)]
    for batch in given:
        assert feed.give(batch) == []
    (message,) = messages(feed.beat(12.95))
    assert message.batch.parts == tuple(
        Part("h1/agent", 1, RAW, batch.header.sequence, 0, len(batch), len(batch)) for batch in given)
    found = message.batch.rows.column("start_ticks").to_pylist()
    assert found == [t for batch in given for t in batch.rows.column("start_ticks").to_pylist()]


def test_nothing_waits_for_company_where_no_more_input_is_at_hand() -> None:
    feed = settled(busy=False)
    assert [len(o.batch) for o in messages(feed.give(feed.spans(RAW, 12.1, 12.2, sent_s=12.3)))] == [2]
    assert feed.step.gathered(feed.state) == []


def test_the_rows_are_those_of_a_runner_that_never_gathers() -> None:
    feeds = [settled(busy=True), settled(busy=False)]
    for feed in feeds:
        for number in range(12, 16):
            feed.second(number)
        feed.outputs += feed.step.gathered(feed.state)
    gathered, alone = (sorted((part, row["start_ns"], row["err_ns"]) for o in messages(feed.outputs)
                              for part, row in rows_by_identity(o)) for feed in feeds)
    assert gathered == alone
    assert len(messages(feeds[0].outputs)) < len(messages(feeds[1].outputs))


def rows_by_identity(output: Output) -> list[tuple[tuple[object, ...], dict[str, int]]]:
    names = [(p.producer, p.epoch, p.clock, p.sequence, p.row0 + i) for p in output.batch.parts for i in range(p.rows)]
    return list(zip(names, output.batch.rows.to_pylist(), strict=True))


def test_what_is_gathered_is_held_until_it_is_out() -> None:
    feed = settled(busy=True)
    batch = replace(feed.spans(RAW, 12.1, sent_s=12.3), origin=Origin("raw.spans", 0, 41))
    feed.give(batch)
    assert feed.step.held(feed.state) == {("raw.spans", 0): 41}
    feed.state = feed.step.restore(feed.step.snapshot(feed.state))
    fleet_through(feed, 401)
    feed.give(batch)
    feed.beat(12.95)
    assert len(rows_of(feed.outputs, "aligned_spans")) == 1
    assert feed.step.held(feed.state) == {}


def test_many_rows_do_not_wait_for_a_heartbeat() -> None:
    feed = settled(busy=True)
    ticks = range(align.GATHER_ROWS // 2 + 1)
    start = feed.spans(RAW, 12.1, sent_s=12.9).rows.column("start_ticks")[0].as_py()
    assert feed.give(feed.spans(RAW, sent_s=12.9, ticks=[start + t for t in ticks])) == []
    out = messages(feed.give(feed.spans(RAW, sent_s=12.9, ticks=[start + t for t in ticks])))
    assert [len(o.batch) for o in out] == [len(ticks)] * 2, "no message has more than GATHER_ROWS rows"


def test_late_rows_are_counted_for_the_stream_that_brought_them() -> None:
    feed = settled(busy=True)
    for number in range(12, 18):
        feed.second(number)
    feed.give(feed.spans(RAW, 12.2, 12.3, 17.99, sent_s=17.995))
    for number in range(18, 22):
        feed.second(number)
    assert sum(row["late_rows"] for row in rows_of(feed.outputs, "coverage") if row["contract"] == "spans") == 2


def test_a_gathered_message_is_read_back_as_it_was() -> None:
    feed = settled(busy=True)
    for _ in range(3):
        feed.give(feed.spans(RAW, 12.1, 12.2, sent_s=12.3))
    feed.beat(12.95)
    (output,) = messages(feed.outputs)
    message = encode(output.batch)
    back = decode(message.key, message.value, message.headers)
    assert back.parts == output.batch.parts
    assert back.rows.equals(output.batch.rows)
