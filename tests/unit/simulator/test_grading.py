"""Grading against stores that were filled with known errors."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fleetscope.contracts.batch import Batch, Header, from_rows, record_batch
from fleetscope.contracts.derived import ALIGNED_SPANS, COVERAGE, DEAD_LETTERS, SEGMENTS
from fleetscope.errors import Origin
from fleetscope.store.abstract import Store
from fleetscope.store.arrange import arrange, table_of
from fleetscope.store.migrate import migrate
from simulator.clocks import NS, RAW
from simulator.fleet import FleetConfig
from simulator.grading import grade
from simulator.truth import Truth, TruthSink
from tests.unit.simulator.fleets import START_NS, batches, config, run

CONFIG = config(devices=1, seconds=1.0, drain_seconds=0.4)
Graded = tuple[Store, Truth, FleetConfig]
ERROR_NS, BOUND_NS, HOST_ERROR_NS, HOST_BOUND_NS = 40, 100, 300, 1_000


def put(store: Store, header: Header, rows: pa.RecordBatch) -> None:
    batch = Batch(replace(header, rows=rows.num_rows), rows, Origin("t", 0, 0))
    store.insert(table_of(header.contract), arrange([batch]))


def derived(contract: str, host: str) -> Header:
    return Header(contract, 1, host, "test", 0, 0, 0)


def put_segments(store: Store, index: int) -> None:
    """Exact pieces of one second, the second host's all late by HOST_ERROR_NS."""
    raw, host = CONFIG.clocks(index).raw, CONFIG.host_names[index]
    rows = []
    for second in range(4):
        tau = second * NS
        src, nxt = raw.at(tau), raw.at(tau + NS)
        rows.append({"host": host, "clock": RAW, "target_host": "sim00", "target_clock": "fleet", "epoch": 1,
                     "version": 1,
                     "valid_from_ticks": src, "valid_to_ticks": nxt, "src0_ticks": src,
                     "dst0_ticks": START_NS + tau + index * HOST_ERROR_NS, "rate_q32": (NS << 32) // (nxt - src),
                     "err_ns": HOST_BOUND_NS, "state": "settled", "settled_at_ticks": nxt})
    put(store, derived("segments", host), from_rows(SEGMENTS, rows))


def aligned(batch: Batch, start_ns: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.RecordBatch:
    count = len(batch)
    return record_batch(ALIGNED_SPANS, {
        **dict(zip(batch.rows.schema.names, batch.rows.columns, strict=True)),
        "start_ns": pa.array(start_ns), "duration_ns": pa.array(np.ones(count, dtype=np.int64)),
        "err_ns": pa.array(np.full(count, HOST_BOUND_NS + BOUND_NS)),
        "alignment": pa.array(["settled"] * count).dictionary_encode(),
    }, count)


@pytest.fixture
def graded(embedded: Store, tmp_path: Path) -> Graded:
    """All spans stored, device spans late by ERROR_NS against their host's map."""
    migrate(embedded)
    publications = [p for p in run(CONFIG, TruthSink(tmp_path)) if p.contract == "spans"]
    truth = Truth.load(tmp_path)
    for batch, true in zip(batches(publications), truth.starts(), strict=True):
        late = HOST_ERROR_NS * CONFIG.host_names.index(true.host) + (ERROR_NS if true.clock != RAW else 0)
        rows = aligned(batch, START_NS + true.start_ns + late)
        put(embedded, replace(batch.header, contract="aligned_spans"), rows)
    for index in range(CONFIG.hosts):
        put_segments(embedded, index)
    return embedded, truth, CONFIG


def test_a_complete_store_scores_its_planted_errors(graded: Graded) -> None:
    score = grade(*graded)
    produced = graded[1].tallies["spans"].produced
    assert score["events"] == {"produced": produced, "stored": produced, "late": 0, "dead_letter": 0,
                               "dropped_by_producer": 0, "lost": 0, "redelivered": 0, "duplicate": 0}
    clocks = score["clocks"]
    assert isinstance(clocks, dict)
    device, host = clocks["host_device"], clocks["host_host"]
    assert device["p50_ns"] == pytest.approx(ERROR_NS, abs=10)  # the pieces are straight, the clock is not quite
    assert (device["bound_p50_ns"], device["bound_coverage"], device["gap_share"]) == (BOUND_NS, 1.0, 0.0)
    assert host["p50_ns"] == pytest.approx(HOST_ERROR_NS, abs=20)
    assert (host["bound_p99_ns"], host["bound_coverage"], host["steps_false"]) == (2_000, 1.0, 0)
    assert device["sampled"] > 1_000
    assert clocks["causality_inversions_unflagged"] == 0


def test_rows_stored_twice_are_duplicates_and_missing_ones_are_not_stored(graded: Graded) -> None:
    store, truth, settings = graded
    columns = "* EXCEPT (ingested_at)"
    store.command(f"INSERT INTO spans SELECT {columns}, now64(3) FROM spans WHERE host = 'sim00' AND sequence = 3")
    count = store.query("SELECT count() AS n FROM spans WHERE host = 'sim00' AND sequence = 3")
    again = count.column("n")[0].as_py() // 2
    events = grade(store, truth, settings)["events"]
    assert isinstance(events, dict)
    assert (events["duplicate"], events["stored"]) == (again, events["produced"])
    store.command("DELETE FROM spans WHERE host = 'sim00' AND sequence = 3")
    events = grade(store, truth, settings)["events"]
    assert isinstance(events, dict)
    assert (events["duplicate"], events["produced"] - events["stored"]) == (0, again)


def test_kernels_placed_before_their_submission_are_counted(graded: Graded) -> None:
    store, truth, settings = graded
    store.command("ALTER TABLE spans UPDATE duration_ns = 1000000000 WHERE track = 'driver' "
                  "SETTINGS mutations_sync = 2")
    clocks = grade(store, truth, settings)["clocks"]
    assert isinstance(clocks, dict)
    assert clocks["causality_inversions_unflagged"] > 100


def test_an_inversion_that_is_flagged_is_not_counted(graded: Graded) -> None:
    store, truth, settings = graded
    store.command("ALTER TABLE spans UPDATE duration_ns = 1000000000 WHERE track = 'driver' "
                  "SETTINGS mutations_sync = 2")
    events = ("clock", "device", "track", "name", "time_ns", "err_ns", "producer", "epoch", "sequence", "row")
    times = {"cause": "start_ns + duration_ns", "effect": "start_ns"}
    sides = [", ".join(f"{times[side] if name == 'time_ns' else name} AS {side}_{name}" for name in events)
             for side in ("cause", "effect")]
    select = ("(SELECT host, process_id, correlation_id, {side} FROM spans WHERE correlation_id % 20 = 0 "
              "AND {where})")
    driver = select.format(side=sides[0], where="track = 'driver'")
    device = select.format(side=sides[1], where="device IS NOT NULL")
    names = ", ".join(f"{side}_{name}" for side in ("cause", "effect") for name in events)
    store.command(
        "INSERT INTO causality_violations (host, rule, time_ns, process_id, correlation_id, inversion_ns, beyond_ns, "
        f"{names}, input_partition, input_offset) SELECT host, 'submission', effect_time_ns, process_id, "
        f"correlation_id, cause_time_ns - effect_time_ns, 1, {names}, 0, 0 "
        f"FROM {driver} AS cause INNER JOIN {device} AS effect USING (host, process_id, correlation_id)")
    before = store.query("SELECT count() AS n FROM causality_violations").column("n")[0].as_py()
    rest = grade(store, truth, settings)["clocks"]
    assert isinstance(rest, dict)
    assert before > 50
    store.command("TRUNCATE TABLE causality_violations")
    every = grade(store, truth, settings)["clocks"]
    assert isinstance(every, dict)
    assert 0 < rest["causality_inversions_unflagged"] < every["causality_inversions_unflagged"]


def test_losses_and_dead_letters_come_from_what_the_pipeline_counted(graded: Graded) -> None:
    store, truth, settings = graded
    row = {"host": "sim01", "source": "sim01/agent", "source_epoch": settings.epochs[1], "contract": "spans",
           "from_ns": START_NS, "to_ns": START_NS + NS, "produced_rows": 90, "received_rows": 70, "late_rows": 3,
           "redelivered_rows": 5, "dropped_rows": 6, "lost_rows": 14}
    old = {**row, "source_epoch": settings.epochs[1] + 1}
    put(store, derived("coverage", "sim01"), from_rows(COVERAGE, [row, old]))
    letter = {"topic": "raw.spans", "partition": 0, "offset": 9, "step": "align", "code": "corrupt", "reason": "r",
              "rows": 11, "host": "sim01", "size_bytes": 5, "time_ms": 1, "head": "00"}
    letters = from_rows(DEAD_LETTERS, [letter, {**letter, "host": "other", "offset": 1}])
    put(store, derived("dead_letters", "sim01"), letters)
    events = grade(store, truth, settings)["events"]
    assert isinstance(events, dict)
    names = ("late", "redelivered", "dropped_by_producer", "lost", "dead_letter")
    assert [events[name] for name in names] == [3, 5, 6, 14, 11]


def test_an_empty_store_has_no_clock_figures_rather_than_good_ones(embedded: Store, tmp_path: Path) -> None:
    migrate(embedded)
    run(CONFIG, TruthSink(tmp_path))
    score = grade(embedded, Truth.load(tmp_path), CONFIG)
    clocks, events = score["clocks"], score["events"]
    assert isinstance(clocks, dict)
    assert isinstance(events, dict)
    assert clocks["host_device"]["p50_ns"] is None
    assert clocks["host_host"]["bound_coverage"] is None
    assert events["stored"] == 0 < events["produced"]
