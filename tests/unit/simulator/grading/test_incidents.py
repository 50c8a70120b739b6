"""Incidents: what matches what, and losses that follow from missed rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np

from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.derived import INCIDENTS
from fleetscope.errors import Origin
from fleetscope.store.abstract import Store
from fleetscope.store.arrange import arrange
from fleetscope.store.migrate import migrate
from simulator.clocks import NS
from simulator.grading.incidents import Span, incident_score, losses, planted_incidents, reported_incidents
from simulator.grading.shares import BIN_NS
from simulator.truth import Truth, TruthSink
from tests.unit.simulator.fleets import config
from tests.unit.simulator.grading.cases import START_NS, all_rows, host_time

TOLERANCE_NS = 2 * NS


def span(start_s: float, end_s: float, kind: str = "throttling", host: str = "a", device: str | None = "dev0",
         told_s: float | None = None) -> Span:
    start = round(start_s * NS)
    return Span(kind, host, device, start, round(end_s * NS), start if told_s is None else round(told_s * NS))


def test_a_report_that_overlaps_is_right_and_its_delay_is_the_time_until_it_could_be_told() -> None:
    score = incident_score([span(10, 20)], [span(12, 19, told_s=13.5)], TOLERANCE_NS)["throttling"]
    assert (score["precision"], score["recall"], score["median_delay_s"]) == (1.0, 1.0, 3.5)


def test_the_tolerance_is_two_windows_on_either_side() -> None:
    planted = [span(10, 20)]
    assert incident_score(planted, [span(21.9, 23)], TOLERANCE_NS)["throttling"]["recall"] == 1.0
    assert incident_score(planted, [span(22, 23)], TOLERANCE_NS)["throttling"]["recall"] == 0.0
    assert incident_score(planted, [span(7, 8.1)], TOLERANCE_NS)["throttling"]["recall"] == 1.0
    assert incident_score(planted, [span(7, 8)], TOLERANCE_NS)["throttling"]["recall"] == 0.0


def test_another_host_device_or_kind_is_no_match_but_the_whole_host_is() -> None:
    planted = [span(10, 20)]
    for wrong in (span(10, 20, host="b"), span(10, 20, device="dev1")):
        score = incident_score(planted, [wrong], TOLERANCE_NS)["throttling"]
        assert (score["precision"], score["recall"]) == (0.0, 0.0)
    assert incident_score(planted, [span(10, 20, device=None)], TOLERANCE_NS)["throttling"]["precision"] == 1.0


def test_a_kind_nobody_reports_has_recall_0_and_one_nobody_planted_precision_0() -> None:
    score = incident_score([span(1, 2, "straggler")], [span(1, 2, "data_loss")], TOLERANCE_NS)
    assert (score["straggler"]["recall"], score["straggler"]["precision"]) == (0.0, None)
    assert (score["data_loss"]["recall"], score["data_loss"]["precision"]) == (None, 0.0)


def test_several_reports_of_one_incident_are_all_right_and_it_is_found_once() -> None:
    score = incident_score([span(10, 20), span(100, 110)], [span(10, 12), span(15, 18), span(50, 51)],
                           TOLERANCE_NS)["throttling"]
    assert (score["planted"], score["found"], score["reported"], score["right"]) == (2, 1, 3, 2)


def test_losses_are_runs_of_windows_that_lack_more_than_5_percent() -> None:
    missed = np.zeros(6 * NS // BIN_NS + 1, dtype=np.int64)
    missed[100:300] = 6
    missed[400:500] = 4
    found = losses("a", all_rows(6, missed), host_time(), NS)
    assert [(item.kind, item.start_ns - START_NS, item.end_ns - START_NS) for item in found] == [
        ("data_loss", NS, 3 * NS)]


def test_stored_incidents_are_told_when_their_evidence_says_or_their_first_window_closes(embedded: Store) -> None:
    migrate(embedded)
    row = {"host": "sim00", "device": None, "kind": "data_loss", "start_ns": START_NS + 5, "end_ns": None,
           "revision": 1, "severity": "warning", "evidence": "{}"}
    told = {**row, "host": "sim01", "end_ns": START_NS + 2 * NS,
            "evidence": json.dumps({"detected_ns": START_NS + 7})}
    afterwards = {**row, "start_ns": START_NS + 10 * NS}
    rows = from_rows(INCIDENTS, [row, told, afterwards, {**row, "host": "real"}])
    header = Header("incidents", 1, "sim00", "test", 0, 0, 0)
    embedded.insert("incidents", arrange([Batch(replace(header, rows=rows.num_rows), rows, Origin("t", 0, 0))]))
    times = {host: host_time() for host in config().host_names}
    one, other = reported_incidents(embedded, config(), times, NS, 10 * NS)
    assert (one.host, one.told_ns) == ("sim00", START_NS + NS)
    assert one.end_ns > START_NS + 10**6 * NS
    assert (other.host, other.end_ns, other.told_ns) == ("sim01", START_NS + 2 * NS, START_NS + 7)


def test_what_was_missed_in_a_silence_is_no_loss_besides(tmp_path: Path) -> None:
    sink = TruthSink(tmp_path)
    sink.incident("host_silent", "a", None, 2 * NS, 3 * NS)
    sink.incident("throttling", "a", "dev0", 99 * NS, 100 * NS)  # after the workload
    sink.incident("throttling", "gone", None, 0, NS)  # no host of this run
    sink.finish({}, {})
    missed = np.zeros(8 * NS // BIN_NS + 1, dtype=np.int64)
    missed[200:300] = 100  # in the silence
    missed[500:600] = 10
    found = planted_incidents(Truth.load(tmp_path), {"a": host_time()}, {"a": all_rows(8, missed)}, NS, 8 * NS)
    assert [(item.kind, (item.start_ns - START_NS) // NS) for item in found] == [("host_silent", 2), ("data_loss", 5)]
