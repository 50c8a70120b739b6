"""What the fleet publishes, judged on decoded batches."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.codec import MAX_MESSAGE_BYTES, decode_header
from fleetscope.contracts.topics import BY_NAME
from fleetscope.errors import UsageError
from simulator.clocks import RAW
from simulator.fleet import Fleet
from simulator.producer import Publication
from tests.unit.simulator.fleets import batches, config, run


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    short = config(seconds=0.5, drain_seconds=0.5)
    first, again = run(short), run(short)
    assert first == again
    assert first != run(config(seconds=0.5, drain_seconds=0.5, seed=6))


def test_every_message_decodes_fits_its_limits_and_goes_to_a_known_topic(serving: list[Publication]) -> None:
    contracts = set()
    for publication, batch in zip(serving, batches(serving), strict=True):
        assert publication.topic in BY_NAME
        assert (publication.contract, publication.rows) == (batch.header.contract, len(batch))
        assert len(publication.message.value) <= MAX_MESSAGE_BYTES
        contracts.add(batch.header.contract)
    assert contracts == {"spans", "counters", "clock_samples", "inventory", "marks", "heartbeats"}


def test_sequences_have_no_gap_and_totals_agree_with_the_last_heartbeat(serving: list[Publication]) -> None:
    following: dict[tuple[str, int, str], int] = defaultdict(int)
    rows: dict[tuple[str, str], int] = defaultdict(int)
    last: dict[tuple[str, str], dict[str, object]] = {}
    for batch in batches(serving):
        assert batch.header.sequence == following[batch.header.stream]
        following[batch.header.stream] += 1
        rows[batch.header.producer, batch.header.contract] += len(batch)
        if batch.header.contract == "heartbeats":
            last.update({(batch.header.producer, str(row["contract"])): row for row in batch.rows.to_pylist()})
    assert len(last) == 2 * 6  # five contracts of the agent and one of the links, on two hosts
    for (producer, contract), row in last.items():
        assert row["rows_total"] == rows[producer, contract]
        assert row["closed"] is True


@pytest.mark.parametrize("scenario", ["serving", "pcie-bound", "host-bound", "idle"])
def test_promises_hold_no_later_row_is_earlier_than_what_a_heartbeat_said(scenario: str) -> None:
    promised: dict[tuple[str, str, str], int] = {}
    beats = 0
    for batch in batches(run(config(scenario, seconds=1.5, drain_seconds=0.4))):
        header = batch.header
        if header.contract == "heartbeats":
            for row in batch.rows.to_pylist():
                key = (header.producer, row["contract"], row["clock"])
                assert row["through_ticks"] >= promised.get(key, row["through_ticks"])
                promised[key] = row["through_ticks"]
                beats += 1
        elif header.min_time is not None:
            assert header.min_time >= promised.get((header.producer, header.contract, header.clock), header.min_time)
    assert beats > 20


def test_promises_follow_the_present_closely(serving: list[Publication]) -> None:
    for batch in batches(serving):
        if batch.header.contract == "heartbeats":
            for row in batch.rows.to_pylist():
                if row["clock"] == RAW:
                    assert 0 <= row["time_ticks"] - row["through_ticks"] < 500_000_000


def test_every_batch_is_on_the_clock_its_header_names(serving: list[Publication]) -> None:
    clocks = config().clocks(0)
    for batch in batches(serving):
        header = batch.header
        if header.host != "sim00" or header.contract not in ("spans", "counters"):
            continue
        devices = set(batch.rows.column("device").to_pylist())
        assert devices == ({None} if header.clock == RAW else {header.clock})
        clock = clocks.raw if header.clock == RAW else clocks.devices[int(header.clock[3:])]
        assert clock.at(0) <= header.min_time <= header.max_time <= clock.at(4_000_000_000)  # type: ignore[operator]
        assert clocks.raw.at(0) < header.flushed_ticks <= clocks.raw.at(4_000_000_000)  # type: ignore[operator]


def test_clock_samples_enclose_the_remote_reading(serving: list[Publication]) -> None:
    settings = config()
    seen = set()
    for publication, batch in zip(serving, batches(serving), strict=True):
        if batch.header.contract != "clock_samples":
            continue
        for row in batch.rows.to_pylist():
            round_trip = row["local_after_ticks"] - row["local_before_ticks"]
            limit = {"realtime": 5_000}.get(row["remote_clock"], 200_000 if row["remote_host"] else 20_000)
            assert 0 < round_trip < limit
            seen.add((publication.topic, batch.header.host, row["remote_host"], row["remote_clock"]))
    expected = {("raw.clock_links", host, None, "realtime") for host in settings.host_names}
    expected |= {("raw.clock_links", "sim00", "sim01", RAW), ("raw.clock_links", "sim01", "sim00", RAW)}
    expected |= {("raw.clock_samples", host, None, f"dev{index}") for host in settings.host_names for index in (0, 1)}
    assert seen == expected


def test_in_a_chunk_links_come_first_and_heartbeats_last(serving: list[Publication]) -> None:
    order = [(p.topic, p.contract) for p in serving if p.flushed_ns == 1_000_000_000 and p.message.key == b"sim01"]
    rank = {"clock_samples": 0, "inventory": 1, "spans": 2, "counters": 3, "marks": 4, "heartbeats": 5}
    agent = [rank[contract] for topic, contract in order if topic != "raw.clock_links"]
    assert order[-1] == ("raw.heartbeats", "heartbeats")
    assert agent == sorted(agent)
    assert all(topic != "raw.clock_links" for topic, _ in order[order.index(("raw.spans", "spans")):])


def test_samples_and_heartbeats_go_on_after_the_work_until_the_drain_is_over(serving: list[Publication]) -> None:
    last = {p.contract: p.flushed_ns for p in serving}
    assert last["spans"] < 2_500_000_000 < last["clock_samples"]
    assert last["heartbeats"] == 3_000_000_000


def test_work_that_outlasts_the_run_is_still_published_before_the_closing_heartbeat() -> None:
    publications = run(config("pcie-bound", seconds=0.3, drain_seconds=0.0))
    tracks = {track for batch in batches(publications) if batch.header.contract == "spans"
              for track in batch.rows.column("track").to_pylist()}
    assert "cpu_thread" in tracks
    assert publications[-1].contract == "heartbeats"


def test_the_default_size_yields_well_over_a_million_spans_in_twenty_seconds() -> None:
    fleet = Fleet(config(hosts=1, devices=1, seconds=5.0))
    rows = sum(p.rows for p in fleet.publications() if p.contract == "spans")
    assert rows / 5 * 8 * 20 > 1_300_000
    assert fleet.tallies["spans"].produced == rows


def test_spans_of_a_prefill_name_their_request(serving: list[Publication]) -> None:
    words = {word for batch in batches(serving) if batch.header.contract == "spans"
             for word in set(batch.rows.column("request_id").to_pylist())}
    assert None in words
    assert any(word and word.startswith("req-") for word in words)


def test_the_inventory_states_peaks_links_versions_and_every_counter(serving: list[Publication]) -> None:
    rows = [row for batch in batches(serving) if batch.header.contract == "inventory" for row in batch.rows.to_pylist()]
    peaks = {row["attribute"]: row["number"] for row in rows if row["kind"] == "peak" and row["component"] == "dev1"}
    assert peaks["flops_per_s"] == 121e12
    assert peaks["memory_bytes_per_s"] == 300e9
    link = {row["attribute"]: row["number"] for row in rows if row["component"] == "dev0/pcie"}
    assert (link["width_lanes"], link["speed_gt_s"], link["mps_bytes"]) == (8, 16, 256)
    published = {name for batch in batches(serving) if batch.header.contract == "counters"
                 for name in batch.rows.column("counter").to_pylist()}
    assert published == {row["component"] for row in rows if row["kind"] == "counter"}


def test_headers_state_the_current_version_and_the_time_range(serving: list[Publication]) -> None:
    for publication in serving:
        header = decode_header(publication.message.headers)
        assert header.version == CONTRACTS[header.contract].version
        assert header.min_time is not None


@pytest.mark.parametrize(("changes", "words"), [
    ({"hosts": 0}, "empty fleet"), ({"devices": -1}, "empty fleet"), ({"seconds": 0.0}, "seconds is 0"),
    ({"seconds": float("nan")}, "seconds"), ({"seconds": float("inf")}, "seconds"), ({"seed": -1}, "seed is -1"),
    ({"drain_seconds": -1.0}, "drain seconds"), ({"start_unix_ns": -1}, "start is -1"),
])
def test_an_impossible_fleet_is_refused_with_the_value_named(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        config(**changes)


def test_every_host_starts_its_clocks_elsewhere() -> None:
    clocks = [config(hosts=8).clocks(index) for index in range(8)]
    assert len({clock.raw.offset_ns for clock in clocks}) == 8
    assert len({device.ppm for clock in clocks for device in clock.devices}) == 16
    assert all(np.sign(clock.raw.at(0)) == 1 for clock in clocks)
