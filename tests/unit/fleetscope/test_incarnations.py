"""Processes of a producer that number anew in one epoch are told apart; repeats are still repeats."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from fleetscope.contracts.batch import Header
from fleetscope.incarnations import LIVES, MARKS, Incarnations, base_of, life_of


def header(sequence: int, flushed: int | None, contract: str = "spans", epoch: int = 5) -> Header:
    return Header(contract, 1, "h", "h/agent", epoch, sequence, 10, flushed_ticks=flushed)


def names(incarnations: Incarnations, *batches: tuple[int, int | None]) -> list[str]:
    return [incarnations.enter(header(*batch)).producer for batch in batches]


def test_a_process_keeps_the_name_and_the_next_one_of_the_epoch_gets_its_own() -> None:
    known = Incarnations()
    assert names(known, (0, 100), (1, 200), (2, 200), (3, 300)) == ["h/agent"] * 4
    assert names(known, (0, 400), (1, 500)) == ["h/agent~2"] * 2
    assert names(known, (0, 600)) == ["h/agent~3"]
    assert (base_of("h/agent~3"), life_of("h/agent~3")) == ("h/agent", 3)
    assert (base_of("a~b"), life_of("a~b")) == ("a~b", 1)


def test_repeats_late_and_reordered_batches_stay_with_the_process_that_sent_them() -> None:
    known = Incarnations()
    assert names(known, (0, 100), (4, 500), (2, 300), (2, 300)) == ["h/agent"] * 4
    assert names(known, (0, 900), (2, 1_100)) == ["h/agent~2"] * 2
    assert names(known, (3, 400), (5, 600), (0, 100)) == ["h/agent"] * 3
    assert names(known, (1, 1_000), (0, 900)) == ["h/agent~2"] * 2


def test_a_process_whose_first_batch_was_lost_is_told_by_the_next_one() -> None:
    known = Incarnations()
    assert names(known, *((n, 100 * n) for n in range(10)), (1, 5_000)) == ["h/agent"] * 10 + ["h/agent~2"]


def test_a_host_that_rebooted_in_the_same_epoch_is_told_by_its_first_batch() -> None:
    known = Incarnations()
    names(known, *((n, 10_000 + 100 * n) for n in range(500)))
    assert names(known, (0, 50), (1, 70)) == ["h/agent~2"] * 2


def test_kinds_and_epochs_are_counted_apart_and_batches_without_a_time_belong_to_the_newest() -> None:
    known = Incarnations()
    names(known, (0, 100), (0, 200))
    assert known.enter(header(0, 300, "counters")).producer == "h/agent"
    assert known.enter(header(0, 300, epoch=6)).producer == "h/agent"
    assert names(known, (7, None)) == ["h/agent~2"]
    assert Incarnations().enter(header(7, None)).producer == "h/agent"


def test_what_is_remembered_is_bounded() -> None:
    known = Incarnations()
    names(known, *((n, n) for n in range(10_000)))
    for life in range(3 * LIVES):
        names(known, (0, 20_000 + life))
    (stream,) = known.to_plain()
    assert len(stream[4]) == LIVES
    assert all(len(marks) <= MARKS for marks in stream[4])
    assert names(known, (0, 90_000)) == [f"h/agent~{3 * LIVES + 2}"]


@given(st.lists(st.integers(0, 3), min_size=1, max_size=300), st.integers(0, 40), st.randoms())
def test_a_delivery_with_repeats_out_of_order_never_makes_a_process_of_one(gaps: list[int], reach: int, rng: object
                                                                           ) -> None:
    sent, at = [], 0
    for sequence, gap in enumerate(gaps):
        at += gap
        sent.append((sequence, at))
    shift = {batch: rng.randint(0, reach) for batch in sent}  # type: ignore[attr-defined]
    order = sorted(sent + sent[::3], key=lambda batch: batch[0] + shift[batch])
    assert set(names(Incarnations(), *order)) == {"h/agent"}


@given(st.lists(st.integers(1, 200), min_size=2, max_size=6), st.integers(0, 10_000))
def test_every_process_is_told_apart_and_a_restart_between_changes_nothing(lengths: list[int], cut: int) -> None:
    batches, expected, at = [], [], 0
    for life, length in enumerate(lengths, 1):
        for sequence in range(length):
            at += 7
            batches.append((sequence, at))
            expected.append("h/agent" if life == 1 else f"h/agent~{life}")
    whole = names(Incarnations(), *batches)
    assert whole == expected
    cut %= len(batches)
    first = Incarnations()
    before = names(first, *batches[:cut])
    assert before + names(Incarnations.from_plain(json.loads(json.dumps(first.to_plain()))), *batches[cut:]) == whole
