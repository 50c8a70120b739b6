"""Looking up pieces of a map, one tick at a time and for arrays, also where a clock shows its ticks twice."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetscope.contracts.derived import ALIGNMENTS
from processors.clocks.pair import PairRules, finish
from processors.clocks.segments import (
    END_OF_TIME,
    NO_BOUND,
    Segment,
    SegmentMap,
    State,
    beyond,
    segment_rows,
    segments_of,
)
from tests.unit.processors.clocks.models import HOST_START, NS, Model, fitted, probes

RULES = PairRules()


def piece(start: int, stop: int, dst: int, *, rate: int = 1 << 32, err: int | None = 10, epoch: int = 0,
          state: State = "settled", utc: int | None = None) -> Segment:
    return Segment(epoch, start, stop, start, dst, rate, err, utc, state, 0)


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, np.int64)


CHAIN = SegmentMap([piece(0, 100, 1_000), piece(100, 200, 1_100, rate=(1 << 32) * 2, err=None, state="gap"),
                    piece(200, 300, 1_300, state="provisional", utc=7)])


@given(st.lists(st.integers(-(1 << 50), 1 << 50), min_size=1, max_size=30), st.integers(1 << 20, 1 << 40))
def test_an_array_is_mapped_as_each_tick_alone(ticks: list[int], rate: int) -> None:
    start = min(ticks)
    middle = start + (max(ticks) - start) // 2 + 1
    pieces = [piece(start, middle, 5, rate=rate), piece(middle, max(ticks) + 2, 9, rate=rate // 2)]
    mapped = SegmentMap(pieces).apply(ints(*ticks), ints(*ticks))
    assert mapped.time.tolist() == [pieces[t >= middle].at(t) for t in ticks]
    assert mapped.end.tolist() == mapped.time.tolist()


def test_ends_are_mapped_by_the_piece_of_their_start() -> None:
    mapped = CHAIN.apply(ints(90, 150), ints(110, 250))
    assert mapped.time.tolist() == [1_090, 1_200]
    assert mapped.end.tolist() == [1_110, 1_400]


def test_bounds_and_states_come_from_the_piece_and_are_missing_outside() -> None:
    mapped = CHAIN.apply(ints(-5, 0, 100, 299, 300), ints(-5, 0, 100, 299, 300))
    assert mapped.err_ns.tolist() == [NO_BOUND, 10, NO_BOUND, 10, NO_BOUND]
    assert mapped.utc_err_ns.tolist() == [NO_BOUND, NO_BOUND, NO_BOUND, 7, NO_BOUND]
    assert [ALIGNMENTS[s] for s in mapped.state] == ["gap", "settled", "gap", "provisional", "gap"]
    assert mapped.time.tolist()[::4] == [995, 1_400]


def test_a_batch_within_one_piece_is_mapped_like_any_other() -> None:
    alone = CHAIN.apply(ints(210, 299), ints(215, 299))
    among = CHAIN.apply(ints(210, 299, 5), ints(215, 299, 5))
    for name in ("time", "end", "err_ns", "utc_err_ns", "state"):
        assert getattr(alone, name).tolist() == getattr(among, name).tolist()[:2]


def test_an_empty_map_raises_and_an_empty_array_does_not() -> None:
    with pytest.raises(ValueError, match="no segment"):
        SegmentMap().apply(ints(1), ints(1))
    assert CHAIN.apply(ints(), ints()).time.tolist() == []


def test_absurd_ticks_do_not_overflow() -> None:
    slow = SegmentMap([piece(0, 100, 1 << 60, rate=52 << 32)])
    mapped = slow.apply(ints(-(1 << 62), 5, 1 << 62), ints(-(1 << 62), 5, 1 << 62))
    assert mapped.time[0] < mapped.time[1] < mapped.time[2]
    assert mapped.err_ns.tolist() == [NO_BOUND, 10, NO_BOUND]


def test_the_newest_piece_that_holds_a_tick_is_found() -> None:
    both = SegmentMap([piece(0, 100, 0), piece(50, 80, 9_000, epoch=1)])
    assert [getattr(both.find(t), "epoch", None) for t in (10, 60, 90, 100)] == [0, 1, 0, None]


def test_forgetting_keeps_what_holds_later_ticks_and_always_the_last_piece() -> None:
    segments = SegmentMap(CHAIN.segments)
    segments.forget_before(100)
    assert [s.valid_from for s in segments.segments] == [100, 200]
    segments.forget_before(10**9)
    assert [s.valid_from for s in segments.segments] == [200]
    assert segments.apply(ints(250), ints(250)).time.tolist() == [1_350]


def test_forgetting_by_target_time_drops_a_former_run_whose_ticks_are_higher() -> None:
    reset = SegmentMap([piece(10**9, 2 * 10**9, 0), piece(5, 900, 3 * 10**9, epoch=1)])
    reset.forget_target_before(2 * 10**9)
    assert [s.epoch for s in reset.segments] == [1]


def test_rows_of_the_contract_give_the_segments_back() -> None:
    rows = segment_rows("h1", "dev0", "h1", "monotonic_raw", CHAIN.segments)
    assert segments_of(rows) == CHAIN.segments


def test_a_tick_is_decided_below_the_last_piece_or_in_a_former_one() -> None:
    reset = SegmentMap([piece(10**9, 2 * 10**9, 0), piece(5, 900, 3 * 10**9, epoch=1)])
    assert [reset.decided(t) for t in (899, 900, 10**9, 2 * 10**9)] == [True, False, True, False]
    assert not SegmentMap().decided(0)


def test_a_tick_is_decided_when_the_map_has_come_to_when_it_was_sent() -> None:
    segments = SegmentMap([piece(0, 100, 1_000)])
    assert segments.decided(50, sent=1_099)
    assert not segments.decided(50, sent=1_100)


def reset_map(uptime_s: int) -> tuple[Model, Model, SegmentMap]:
    """A device that ran ``uptime_s``, was reset 0.4 s after its last probe, and runs since."""
    rng = random.Random(uptime_s)
    old = Model(100_000_000, 0, 20.0)
    new = Model(100_000_000, -round((uptime_s + 0.4) * NS), 21.0)
    pair = fitted(old, [*probes(old, rng, 0, uptime_s), *probes(new, rng, uptime_s + 0.9, uptime_s + 30)], RULES)
    finish(pair, RULES)
    return old, new, SegmentMap(pair.take())


@pytest.mark.parametrize("uptime_s", [4, 12, 40])
def test_rows_sent_soon_belong_to_the_run_they_were_stamped_in(uptime_s: int) -> None:
    old, new, segments = reset_map(uptime_s)
    linger = 200_000_000
    for tenth in range(10 * uptime_s + 200):
        at = HOST_START + tenth * NS // 10 + 17
        clock = old if tenth < 10 * uptime_s + 4 else new
        tick = clock.read(at)
        mapped = segments.apply(ints(tick), ints(tick), at + linger)
        if mapped.err_ns[0] != NO_BOUND:
            assert abs(int(mapped.time[0]) - at) <= mapped.err_ns[0]
        else:
            assert abs(int(mapped.time[0]) - at) < 11 * NS
    sure = [new.read(HOST_START + round((uptime_s + s) * NS)) for s in (11, 15, 20)]
    sent = HOST_START + round((uptime_s + 20.2) * NS)
    late = segments.apply(ints(*sure), ints(*sure), sent)
    assert (late.err_ns[-1] != NO_BOUND)
    assert abs(int(late.time[-1]) + 200_000_000 - sent) <= late.err_ns[-1]


def test_a_row_that_two_runs_can_explain_has_no_bound() -> None:
    old, new, segments = reset_map(4)
    twice = old.read(HOST_START + 2 * NS)
    sent = HOST_START + round(6.5 * NS)
    assert new.read(sent) > twice
    mapped = segments.apply(ints(twice), ints(twice), sent)
    assert mapped.err_ns.tolist() == [NO_BOUND]
    assert ALIGNMENTS[mapped.state[0]] == "gap"
    unknown = segments.apply(ints(twice), ints(twice))
    assert unknown.err_ns.tolist() == [NO_BOUND]


def test_a_row_of_before_the_reset_is_not_moved_after_it() -> None:
    old, _, segments = reset_map(12)
    at = HOST_START + 11 * NS
    mapped = segments.apply(ints(old.read(at)), ints(old.read(at)), at + NS // 5)
    assert mapped.err_ns[0] != NO_BOUND
    assert abs(int(mapped.time[0]) - at) <= mapped.err_ns[0]


def test_a_stuck_clock_s_rows_have_no_bound() -> None:
    clock = Model(NS, stuck_at=round(10.5 * NS))
    pair = fitted(clock, probes(clock, random.Random(1), 0, 25), RULES)
    segments = SegmentMap(pair.take())
    sent = HOST_START + 20 * NS
    tick = clock.read(sent)
    assert segments.apply(ints(tick), ints(tick), sent).err_ns.tolist() == [NO_BOUND]


def test_the_end_of_a_closed_clock_is_a_gap_for_ever() -> None:
    last = Segment(0, 10**9, 3 * 10**9, 10**9, 7, (1 << 32) - 399_999, 100, None, "settled", 0)
    end = beyond(last)
    assert (end.valid_from, end.valid_to, end.err_ns, end.state) == (last.valid_to, END_OF_TIME, None, "gap")
    assert end.at(last.valid_to) == last.at(last.valid_to)
