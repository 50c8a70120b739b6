"""Rows in ticks to rows in fleet time."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.codec import decode, encode
from processors.align.mapping import Route, aligned
from processors.clocks.fixed import mul_q32_one
from processors.clocks.segments import Segment, SegmentMap, State

NS = 1_000_000_000
RATE = (10 << 32) + 98_765


def piece(start: int, stop: int, dst: int, rate: int, err: int | None, utc: int | None = None,
          state: State = "settled") -> Segment:
    return Segment(0, start, stop, start, dst, rate, err, utc, state, 0)


LOCAL = SegmentMap([piece(0, 10**8, 5 * NS, RATE, 400),
                    piece(10**8, 2 * 10**8, 5 * NS + mul_q32_one(10**8, RATE), RATE - 9_999, 500, None, "provisional"),
                    piece(2 * 10**8, 3 * 10**8, 9 * NS, RATE, None, None, "gap")])
FLEET = SegmentMap([piece(0, 100 * NS, 10**18, (1 << 32) + 20_000, 3, 60)])


def spans(*rows: tuple[int, int]) -> Batch:
    made = from_rows(CONTRACTS["spans"], [{"track": "driver", "name": "k", "start_ticks": start,
                                           "duration_ticks": length} for start, length in rows])
    return Batch(Header("spans", CONTRACTS["spans"].version, "h1", "h1/agent", 1, 0, len(rows), "dev0"), made)


def test_a_duration_is_ticks_times_rate_whatever_the_start() -> None:
    rng = random.Random(1)
    rows = [(rng.randrange(10**8), length) for length in [0, 1, 7, 12_345, 10**6, 40 * 10**6] * 20]
    route = Route(SegmentMap(LOCAL.segments[:1]), SegmentMap([piece(0, 100 * NS, 10**18, 1 << 32, 3)]))
    found = aligned([(spans(*rows), route)]).column("duration_ns").to_pylist()
    assert all(abs(ns - mul_q32_one(length, RATE)) <= 1 for ns, (_, length) in zip(found, rows, strict=True))


def test_spans_that_touch_on_one_clock_touch_in_fleet_time() -> None:
    rng = random.Random(2)
    edges = sorted(rng.sample(range(10**8 - 1), 300))
    made = aligned([(spans(*((a, b - a) for a, b in pairwise(edges))), Route(LOCAL, FLEET))]).to_pylist()
    assert all(a["start_ns"] + a["duration_ns"] == b["start_ns"] for a, b in pairwise(made))


def test_bounds_of_both_hops_add_up_and_the_less_sure_state_holds() -> None:
    made = aligned([(spans((5, 1), (10**8 + 5, 1), (2 * 10**8 + 5, 1)), Route(LOCAL, FLEET))]).to_pylist()
    assert [(r["err_ns"], r["utc_err_ns"], r["alignment"]) for r in made] == [
        (404, 461, "settled"), (504, 561, "provisional"), (None, None, "gap")]


def test_the_reference_clock_needs_one_hop_only() -> None:
    (made,) = aligned([(spans((50 * NS, 1_000_000)), Route(None, FLEET))]).to_pylist()
    assert (made["err_ns"], made["utc_err_ns"]) == (3, 60)
    assert made["start_ns"] == FLEET.segments[0].at(50 * NS)


def test_raw_columns_stay_as_they_are() -> None:
    batch = spans((17, 5), (19, 6))
    made = aligned([(batch, Route(LOCAL, FLEET))])
    assert made.select(batch.rows.schema.names).to_pylist() == batch.rows.to_pylist()


@pytest.mark.parametrize("tick", [-(1 << 62), 1 << 62, 1 << 55, 4 * 10**8])
def test_absurd_stamps_are_kept_before_their_sending_and_the_batch_stays_readable(tick: int) -> None:
    batch = spans((tick, 3), (5, 1))
    made = aligned([(batch, Route(LOCAL, FLEET, sent=8 * NS))])
    row = made.to_pylist()[0]
    assert row["err_ns"] is None
    assert 0 <= row["start_ns"] <= FLEET.segments[0].at(8 * NS)
    assert made.to_pylist()[1]["err_ns"] == 404
    header = Header("aligned_spans", CONTRACTS["aligned_spans"].version, "h1", "h1/agent", 1, 0, 2, "dev0")
    message = encode(Batch(header, made))
    assert decode(message.key, message.value, message.headers).rows.num_rows == 2


def test_a_tick_is_decided_when_every_hop_has_come_so_far() -> None:
    short = SegmentMap([piece(0, 5 * NS + 100, 10**18, 1 << 32, 3)])
    assert Route(LOCAL, FLEET).decided(5)
    assert not Route(LOCAL, FLEET).decided(3 * 10**8)
    assert not Route(LOCAL, short).decided(50)
    assert not Route(SegmentMap(), FLEET).decided(5)
    assert not Route(None, SegmentMap()).decided(5)


def test_a_stamp_after_its_own_sending_is_not_waited_for() -> None:
    assert Route(None, FLEET, sent=60 * NS).decided(10**17)
    assert Route(LOCAL, FLEET, sent=8 * NS).decided(10**17)
    assert not Route(None, FLEET, sent=200 * NS).decided(10**17)
