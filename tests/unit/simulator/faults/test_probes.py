"""Probes that go wrong, judged on the rows that are published."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from fleetscope.contracts.codec import decode, decode_header
from fleetscope.errors import RejectedError
from simulator.faults.settings import Latency
from simulator.probes import Path
from tests.unit.simulator.faults.runs import NS, Row, faulty, rows, simulated


def samples(clocks: dict[str, Any] | None = None, collection: dict[str, Any] | None = None, **changes: Any) \
        -> list[Row]:
    return rows(simulated(faulty(clocks, collection, **changes))[0], "clock_samples")


def devices(found: list[Row]) -> list[Row]:
    return [row for row in found if row["remote_clock"] == "dev0"]


def links(found: list[Row]) -> list[Row]:
    return [row for row in found if row["remote_host"] is not None]


PLAIN = samples()


def test_the_rate_of_bursts_follows_its_setting() -> None:
    assert len(devices(samples({"probes": {"rate_hz": 4.0}}))) == pytest.approx(4 * len(devices(PLAIN)), rel=0.3)


def test_a_lognormal_path_has_the_median_and_the_tail_it_was_given() -> None:
    path = Path(Latency(base_ns=1_000, spread_ns=200, tail="lognormal", sigma=1.5, slow_share=0.0))
    drawn = path.draw(np.random.default_rng(1), 20_000, 0)
    assert np.median(drawn) == pytest.approx(1_200, rel=0.02)
    assert np.percentile(drawn, 97.725) == pytest.approx(1_000 + 200 * np.exp(3.0), rel=0.1)  # two sigma
    assert drawn.min() >= 1_000


def test_an_asymmetric_path_is_slow_in_the_direction_that_was_said() -> None:
    found = links(samples({"probes": {"network_back": {"base_ns": 80_000, "spread_ns": 100}}}))
    trips = [row["local_after_ticks"] - row["local_before_ticks"] for row in found]
    assert min(trips) > 88_000


def test_congestion_lasts_as_long_as_planned_on_its_path_in_its_direction() -> None:
    path = {"path": "network", "direction": "out", "at_s": 0.5, "for_s": 1.0, "extra_ns": 300_000, "host": 0}
    settings = faulty({"probes": {"congestion": [path], "rate_hz": 5.0}})
    raw = settings.clocks(0).raw
    publications = simulated(settings)[0]
    for row in links(rows(publications, "clock_samples", "sim00")):
        slow = row["local_after_ticks"] - row["local_before_ticks"] > 300_000
        assert slow == (raw.at(NS // 2) <= row["local_before_ticks"] < raw.at(NS * 3 // 2))
    others = [*links(rows(publications, "clock_samples", "sim01")), *devices(rows(publications, "clock_samples"))]
    assert max(row["local_after_ticks"] - row["local_before_ticks"] for row in others) < 200_000


def test_lost_exchanges_are_missing_and_repeated_ones_come_twice() -> None:
    def stamps(found: list[Row]) -> list[tuple[str, int]]:
        return [(row["producer"], row["local_before_ticks"]) for row in found]

    assert 0.4 < len(samples({"probes": {"lost_share": 0.4}})) / len(PLAIN) < 0.8
    twice = stamps(samples({"probes": {"duplicate_share": 0.3}}))
    assert 1.1 < len(twice) / len(set(twice)) < 1.5


def test_disordered_bursts_hold_the_same_exchanges_in_another_order() -> None:
    found = [row["local_before_ticks"] for row in devices(samples({"probes": {"disordered": True}}))]
    plain = [row["local_before_ticks"] for row in devices(PLAIN)]
    assert sum(b < a for a, b in pairwise(found)) > sum(
        b < a for a, b in pairwise(plain))
    assert len(found) == len(plain)


def test_overlapping_exchanges_begin_before_the_last_one_is_back() -> None:
    found = links(samples({"probes": {"overlapping": True}}))
    pairs = [(a, b) for a, b in pairwise(found) if a["producer"] == b["producer"]]
    assert any(a["local_before_ticks"] < b["local_before_ticks"] < a["local_after_ticks"] for a, b in pairs)


def test_unset_and_absurd_stamps_decode_and_those_of_a_nan_take_their_message_along() -> None:
    assert any(row["remote_first_ticks"] == 0 for row in samples({"probes": {"unset_share": 0.2}}))
    odd = {-1, 1, 0xFFFF_FFFF, 1 << 61}
    found = samples({"probes": {"absurd_share": 0.3}})
    assert {row["remote_first_ticks"] for row in found} & odd
    assert {row["local_after_ticks"] for row in found} & odd
    codes = set()
    for p in simulated(faulty({"probes": {"nan_share": 0.2}}))[0]:
        try:
            decode(p.message.key, p.message.value, p.message.headers)
        except RejectedError as error:
            codes.add((decode_header(p.message.headers).contract, error.code))
    assert codes == {("clock_samples", "absurd_value")}


def test_an_exchange_that_is_not_back_by_the_flush_is_given_up() -> None:
    slow = {"network_out": {"base_ns": 150_000_000, "spread_ns": 1_000}}
    publications = simulated(faulty({"probes": slow}))[0]
    for p in publications:
        if p.contract == "clock_samples":
            batch = decode(p.message.key, p.message.value, p.message.headers)
            assert max(batch.rows.column("local_after_ticks").to_pylist()) <= (batch.header.flushed_ticks or 0)


def test_boottime_is_probed_where_it_is_asked_for() -> None:
    assert not [row for row in PLAIN if row["remote_clock"] == "boottime"]
    assert [row for row in samples({"boottime": True}) if row["remote_clock"] == "boottime"]


def test_nobody_answers_for_a_host_that_is_down_or_a_device_that_is_gone() -> None:
    settings = faulty({"probes": {"rate_hz": 5.0}}, {"events": [
        {"kind": "agent_crash", "host": 1, "at_s": 0.6, "for_s": 0.8},
        {"kind": "device_vanish", "host": 0, "device": 0, "at_s": 0.6, "for_s": 0.8, "reset": False}]})
    raw = settings.clocks(0).raw
    found = rows(simulated(settings)[0], "clock_samples", "sim00")
    for row in [*links(found), *devices(found)]:
        asked = row["local_before_ticks"]
        assert not raw.at(600_000_000) <= asked < raw.at(1_390_000_000)
    assert max(row["local_before_ticks"] for row in devices(found)) > raw.at(NS * 3 // 2)
