"""Transactions, fencing and readers."""

from __future__ import annotations

import pytest

from fleetscope.errors import FencedError, UsageError
from fleetscope.step import TopicPartition
from fleetscope.stream.abstract import Position
from tests.support.stream_case import PARTITIONS, StreamCase, message, nothing, take, texts, wait_for

FIRST = TopicPartition("in", 0)
KEPT = TopicPartition("kept", 0)


def test_messages_and_positions_become_visible_together(case: StreamCase) -> None:
    source, seen = case.joined(), case.joined("seer", ["out"])
    case.send("in", "a", partition=0)
    (got,) = take(source, 1)
    producer = case.transactional()
    producer.begin()
    producer.send("out", message("from a"))
    producer.send("out", message("again from a"))
    assert nothing(seen)
    producer.commit({FIRST: Position(got.offset + 1, "state 1")}, source)
    assert texts(take(seen, 2)) == ["from a", "again from a"]
    assert source.committed(FIRST) == Position(got.offset + 1, "state 1")


def test_an_aborted_transaction_leaves_no_trace(case: StreamCase) -> None:
    source, seen = case.joined(), case.joined("seer", ["out"])
    producer = case.transactional()
    producer.begin()
    producer.send("out", message("never"))
    producer.abort()
    producer.abort()
    producer.begin()
    producer.send("out", message("kept"))
    producer.commit({}, source)
    assert texts(take(seen, 1)) == ["kept"]
    assert nothing(seen)
    assert source.committed(FIRST) is None


def test_an_open_transaction_is_hidden_and_hides_nothing_for_good(case: StreamCase) -> None:
    source, seen = case.joined(), case.joined("seer", ["out"])
    producer = case.transactional()
    producer.begin()
    producer.send("out", message("open", "host-a"), 0)
    producer.flush()
    case.send("out", "other", partition=1)
    assert texts(take(seen, 1)) == ["other"]
    assert nothing(seen)
    producer.commit({}, source)
    assert texts(take(seen, 1)) == ["open"]


def test_sending_and_committing_need_a_transaction(case: StreamCase) -> None:
    source, producer = case.joined(), case.transactional()
    with pytest.raises(UsageError, match="outside a transaction"):
        producer.send("out", message("x"))
    with pytest.raises(UsageError, match="outside a transaction"):
        producer.commit({}, source)


def test_a_newer_producer_with_the_same_id_fences_the_old_one(case: StreamCase) -> None:
    source, seen = case.joined(), case.joined("seer", ["out"])
    zombie = case.transactional("worker-7")
    zombie.begin()
    zombie.send("out", message("of the zombie"))
    heir = case.transactional("worker-7")
    heir.begin()
    heir.send("out", message("of the heir"))
    heir.commit({}, source)
    with pytest.raises(FencedError):
        zombie.commit({FIRST: Position(5)}, source)
    with pytest.raises(FencedError):
        zombie.begin()
    assert texts(take(seen, 1)) == ["of the heir"]
    assert nothing(seen)
    assert source.committed(FIRST) is None


def test_a_member_that_lost_its_partitions_cannot_commit_a_transaction(case: StreamCase) -> None:
    zombie, seen = case.easily_lost(), case.joined("seer", ["out"])
    case.send("in", "a", partition=0)
    (got,) = take(zombie, 1)
    producer = case.transactional("worker-zombie")
    producer.begin()
    producer.send("out", message("of the zombie"))
    case.forget(zombie)
    heir = case.consumer()
    wait_for(lambda: heir.poll(100, 0.1) is not None and FIRST in heir.assignment(), "take-over")
    with pytest.raises(FencedError):
        producer.commit({FIRST: Position(got.offset + 1)}, zombie)
    producer.begin()
    producer.send("out", message("after joining again"))
    producer.commit({}, heir)
    assert texts(take(seen, 1)) == ["after joining again"]
    assert heir.committed(FIRST) is None


def test_a_member_that_left_cannot_commit_a_transaction(case: StreamCase) -> None:
    source, producer = case.joined(), case.transactional()
    producer.begin()
    source.close()
    with pytest.raises(FencedError):
        producer.commit({FIRST: Position(1)}, source)


def test_an_idle_group_behind_transactions_has_no_lag(case: StreamCase) -> None:
    source, producer = case.joined(), case.transactional()
    producer.begin()
    producer.send("in", message("a"), 0)
    producer.commit({}, source)
    (got,) = take(source, 1)
    wait_for(lambda: not source.poll(1, 0.05) and source.lag()[FIRST] == 0, "no lag")
    source.commit({FIRST: Position(got.offset + 1)})
    assert case.stream.group_lag("group", ["in"])[FIRST] == 0


def test_a_reader_returns_all_from_the_beginning_and_then_has_caught_up(case: StreamCase) -> None:
    source, producer = case.joined(), case.transactional()
    for number in range(3):
        producer.begin()
        producer.send("kept", message(f"state {number}", "step/0"), 0)
        producer.commit({}, source)
    producer.begin()
    producer.send("kept", message("aborted", "step/0"), 0)
    producer.flush()
    producer.abort()
    reader = case.reader([KEPT, TopicPartition("kept", 1)])
    assert not reader.caught_up()
    assert texts(take(reader, 3)) == ["state 0", "state 1", "state 2"]
    wait_for(lambda: not reader.poll(1, 0.05) and reader.caught_up(), "caught up")
    case.send("kept", "later", key="step/0", partition=0)
    assert texts(take(reader, 1)) == ["later"]


def test_a_reader_of_empty_partitions_has_caught_up_at_once(case: StreamCase) -> None:
    reader = case.reader([TopicPartition("kept", partition) for partition in range(PARTITIONS)])
    assert reader.caught_up()
    assert nothing(reader)


def test_a_reader_can_go_back(case: StreamCase) -> None:
    case.send("kept", "a", "b", "c", partition=0)
    reader = case.reader([KEPT])
    got = take(reader, 3)
    assert reader.position(KEPT) == got[2].offset + 1
    reader.seek(KEPT, got[1].offset)
    assert texts(take(reader, 2)) == ["b", "c"]
