"""A member that keeps a partition over a rebalance starts afresh: from the committed position, and not paused."""

from __future__ import annotations

from fleetscope.step import TopicPartition
from fleetscope.stream.abstract import Consumer, Position
from tests.support.stream_case import PARTITIONS, StreamCase, take, texts, wait_for

EVERY = [TopicPartition("in", p) for p in range(PARTITIONS)]


def fill(case: StreamCase, *words: str) -> None:
    """Each word into every partition."""
    for at in EVERY:
        case.send("in", *(f"{word}-{at.partition}" for word in words), partition=at.partition)


def read_after_another_joined(case: StreamCase, first: Consumer, count: int) -> list[str]:
    """What ``first`` and a second member get from the rebalance on, until it is ``count`` messages and no more come.

    A broker may rebalance more than once; what is not committed is then read again, so repeats do not count.
    """
    assigned: list[int] = []
    second = case.consumer(on_assigned=lambda given: assigned.append(len(given)))
    found: list[str] = []
    quiet = [0]

    def complete() -> bool:
        got = [*first.poll(100, 0.05), *second.poll(100, 0.05)]
        found.extend(texts(got))
        quiet[0] = 0 if got else quiet[0] + 1
        return len(first.assignment()) == len(second.assignment()) == PARTITIONS // 2 and (
            len(set(found)) >= count and quiet[0] > 5)

    wait_for(complete, f"{count} messages for two members")
    assert set(assigned) == {PARTITIONS // 2}
    return sorted(set(found))


def test_what_was_read_and_not_committed_is_read_again_by_whoever_has_the_partition(case: StreamCase) -> None:
    first = case.joined()
    fill(case, "x", "y", "z")
    take(first, 3 * PARTITIONS)
    first.commit({at: Position(first.position(at) - 1) for at in EVERY})
    assert read_after_another_joined(case, first, PARTITIONS) == [f"z-{p}" for p in range(PARTITIONS)]


def test_without_any_commit_a_kept_partition_is_read_from_its_beginning(case: StreamCase) -> None:
    first = case.joined()
    fill(case, "x", "y")
    take(first, 2 * PARTITIONS)
    assert read_after_another_joined(case, first, 2 * PARTITIONS) == sorted(
        f"{word}-{p}" for word in "xy" for p in range(PARTITIONS))


def test_a_pause_ends_with_the_assignment_even_where_the_partition_is_kept(case: StreamCase) -> None:
    first = case.joined()
    first.pause(EVERY)
    fill(case, "x")
    assert read_after_another_joined(case, first, PARTITIONS) == [f"x-{p}" for p in range(PARTITIONS)]
