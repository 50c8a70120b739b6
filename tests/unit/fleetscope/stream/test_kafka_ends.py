"""Consumers of one process ask the broker together where their partitions end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from fleetscope.errors import RetryError
from fleetscope.step import TopicPartition
from fleetscope.stream.kafka_ends import WATCHED_S, SharedEnds

A, B, C = (TopicPartition("t", number) for number in range(3))


@dataclass
class Broker:
    now_s: float = 100.0
    end: int = 0
    asked: list[list[TopicPartition]] = field(default_factory=list)
    away: bool = False

    def ask(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        self.asked.append(list(partitions))
        if self.away:
            raise RetryError("away")
        self.end += 1
        return dict.fromkeys(partitions, self.end)


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def ends(broker: Broker) -> SharedEnds:
    return SharedEnds(broker.ask, lambda: broker.now_s)


def test_one_request_answers_all_who_ask_within_the_age(broker: Broker, ends: SharedEnds) -> None:
    ends.ends([A], 0.2)
    ends.ends([B], 0.2)
    broker.now_s += 0.3
    assert ends.ends([A], 0.2) == {A: 3}
    assert ends.ends([B], 0.2) == {B: 3}
    assert broker.asked == [[A], [A, B], [A, B]]


def test_an_older_answer_is_asked_for_again(broker: Broker, ends: SharedEnds) -> None:
    assert ends.ends([A], 0.2) == {A: 1}
    broker.now_s += 0.15
    assert ends.ends([A], 0.2) == {A: 1}
    broker.now_s += 0.1
    assert ends.ends([A], 0.2) == {A: 2}


def test_partitions_that_nobody_asks_for_any_more_are_dropped(broker: Broker, ends: SharedEnds) -> None:
    ends.ends([A, C], 0.2)
    broker.now_s += WATCHED_S + 0.1
    ends.ends([B], 0.2)
    assert broker.asked[-1] == [B]
    assert ends.ends([A], 0.2) == {A: 3}


def test_a_failure_is_told_and_the_next_call_asks_again(broker: Broker, ends: SharedEnds) -> None:
    broker.away = True
    with pytest.raises(RetryError):
        ends.ends([A], 0.2)
    broker.away = False
    assert ends.ends([A], 0.2) == {A: 1}
