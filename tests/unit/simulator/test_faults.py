"""Collection faults: what is counted as truth is what happens to the messages."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from fleetscope.contracts.batch import from_rows
from fleetscope.contracts.codec import MAX_ROWS, decode
from fleetscope.contracts.raw import COUNTERS
from fleetscope.errors import RejectedError
from simulator.faults.settings import Collection
from simulator.fleet import Fleet
from simulator.producer import Flush, Producer, corrupted
from simulator.scenario import load_scenario
from simulator.truth import NoSink, Tally, Truth, TruthSink
from tests.unit.simulator.fleets import config, run

HARSH = Collection(lost_share=0.1, redelivered_share=0.2, corrupt_share=0.1, dropping_share=0.2,
                   dropped_rows_share=0.25)


def test_every_produced_row_is_delivered_once_or_counted_as_what_happened_to_it() -> None:
    settings = config()
    scenario = load_scenario("serving").model_copy(update={"collection": HARSH})
    fleet = Fleet(type(settings)(2, 2, 2.0, 5, settings.start_unix_ns, scenario, 1.0))
    seen: Counter[tuple[str, int]] = Counter()
    rows, rejected = 0, 0
    dropped = 0
    for publication in fleet.publications():
        if publication.contract != "spans":
            continue
        message = publication.message
        try:
            batch = decode(message.key, message.value, message.headers)
        except RejectedError:
            rejected += publication.rows
            continue
        key = (batch.header.producer, batch.header.sequence)
        rows += len(batch) if not seen[key] else 0
        dropped += batch.header.dropped_rows if not seen[key] else 0
        seen[key] += 1
    tally = fleet.tallies["spans"]
    assert min(tally.lost, tally.corrupted, tally.redelivered, tally.dropped_by_producer) > 0
    assert tally.produced == rows + rejected + tally.lost + tally.dropped_by_producer
    assert rejected == tally.corrupted
    assert dropped <= tally.dropped_by_producer  # what a lost or corrupt header said is in the heartbeats only
    assert sum(count - 1 for count in seen.values()) > 0


def test_faults_change_nothing_that_was_not_hit() -> None:
    hit = {"spans", "counters", "heartbeats"}
    clean, lossy = ({p.message for p in run(config(name, seconds=1.0)) if p.contract not in hit}
                    for name in ("serving", "lossy"))
    mark = {message for message in clean ^ lossy if b"marks" in dict(message.headers).values()}
    assert clean ^ lossy == mark  # the mark names the scenario


@pytest.mark.parametrize("way", [0, 1])
def test_a_corrupted_message_is_always_rejected(way: int) -> None:
    for publication in run(config(seconds=0.3, drain_seconds=0.0)):
        message = corrupted(publication, way).message
        with pytest.raises(RejectedError):
            decode(message.key, message.value, message.headers)


def producer(tallies: dict[str, Tally], faults: Collection, folder: Path | None = None) -> Producer:
    return Producer("h", "h/agent", 1, {"counters": "raw.counters"}, faults, np.random.default_rng(1), tallies,
                    TruthSink(folder) if folder else NoSink())


def readings(count: int) -> pa.RecordBatch:
    return from_rows(COUNTERS, [{"counter": "c", "time_ticks": i, "raw": i * i, "status": "ok"} for i in range(count)])


def test_a_batch_over_the_row_limit_is_split_with_own_sequences() -> None:
    tallies: dict[str, Tally] = {}
    publications = list(producer(tallies, Collection()).publish("counters", "c", readings(MAX_ROWS + 10), Flush(0, 0)))
    parts = [decode(p.message.key, p.message.value, p.message.headers) for p in publications]
    assert [part.header.sequence for part in parts] == [0, 1]
    assert sum(len(part) for part in parts) == MAX_ROWS + 10 == tallies["counters"].produced
    assert parts[1].rows.column("time_ticks")[0].as_py() == len(parts[0])


def test_rows_dropped_at_the_source_stand_in_the_header_and_in_the_totals() -> None:
    tallies: dict[str, Tally] = {}
    agent = producer(tallies, Collection(dropping_share=1.0, dropped_rows_share=0.25))
    publication, = agent.publish("counters", "c", readings(100), Flush(0, 0))
    batch = decode(publication.message.key, publication.message.value, publication.message.headers)
    assert (len(batch), batch.header.dropped_rows, agent.totals["counters"].dropped) == (75, 25, 25)


def test_the_truth_of_a_run_reads_back_and_gives_every_true_start(tmp_path: Path) -> None:
    settings = config(seconds=0.5, drain_seconds=0.2)
    spans = [p for p in run(settings, TruthSink(tmp_path)) if p.contract == "spans"]
    truth = Truth.load(tmp_path)
    assert truth.tallies["spans"].produced == sum(p.rows for p in spans)
    assert truth.config["seed"] == settings.seed
    for publication, starts in zip(spans, truth.starts(), strict=True):
        batch = decode(publication.message.key, publication.message.value, publication.message.headers)
        assert (starts.producer, starts.sequence) == (batch.header.producer, batch.header.sequence)
        clocks = settings.clocks(settings.host_names.index(starts.host))
        clock = next(c for c in (clocks.raw, *clocks.devices) if c.name == starts.clock)
        assert clock.read(starts.start_ns).tolist() == batch.rows.column("start_ticks").to_pylist()
