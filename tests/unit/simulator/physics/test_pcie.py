from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.machine import load_machine
from simulator.physics.pcie import Link, half_size_bytes, link_of, replay_share, transfer_ns, wire_bytes

# GT/s, lanes, writes GB/s, reads GB/s at MPS 256; published figures (ALGORITHMS §3).
TABLE = [(8, 16, 13.0, 13.2), (16, 8, 13.2, 13.4), (16, 16, 26.0, 26.4), (32, 8, 26.5, 26.9), (32, 16, 52.0, 52.7),
         (64, 16, 111, 113)]


@pytest.mark.parametrize(("gt_s", "lanes", "write", "read"), TABLE)
def test_ceilings_are_the_published_ones_within_3_percent(gt_s: float, lanes: int, write: float, read: float) -> None:
    link = Link(gt_s, lanes, 256)
    assert link.ceiling_bytes_per_s("d2h") == pytest.approx(write * 1e9, rel=0.03)
    assert link.ceiling_bytes_per_s("h2d") == pytest.approx(read * 1e9, rel=0.03)


def test_raw_rates_are_those_of_the_encodings() -> None:
    assert Link(5.0, 1).raw_bytes_per_s == pytest.approx(0.5e9)
    assert Link(8.0, 16).raw_bytes_per_s == pytest.approx(15.7538e9, rel=1e-5)
    assert Link(64.0, 16).raw_bytes_per_s == pytest.approx(118e9)


def test_small_completions_and_small_packets_cost_headers() -> None:
    plain = Link(16.0, 16, 256)
    assert Link(16.0, 16, 256, completion_bytes=64).ceiling_bytes_per_s("h2d") / plain.ceiling_bytes_per_s("h2d") == (
        pytest.approx((64 / 84) / (256 / 276)))
    assert Link(16.0, 16, 128).ceiling_bytes_per_s("d2h") / plain.ceiling_bytes_per_s("d2h") == (
        pytest.approx((128 / 152) / (256 / 280)))


def test_few_tags_or_a_long_way_bound_reads_and_not_writes() -> None:
    far = Link(32.0, 16, 256, 512, tags=32, round_trip_ns=1_000)
    assert far.ceiling_bytes_per_s("h2d") == pytest.approx(16.384e9)  # 32·512 B a microsecond
    assert far.ceiling_bytes_per_s("d2h") == Link(32.0, 16).ceiling_bytes_per_s("d2h")


def test_read_requests_take_from_the_writes_beside_them() -> None:
    link = Link(16.0, 16, 256, 512)
    reads = link.ceiling_bytes_per_s("h2d")
    alone, beside = link.ceiling_bytes_per_s("d2h"), link.d2h_beside_bytes_per_s(reads)
    # a request of 24 B for 512 B read, as writes carry 256 of 280 B
    assert alone - beside == pytest.approx(reads * 24 / 512 * 256 / 280)


def test_a_link_is_what_device_and_slot_agree_on() -> None:
    machine = load_machine("h100-like")
    assert (link_of(machine).gt_s, link_of(machine).lanes) == (32.0, 16)
    worse = link_of(machine, gt_s=16.0, lanes=8)
    assert (worse.gt_s, worse.lanes) == (16.0, 8)
    assert (link_of(machine, gt_s=64.0, lanes=32).gt_s, link_of(machine, lanes=32).lanes) == (32.0, 16)


def test_half_the_time_of_the_half_size_is_set_up() -> None:
    machine = load_machine("infer-24")
    link = link_of(machine)
    half = half_size_bytes(link, machine, "h2d")
    alpha, whole = transfer_ns(np.array([0, round(half)]), link, machine, "h2d")
    assert alpha == pytest.approx(1_200 + 900)
    assert whole == pytest.approx(2 * alpha, rel=1e-4)
    assert half == pytest.approx(2_100e-9 * 13.2e9, rel=0.03)


@given(st.integers(0, 10_000), st.integers(0, 10_000), st.sampled_from([128, 256, 512]),
       st.sampled_from([128, 512, 1024]))
def test_wire_bytes_are_those_of_packets_counted_one_by_one(h2d: int, d2h: int, mps: int, mrrs: int) -> None:
    received = sent = 0
    left = h2d
    while left > 0:  # completions
        received, left = received + min(left, mps) + 20, left - mps
    left = d2h
    while left > 0:  # writes
        sent, left = sent + min(left, mps) + 24, left - mps
    left = h2d
    while left > 0:  # read requests
        sent, left = sent + 24, left - mrrs
    result = wire_bytes(np.array([h2d]), np.array([d2h]), Link(16.0, 8, mps, mrrs))
    assert (int(result[0][0]), int(result[1][0])) == (received, sent)


def test_replays_take_a_round_trip_each_and_never_more_than_everything() -> None:
    assert replay_share(1_000, Link(16.0, 8)) == pytest.approx(0.0009)
    assert replay_share(1e9, Link(16.0, 8)) == 1.0
