"""What arrived of what was sent, and promises."""

from __future__ import annotations

import json

import pytest

from fleetscope.contracts.batch import StreamKey
from fleetscope.ledger import Ledger
from processors.align.progress import Beat, LaneKey, Progress, Tally

STREAM = StreamKey("h1/agent", 1, "spans")


def beat(time: int, batches: int, rows: int, *, epoch: int = 1, dropped: int = 0) -> Beat:
    return Beat(epoch, time, batches, rows, dropped, time, False)


def tally(*received: tuple[int, int]) -> Tally:
    made = Tally()
    for sequence, rows in received:
        made.received(sequence, rows)
    return made


def test_rows_that_did_not_come_are_lost() -> None:
    assert tally((0, 10), (2, 30)).account(beat(1, 3, 60, dropped=4)) == (60, 40, 4, 20)


def test_each_beat_accounts_for_what_came_since_the_one_before() -> None:
    made = tally((0, 10), (1, 20), (2, 5))
    assert made.account(beat(1, 2, 30)) == (30, 30, 0, 0)
    assert made.account(beat(2, 3, 35, dropped=7)) == (5, 5, 7, 0)


def test_a_loss_that_comes_after_all_is_taken_back() -> None:
    made = tally((0, 10))
    assert made.account(beat(1, 2, 30)) == (30, 10, 0, 20)
    made.received(1, 20)
    assert made.account(beat(2, 2, 30)) == (0, 20, 0, -20)
    assert made.account(beat(3, 2, 30)) == (0, 0, 0, 0)


def test_a_rejected_batch_is_not_lost() -> None:
    made = tally((0, 10))
    made.refused(1, 20)
    assert made.account(beat(1, 2, 30)) == (30, 10, 0, 0)


def test_a_rejected_batch_that_is_read_again_is_not_counted_again() -> None:
    made = tally((0, 10))
    made.refused(1, 20)
    made.refused(1, 20)
    made.account(beat(1, 2, 30))
    made.refused(1, 20)
    assert made.account(beat(2, 2, 30)) == (0, 0, 0, 0)


def entered(progress: Progress, made: Beat, clock: str = "dev0") -> None:
    progress.beat(STREAM.producer, STREAM.contract, clock, made)


@pytest.mark.parametrize(("sequences", "expected"), [
    ([0, 1], True), ([0], False), ([], False), ([0, 2], True), ([1], True),
], ids=["all", "first only", "none", "a later one", "the last one"])
def test_a_beat_has_arrived_when_its_last_batch_or_a_later_one_came(sequences: list[int], *, expected: bool) -> None:
    progress, ledger = Progress(), Ledger()
    for sequence in sequences:
        ledger.add(STREAM, sequence, 0, 5, 5)
    entered(progress, beat(100, 2, 10))
    assert progress.arrived(STREAM, beat(100, 2, 10), ledger, 50) is expected


def test_a_batch_that_is_half_there_has_not_arrived() -> None:
    progress, ledger = Progress(), Ledger()
    ledger.add(STREAM, 0, 0, 3, 5)
    entered(progress, beat(100, 1, 5))
    assert not progress.arrived(STREAM, beat(100, 1, 5), ledger, 50)
    ledger.add(STREAM, 0, 3, 2, 5)
    assert progress.arrived(STREAM, beat(100, 1, 5), ledger, 50)


def test_a_beat_whose_batches_do_not_come_is_given_up_when_later_beats_are_that_much_later() -> None:
    progress, waiting = Progress(), beat(100, 2, 10)
    entered(progress, waiting)
    entered(progress, beat(149, 2, 10))
    assert not progress.arrived(STREAM, waiting, Ledger(), 50)
    entered(progress, beat(150, 2, 10))
    assert progress.arrived(STREAM, waiting, Ledger(), 50)


def test_a_rejected_last_batch_has_arrived_also_after_it_was_accounted_for() -> None:
    progress, ledger, made = Progress(), Ledger(), beat(100, 2, 10)
    ledger.add(STREAM, 0, 0, 5, 5)
    entered(progress, made)
    progress.tally(STREAM).refused(1, 5)
    assert progress.arrived(STREAM, made, ledger, 50)
    progress.tally(STREAM).account(made)
    assert progress.arrived(STREAM, made, ledger, 50)


def test_a_new_epoch_retires_the_lanes_of_its_producer_only() -> None:
    progress = Progress()
    entered(progress, beat(100, 1, 5))
    progress.beat("h1/other", "spans", "dev1", beat(100, 1, 5))
    progress.beat(STREAM.producer, "counters", "dev0", beat(200, 0, 0, epoch=2))
    assert set(progress.lanes) == {LaneKey("h1/other", "spans", "dev1"), LaneKey(STREAM.producer, "counters", "dev0")}
    assert progress.tally(STREAM).beats == [beat(100, 1, 5)]


def test_a_beat_of_a_former_epoch_is_let_pass() -> None:
    progress = Progress()
    entered(progress, beat(200, 0, 0, epoch=2))
    entered(progress, beat(150, 9, 90, epoch=1))
    assert [b.epoch for lane in progress.lanes.values() for b in lane.beats] == [2]


def test_one_heartbeat_for_two_clocks_of_a_kind_is_accounted_for_once() -> None:
    progress = Progress()
    for clock in ("dev0", "dev1"):
        entered(progress, beat(100, 3, 60), clock)
    assert progress.tally(STREAM).beats == [beat(100, 3, 60)]
    assert len(progress.lanes) == 2


def test_progress_survives_a_way_through_json() -> None:
    progress = Progress(watermark=77)
    entered(progress, beat(100, 3, 60))
    entered(progress, beat(200, 4, 61), "dev1")
    progress.tally(STREAM).received(0, 10)
    progress.tally(STREAM).refused(1, 20)
    progress.tally(STREAM).account(beat(100, 1, 10))
    again = Progress.of_plain(json.loads(json.dumps(progress.plain())))
    assert again == progress
