"""Topics, partitions and order: the same on every stream."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from fleetscope.errors import UsageError
from fleetscope.step import TopicPartition
from fleetscope.stream.partition import partition_of
from tests.support.stream_case import ALSO_IN, IN, PARTITIONS, StreamCase, message, take, texts

HOSTS = [f"host-{number}" for number in range(12)]


def test_a_message_arrives_as_it_was_sent(case: StreamCase) -> None:
    consumer = case.joined()
    case.send("in", "hello", key="host-x")
    (got,) = take(consumer, 1)
    assert (got.topic, got.key, got.value) == ("in", b"host-x", b"hello")
    assert got.headers == (("fs-text", b"hello"),)
    assert got.time_ms > 1_500_000_000_000


def test_messages_of_one_producer_keep_their_order_in_each_partition(case: StreamCase) -> None:
    consumer = case.joined()
    producer = case.producer()
    for number in range(300):
        producer.send("in", message(f"{number:03}", HOSTS[number % len(HOSTS)]))
    producer.flush()
    got = take(consumer, 300)
    for partition in range(PARTITIONS):
        part = [one for one in got if one.partition == partition]
        assert part, "every partition has hosts"
        assert texts(part) == sorted(texts(part))
        offsets = [one.offset for one in part]
        assert all(later > earlier for earlier, later in pairwise(offsets))


def test_a_key_has_one_partition_in_every_topic(case: StreamCase) -> None:
    consumer = case.joined(topics=("in", "also_in"))
    for host in HOSTS:
        case.send("in", "x", key=host)
        case.send("also_in", "x", key=host)
    got = take(consumer, 2 * len(HOSTS))
    found = {(one.topic, one.key): one.partition for one in got}
    for host in HOSTS:
        wanted = partition_of(host.encode(), PARTITIONS)
        assert found["in", host.encode()] == found["also_in", host.encode()] == wanted


def test_an_explicit_partition_goes_before_the_key(case: StreamCase) -> None:
    consumer = case.joined()
    other = (partition_of(b"host-a", PARTITIONS) + 1) % PARTITIONS
    case.send("in", "x", key="host-a", partition=other)
    (got,) = take(consumer, 1)
    assert got.partition == other


def test_a_partition_that_is_not_there_is_refused(case: StreamCase) -> None:
    with pytest.raises(UsageError, match=r"in has 4 partitions"):
        case.producer().send("in", message("x"), PARTITIONS)


def test_a_missing_topic_is_named_by_everyone_who_asks_for_it(case: StreamCase) -> None:
    with pytest.raises(UsageError, match=r"no topic .*absent"):
        case.stream.partitions("absent")
    with pytest.raises(UsageError, match=r"no topic .*absent"):
        case.producer().send("absent", message("x"))
    with pytest.raises(UsageError, match=r"no topic .*absent"):
        case.consumer(topics=("in", "absent"))
    with pytest.raises(UsageError, match=r"no topic .*absent"):
        case.reader([TopicPartition("absent", 0)])


def test_topics_are_created_once_and_another_partition_count_is_refused(case: StreamCase) -> None:
    case.stream.ensure_topics([IN, ALSO_IN])
    assert case.stream.partitions("in") == PARTITIONS
    with pytest.raises(UsageError, match="topic in has 4 partitions, not 5"):
        case.stream.ensure_topics([replace(IN, partitions=5)])
    assert case.stream.partitions("in") == PARTITIONS
