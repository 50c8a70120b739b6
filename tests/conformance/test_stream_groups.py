"""Groups: sharing, callbacks, positions."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest

from fleetscope.errors import FencedError, UsageError
from fleetscope.step import TopicPartition
from fleetscope.stream.abstract import Consumer, Position
from tests.support.stream_case import PARTITIONS, StreamCase, nothing, take, texts, wait_for

EVERY = [TopicPartition("in", partition) for partition in range(PARTITIONS)]


def settle(*consumers: Consumer, each: int) -> None:
    """Poll in turn until every consumer has ``each`` partitions."""

    def settled() -> bool:
        for consumer in consumers:
            consumer.poll(100, 0.05)
        return all(len(consumer.assignment()) == each for consumer in consumers)

    wait_for(settled, f"{len(consumers)} members with {each} partitions")


def test_members_share_the_partitions_and_take_over_what_a_leaver_had(case: StreamCase) -> None:
    first, second = case.consumer(), case.consumer()
    settle(first, second, each=PARTITIONS // 2)
    assert first.assignment() | second.assignment() == set(EVERY)
    assert not first.assignment() & second.assignment()
    second.close()
    settle(first, each=PARTITIONS)


def test_the_same_partition_of_all_topics_has_one_owner(case: StreamCase) -> None:
    topics = ("in", "also_in", "out")
    first, second = case.consumer(topics=topics), case.consumer(topics=topics)
    settle(first, second, each=PARTITIONS * 3 // 2)
    for consumer in (first, second):
        by_topic = [{at.partition for at in consumer.assignment() if at.topic == topic} for topic in topics]
        assert by_topic[0] == by_topic[1] == by_topic[2]


def test_every_group_sees_every_message(case: StreamCase) -> None:
    one, other = case.joined("one"), case.joined("other")
    case.send("in", "a", "b")
    assert texts(take(one, 2)) == texts(take(other, 2)) == ["a", "b"]


def test_callbacks_run_on_the_polling_thread_and_may_ask_and_seek(case: StreamCase) -> None:
    warm = case.joined()
    case.send("in", "a", "b", "c", partition=0)
    start = take(warm, 3)[0].offset
    warm.commit({EVERY[0]: Position(start + 1, "noted")})
    warm.close()
    threads: list[threading.Thread] = []
    notes: list[Position | None] = []

    def on_assigned(partitions: Sequence[TopicPartition]) -> None:
        threads.append(threading.current_thread())
        assert list(partitions) == EVERY
        notes.append(consumer.committed(EVERY[0]))
        consumer.seek(EVERY[0], start + 2)

    consumer = case.consumer(on_assigned=on_assigned)
    assert texts(take(consumer, 1)) == ["c"]
    assert threads == [threading.current_thread()]
    assert notes == [Position(start + 1, "noted")]


def test_a_rebalance_revokes_everything_before_it_assigns(case: StreamCase) -> None:
    events: list[tuple[str, list[TopicPartition]]] = []
    first = case.joined(on_assigned=lambda given: events.append(("assigned", list(given))),
                        on_revoked=lambda lost: events.append(("revoked", list(lost))))
    second = case.consumer()
    settle(first, second, each=PARTITIONS // 2)
    assert events[0] == ("assigned", EVERY)
    assert events[1] == ("revoked", EVERY)
    assert events[-1] == ("assigned", sorted(first.assignment()))
    kinds = [kind for kind, _ in events]
    assert set(kinds[0::2]) == {"assigned"}
    assert set(kinds[1::2]) == {"revoked"}


def test_an_error_of_a_callback_comes_out_of_poll(case: StreamCase) -> None:
    def refuse(_: Sequence[TopicPartition]) -> None:
        raise UsageError("not today")

    consumer = case.consumer(on_assigned=refuse)
    with pytest.raises(UsageError, match="not today"):
        wait_for(lambda: consumer.poll(1, 0.1) != [], "the error")


def test_a_commit_while_partitions_are_revoked_goes_through_or_is_fenced(case: StreamCase) -> None:
    outcomes: list[str] = []

    def on_revoked(_: Sequence[TopicPartition]) -> None:
        try:
            first.commit({EVERY[0]: Position(2, "handed over")})
        except FencedError:
            outcomes.append("fenced")
        else:
            outcomes.append("committed")

    first = case.joined(on_revoked=on_revoked)
    case.send("in", "a", "b", "c", partition=0)
    take(first, 3)
    second = case.consumer()
    settle(first, second, each=PARTITIONS // 2)
    wanted = Position(2, "handed over") if outcomes == ["committed"] else None
    assert outcomes in (["committed"], ["fenced"])
    assert second.committed(EVERY[0]) == wanted


def test_committed_positions_and_their_notes_outlive_the_member(case: StreamCase) -> None:
    first = case.joined()
    case.send("in", "a", "b", "c", partition=1)
    offset = take(first, 3)[0].offset
    assert first.committed(EVERY[1]) is None
    first.commit({EVERY[1]: Position(offset + 2, "range 0-1, token x")})
    first.close()
    second = case.consumer()
    assert texts(take(second, 1)) == ["c"]
    assert second.committed(EVERY[1]) == Position(offset + 2, "range 0-1, token x")


def test_without_a_commit_everything_comes_again(case: StreamCase) -> None:
    first = case.joined()
    case.send("in", "a", "b")
    assert texts(take(first, 2)) == ["a", "b"]
    first.close()
    assert texts(take(case.consumer(), 2)) == ["a", "b"]


def test_seek_reads_again_from_there(case: StreamCase) -> None:
    consumer = case.joined()
    case.send("in", "a", "b", "c", partition=2)
    got = take(consumer, 3)
    assert consumer.position(EVERY[2]) == got[2].offset + 1
    consumer.seek(EVERY[2], got[1].offset)
    assert consumer.position(EVERY[2]) == got[1].offset
    assert texts(take(consumer, 2)) == ["b", "c"]
    with pytest.raises(UsageError):
        consumer.seek(TopicPartition("out", 0), 0)
    with pytest.raises(UsageError):
        consumer.position(TopicPartition("out", 0))


def test_a_paused_partition_waits_and_loses_nothing(case: StreamCase) -> None:
    consumer = case.joined()
    consumer.pause([EVERY[0]])
    case.send("in", "held", partition=0)
    case.send("in", "free", partition=1)
    assert texts(take(consumer, 1)) == ["free"]
    assert nothing(consumer)
    consumer.resume([EVERY[0]])
    assert texts(take(consumer, 1)) == ["held"]


def test_poll_returns_no_more_than_asked(case: StreamCase) -> None:
    consumer = case.joined()
    case.send("in", *"abcdef", partition=0)
    sizes: list[int] = []
    wait_for(lambda: sizes.append(len(consumer.poll(4, 0.1))) or sum(sizes) == 6, "six messages")
    assert max(sizes) <= 4


def test_lag_is_what_stands_between_the_position_and_the_end(case: StreamCase) -> None:
    consumer = case.joined()
    consumer.pause(EVERY)
    case.send("in", "a", "b", "c", partition=3)
    assert consumer.lag() == {**dict.fromkeys(EVERY, 0), EVERY[3]: 3}
    assert case.stream.group_lag("group", ["in"]) == {**dict.fromkeys(EVERY, 0), EVERY[3]: 3}
    consumer.resume(EVERY)
    got = take(consumer, 3)
    assert consumer.lag()[EVERY[3]] == 0
    consumer.commit({EVERY[3]: Position(got[1].offset)})
    assert case.stream.group_lag("group", ["in"])[EVERY[3]] == 2
    assert case.stream.group_lag("nobody", ["in"])[EVERY[3]] >= 2


def test_a_member_that_lost_its_partitions_cannot_commit(case: StreamCase) -> None:
    zombie = case.easily_lost()
    case.send("in", "a", "b", partition=0)
    got = take(zombie, 2)
    case.forget(zombie)
    heir = case.consumer()
    wait_for(lambda: heir.poll(100, 0.1) is not None and EVERY[0] in heir.assignment(), "take-over")
    with pytest.raises(FencedError):
        zombie.commit({EVERY[0]: Position(got[1].offset + 1)})
    assert heir.committed(EVERY[0]) is None


def test_a_member_that_left_cannot_commit(case: StreamCase) -> None:
    consumer = case.joined()
    consumer.close()
    with pytest.raises(FencedError):
        consumer.commit({EVERY[0]: Position(1)})
