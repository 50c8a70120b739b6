"""The truth folder: what a sink takes, a reader gives back."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from fleetscope.errors import UsageError
from simulator.causes import CODE, NAMES
from simulator.faults.settings import Collection
from simulator.truth import Change, ClockStep, Incident, SpanStarts, Tally, Truth, TruthSink
from tests.unit.simulator.fleets import config, run

SLOT_NS = 100_000_000


def slot(**ns: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    values = np.zeros(len(NAMES), dtype=np.int64)
    for name, value in ns.items():
        values[CODE[name]] = value
    return values


def test_what_was_written_is_read_back(tmp_path: Path) -> None:
    sink = TruthSink(tmp_path)
    sink.starts(SpanStarts("a", "a/agent", 3, 0, "dev0", np.array([5, 7])))
    sink.published("b", "counters", 30, 7)
    sink.published("a", "counters", 40, 8)
    sink.published("b", "counters", 50, 9)
    sink.missed("a", "lost", np.array([9]))
    sink.missed("a", "lost", np.zeros(0, np.int64))
    sink.incident("throttling", "a", "dev0", 10, 20, "critical")
    sink.incident("noisy_neighbour", "b", None, 30, 40)
    sink.clock_step("a", "realtime", 11, -5_000, "ntp")
    sink.change(12, "driver", "2.0", 0.03, "a")
    sink.finish({"spans": Tally(3, 0, 1)}, {"seed": 1})
    truth = Truth.load(tmp_path)
    (starts,), (missed,) = list(truth.starts()), list(truth.missed())
    assert (starts.host, starts.clock, starts.start_ns.tolist()) == ("a", "dev0", [5, 7])
    assert (missed.fate, missed.start_ns.tolist()) == ("lost", [9])
    assert [(p.host, p.true_ns.tolist(), p.rows.tolist()) for p in truth.published()] == [
        ("a", [40], [8]), ("b", [30, 50], [7, 9])]
    assert truth.incidents() == [Incident("throttling", "a", "dev0", 10, 20, "critical"),
                                 Incident("noisy_neighbour", "b", None, 30, 40, "warning")]
    assert truth.clock_steps() == [ClockStep("a", "realtime", 11, -5_000, "ntp")]
    assert truth.changes() == [Change(12, "driver", "2.0", 0.03, "a")]
    assert truth.tallies["spans"].lost == 1


def test_slots_of_several_devices_come_back_by_device_in_order_of_time(tmp_path: Path) -> None:
    sink = TruthSink(tmp_path)
    for number in range(5_000):  # more than are kept in memory
        for device, host in (("dev0", "b"), ("dev0", "a")):
            sink.causes(host, device, number * SLOT_NS, SLOT_NS,
                        slot(compute_matrix=number, no_demand=SLOT_NS - number))
    sink.finish({}, {})
    one, other = Truth.load(tmp_path).causes()
    assert (one.host, other.host) == ("a", "b")
    assert np.array_equal(one.start_ns, np.arange(5_000) * SLOT_NS)
    assert np.array_equal(one.ns[:, CODE["compute_matrix"]], np.arange(5_000))
    assert np.array_equal(one.ns.sum(axis=1), one.slot_ns)


def test_a_slot_whose_causes_do_not_add_up_is_refused(tmp_path: Path) -> None:
    sink = TruthSink(tmp_path)
    with pytest.raises(ValueError, match=r"a/dev0.* sum to 99999999 ns"):
        sink.causes("a", "dev0", 0, SLOT_NS, slot(host_launch=SLOT_NS - 1))
    sink.close()


def test_an_interrupted_run_has_no_truth(tmp_path: Path) -> None:
    TruthSink(tmp_path).close()
    with pytest.raises(UsageError, match="no truth of a finished simulation"):
        Truth.load(tmp_path)


def test_a_folder_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot write the truth"):
        TruthSink(tmp_path / "file")


def test_rows_that_nobody_can_decode_are_the_missed_ones(tmp_path: Path) -> None:
    collection = Collection(lost_share=0.2, corrupt_share=0.2, dropping_share=0.3)
    settings = config(seconds=1.0)
    scenario = settings.scenario.model_copy(update={"collection": collection})
    run(replace(settings, scenario=scenario), TruthSink(tmp_path))
    truth = Truth.load(tmp_path)
    by_fate = dict.fromkeys(("dropped", "lost", "corrupted"), 0)
    for missed in truth.missed():
        by_fate[missed.fate] += len(missed.start_ns)
    spans, counters = truth.tallies["spans"], truth.tallies["counters"]
    assert by_fate == {"dropped": spans.dropped_by_producer + counters.dropped_by_producer,
                       "lost": spans.lost + counters.lost, "corrupted": spans.corrupted + counters.corrupted}
    assert min(spans.lost, counters.lost) > 0
    assert sum(len(s.start_ns) for s in truth.starts()) == spans.produced - spans.dropped_by_producer
    assert sum(p.rows.sum() for p in truth.published()) == counters.produced - counters.dropped_by_producer
    assert json.loads((tmp_path / "incidents.json").read_text()) == []
