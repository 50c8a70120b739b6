"""What collection faults do to what is published, and that every span is stored or accounted for as what happened."""

from __future__ import annotations

from typing import Any

import pytest

from simulator.faults.plan import NS
from tests.unit.simulator.faults.runs import accounted, decoded, faulty, rows, simulated

RING = {"rows": 512, "drain_rows_per_s": 20_000.0}
EXACT: list[tuple[str, dict[str, Any]]] = [
    ("none", {}),
    ("lost", {"lost_share": 0.05}),
    ("burst", {"events": [{"kind": "loss_burst", "at_s": 0.7, "for_s": 0.6, "host": 1}]}),
    ("corrupt", {"corrupt_share": 0.1}),
    ("dropped", {"dropping_share": 0.2}),
    ("late", {"late_share": 0.2, "late_min_s": 1.0, "late_max_s": 15.0}),
    ("reordered", {"reordered_share": 0.3, "redelivered_share": 0.3}),
    ("overrun", {"ring": RING, "events": [{"kind": "stall", "at_s": 0.5, "for_s": 0.6}]}),
    ("spool", {"events": [{"kind": "spool", "at_s": 0.6, "for_s": 0.9, "repeat_s": 0.5}]}),
    ("replay", {"events": [{"kind": "spool", "at_s": 0.6, "for_s": 40.0, "repeat_s": 1.0, "host": 1}]}),
    ("agent_crash", {"events": [{"kind": "agent_crash", "at_s": 1.0, "for_s": 0.5, "tail_s": 0.3, "host": 1}]}),
    ("host_crash", {"events": [{"kind": "host_crash", "at_s": 1.2, "tail_s": 0.5, "host": 1}]}),
    ("device_vanish", {"events": [{"kind": "device_vanish", "at_s": 0.8, "for_s": 0.6, "host": 0}]}),
    ("everything", {"lost_share": 0.03, "redelivered_share": 0.05, "corrupt_share": 0.03, "dropping_share": 0.05,
                    "late_share": 0.05, "late_min_s": 0.5, "late_max_s": 3.0, "reordered_share": 0.1}),
]


@pytest.mark.parametrize(("name", "collection"), EXACT, ids=[name for name, _ in EXACT])
def test_produced_is_stored_or_dead_letter_or_dropped_or_lost(name: str, collection: dict[str, Any]) -> None:
    publications, tallies, notes = simulated(faulty(collection=collection))
    tally, found = tallies["spans"], accounted(publications)
    assert tally.produced == found["stored"] + found["dead_letter"] + found["dropped"] + found["lost"]
    assert (found["lost"], found["dead_letter"], found["dropped"], found["redelivered"]) == (
        tally.lost, tally.corrupted, tally.dropped_by_producer, tally.redelivered)
    both = [tally, tallies["counters"]]
    told = {"lost": sum(t.lost for t in both), "corrupted": sum(t.corrupted for t in both),
            "dropped": sum(t.dropped_by_producer for t in both), "unrecorded": tally.unrecorded}
    assert notes.missing == {fate: count for fate, count in told.items() if count}
    hit = {"none": 0, "lost": tally.lost, "burst": tally.lost, "corrupt": tally.corrupted,
           "dropped": tally.dropped_by_producer, "late": tally.late, "reordered": tally.redelivered,
           "overrun": tally.dropped_by_producer, "spool": tally.redelivered, "replay": tally.redelivered,
           "everything": tally.late}.get(name, tally.unrecorded)
    assert (hit > 0) == (name != "none")


@pytest.mark.parametrize("clocks", [
    {"events": [{"kind": "suspend", "host": 1, "at_s": 0.9, "for_s": 0.6}]},
    {"events": [{"kind": "device_reset", "at_s": 1.1}]},
    {"events": [{"kind": "stuck", "device": 0, "at_s": 1.1, "for_s": 0.5}]},
    {"device_bits": 32, "probes": {"rate_hz": 4.0}},
    {"device_grain_ticks": 1_000},
    {"dvfs": {"dwell_s": 0.4, "published": True}},
    {"ahead": [{"seconds": 94_608_000.0, "host": 0}]},
    {"same_epoch": True, "probes": {"unset_share": 0.1, "absurd_share": 0.1, "nan_share": 0.02}},
    {"events": [{"kind": "realtime_step", "ms": -1_500.0, "at_s": 1.0}]},
], ids=["suspend", "reset", "stuck", "wrap32", "coarse", "dvfs", "ahead", "bad-probes", "ntp-step"])
def test_whatever_clocks_do_no_span_is_lost(clocks: dict[str, Any]) -> None:
    publications, tallies, _ = simulated(faulty(clocks))
    assert accounted(publications)["stored"] == tallies["spans"].produced > 10_000


def test_an_agent_that_crashed_comes_back_with_the_next_epoch_and_states_everything_again() -> None:
    settings = faulty(collection={"events": [
        {"kind": "agent_crash", "at_s": 1.0, "for_s": 0.5, "tail_s": 0.3, "host": 1}]})
    publications, tallies, notes = simulated(settings)
    first = settings.epochs[1]
    assert {batch.header.epoch for batch in decoded(publications, "spans", "sim01")} == {first, first + 1}
    assert len(list(decoded(publications, "inventory", "sim01"))) == 2
    raw = settings.clocks(1).raw
    for row in rows(publications, "spans", "sim01"):
        if row["device"] is None:
            assert row["start_ticks"] < raw.at(700_000_000) or row["start_ticks"] >= raw.at(NS * 3 // 2)
    assert {batch.header.sequence for batch in decoded(publications, "spans", "sim01")
            if batch.header.epoch == first + 1} >= {0, 1, 2}
    assert notes.incidents == [("host_silent", "sim01", None, NS, NS * 3 // 2)]
    assert tallies["counters"].unrecorded > 0


def test_a_host_that_crashed_says_nothing_more_and_closes_nothing() -> None:
    publications, _, notes = simulated(faulty(collection={"events": [
        {"kind": "host_crash", "at_s": 1.2, "tail_s": 0.5, "host": 1}]}))
    assert max(p.flushed_ns for p in publications if p.message.key == b"sim01") <= 700_000_000
    assert not any(row["closed"] for row in rows(publications, "heartbeats", "sim01"))
    assert any(row["closed"] for row in rows(publications, "heartbeats", "sim00"))
    assert notes.incidents == [("host_silent", "sim01", None, 1_200_000_000, 2 * NS)]


def test_a_rebooted_host_begins_a_new_epoch_with_its_clock_near_0() -> None:
    settings = faulty({"events": [{"kind": "reboot", "host": 1, "at_s": 0.8, "for_s": 0.4}]})
    publications, _, _ = simulated(settings)
    by_epoch: dict[int, list[int]] = {}
    for row in rows(publications, "spans", "sim01"):
        if row["device"] is None:
            by_epoch.setdefault(row["epoch"], []).append(row["start_ticks"])
    assert set(by_epoch) == {settings.epochs[1], settings.epochs[1] + 1}
    assert max(by_epoch[settings.epochs[1] + 1]) < 25 * NS < 86_400 * NS < min(by_epoch[settings.epochs[1]])


def test_a_sequence_restart_repeats_identities_for_other_rows() -> None:
    publications, _, _ = simulated(faulty(collection={"events": [{"kind": "sequence_restart", "at_s": 1.0}]}))
    seen: dict[tuple[str, int], int] = {}
    clashes = 0
    for batch in decoded(publications, "spans"):
        key = (batch.header.producer, batch.header.sequence)
        clashes += seen.get(key, batch.header.flushed_ticks) != batch.header.flushed_ticks
        seen[key] = batch.header.flushed_ticks or 0
    assert clashes > 3
    assert len({batch.header.epoch for batch in decoded(publications, "spans", "sim01")}) == 1


def test_no_row_of_a_sequence_restart_is_taken_for_a_repeat() -> None:
    publications, tallies, _ = simulated(faulty(collection={
        "redelivered_share": 0.1, "events": [{"kind": "sequence_restart", "at_s": 1.0}]}))
    found = accounted(publications)
    assert found["stored"] == tallies["spans"].produced
    assert found["redelivered"] == tallies["spans"].redelivered > 0
    assert found["lost"] == found["dead_letter"] == 0


def test_while_a_ring_runs_over_the_newest_rows_are_dropped_and_the_truth_has_the_time() -> None:
    settings = faulty(collection={"ring": RING, "events": [{"kind": "stall", "at_s": 0.6, "for_s": 0.6, "host": 0}]})
    publications, tallies, notes = simulated(settings)
    assert sum(batch.header.dropped_rows for batch in decoded(publications, "spans", "sim00")) == \
        tallies["spans"].dropped_by_producer > 0
    times = [(device, start, end) for kind, host, device, start, end in notes.incidents if kind == "data_loss"]
    assert {device for device, _, _ in times} <= {None, "dev0"}
    assert all(600_000_000 <= start < end <= 1_400_000_000 for _, start, end in times)


def test_a_device_that_vanished_has_no_spans_and_no_readings_until_it_is_back() -> None:
    settings = faulty(collection={"events": [
        {"kind": "device_vanish", "at_s": 0.8, "for_s": 0.6, "host": 0, "device": 0}]}, devices=2)
    publications, _, notes = simulated(settings)
    clock = settings.clocks(0).devices[0]
    counted = [row["start_ticks"] for row in rows(publications, "spans", "sim00") if row["device"] == "dev0"]
    assert [tick for tick in counted if tick < 2 * clock.hz]  # back, its counter near 0
    assert max(tick for tick in counted if tick > 2 * clock.hz) < clock.at(800_000_000)
    missing = [row for row in rows(publications, "counters", "sim00") if row["status"] == "missing"]
    assert {row["device"] for row in missing} == {"dev0"}
    assert ("device_vanished", "sim00", "dev0", 800_000_000, 1_400_000_000) in notes.incidents
