"""A batch that comes after its windows closed: in the end the store says what it says where the batch came in time."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fleetscope.contracts.codec import decode
from fleetscope.contracts.derived import STATE_NAMES
from fleetscope.contracts.topics import LATE_WINDOWS_TOPIC, TOPICS
from fleetscope.errors import Origin
from fleetscope.settings import PipelineSettings, StoreSettings
from fleetscope.store.clickhouse import ClickHouseStore, open_store
from fleetscope.store.migrate import migrate
from fleetscope.stream.memory import MemoryStream
from processors.runner import Pipeline
from simulator.fleet import Fleet, FleetConfig
from simulator.producer import Publication
from simulator.scenario import load_scenario
from simulator.truth import TruthSink

START_NS = 1_790_000_000_000_000_000
NS = 1_000_000_000
SETTINGS = PipelineSettings(insert_linger_s=0.2, commit_interval_s=0.2)
LATE_S = 13
"""Longer than `align` waits for a batch that a heartbeat has counted."""
TOLD_ELSEWHERE = {"revision", "late_rows", "redelivered_rows"}

Row = dict[str, Any]


@dataclass(frozen=True)
class Held:
    """Publications before the late one, the late one, and those after."""

    before: list[Publication]
    late: Publication
    after: list[Publication]


@dataclass(frozen=True)
class Run:
    """What a run left in the store, by window; windows as they were when the late batch was sent; requests."""

    windows: dict[int, Row]
    verdicts: dict[int, Row]
    closed: dict[int, Row]
    requests: list[Row]


def hold_back(publications: Sequence[Publication], at_s: float) -> Held:
    """One batch of spans sent about ``at_s`` into the run comes ``LATE_S`` later."""
    index = next(i for i, p in enumerate(publications)
                 if p.topic == "raw.spans" and p.rows > 100 and p.flushed_ns >= at_s * NS)
    late = publications[index]
    rest = [p for i, p in enumerate(publications) if i != index]
    place = next(i for i, p in enumerate(rest) if p.flushed_ns >= late.flushed_ns + LATE_S * NS)
    return Held(rest[:place], late, rest[place:])


def windows_of(store: ClickHouseStore, table: str) -> dict[int, Row]:
    rows = store.query(f"SELECT * EXCEPT (input_partition, input_offset, ingested_at) FROM {table} FINAL").to_pylist()
    found = {(row["window_start_ns"] - START_NS) // NS: row for row in rows}
    assert len(found) == len(rows), "one host, one device"
    return found


def wait_closed(store: ClickHouseStore, second: int) -> dict[int, Row]:
    """Until the window is in the store; the windows that are."""
    for _ in range(1200):
        found = windows_of(store, "windows")
        if second in found:
            return found
        threading.Event().wait(0.05)
    raise AssertionError(f"window {second} has not closed after 60 s")


def run(folder: Path, publications: Sequence[Publication], held: Held | None) -> Run:
    """Everything through the whole pipeline, in memory and into an embedded store of its own; the late batch twice."""
    stream = MemoryStream(1)
    stream.ensure_topics(TOPICS)
    requests = stream.consumer("test", (LATE_WINDOWS_TOPIC.name,))
    closed: dict[int, Row] = {}
    with open_store(StoreSettings(path=folder)) as store:
        migrate(store)
        pipeline = Pipeline(stream, store, SETTINGS, with_telemetry=False)
        pipeline.start()
        producer = stream.producer("test")
        parts = [publications] if held is None else [held.before, [held.late, *held.after, held.late]]
        for part in parts:
            for publication in part:
                producer.send(publication.topic, publication.message)
            if held is not None and part is held.before:
                closed = wait_closed(store, held.late.flushed_ns // NS)
        assert pipeline.wait_drained(0.3, 60)
        pipeline.stop()
        asked = [row for m in requests.poll(1000, 0.0)
                 for row in decode(m.key, m.value, m.headers, Origin(m.topic, m.partition, m.offset)).rows.to_pylist()]
        return Run(windows_of(store, "windows"), windows_of(store, "verdicts"), closed, asked)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Run, Run, Held]:
    folder = tmp_path_factory.mktemp("late")
    config = FleetConfig(1, 1, 17.0, 3, START_NS, load_scenario("pcie-bound"))
    publications = list(Fleet(config, TruthSink(folder / "truth")).publications())
    held = hold_back(publications, 2.5)
    return run(folder / "in-time", publications, None), run(folder / "late", publications, held), held


def test_the_windows_had_closed_without_the_batch_and_said_so(runs: tuple[Run, Run, Held]) -> None:
    in_time, late, held = runs
    short = {second: row for second, row in late.closed.items() if row["coverage"] < 1.0}
    assert sum(row["lost_rows"] for row in short.values()) == held.late.rows
    assert all(row["received_rows"] <= in_time.windows[second]["received_rows"] for second, row in short.items())
    assert sum(in_time.windows[second]["received_rows"] - row["received_rows"]
               for second, row in late.closed.items()) == held.late.rows


def test_in_the_end_every_window_is_that_of_the_run_in_which_the_batch_came_in_time(
        runs: tuple[Run, Run, Held]) -> None:
    in_time, late, _ = runs
    assert late.windows.keys() == in_time.windows.keys()
    for second, row in in_time.windows.items():
        assert sum(row[f"{state}_ns"] for state in STATE_NAMES) == row["window_ns"]
        assert {n: v for n, v in late.windows[second].items() if n not in TOLD_ELSEWHERE} == {
            n: v for n, v in row.items() if n not in TOLD_ELSEWHERE}


def test_verdicts_follow_with_the_revision_of_their_window(runs: tuple[Run, Run, Held]) -> None:
    in_time, late, _ = runs
    assert late.verdicts.keys() == in_time.verdicts.keys() == late.windows.keys()
    for second, row in in_time.verdicts.items():
        found = late.verdicts[second]
        assert found["revision"] == late.windows[second]["revision"]
        assert {n: v for n, v in found.items() if n not in {"revision", "evidence"}} == {
            n: v for n, v in row.items() if n not in {"revision", "evidence"}}
        assert json.loads(found["evidence"])["states_ns"] == json.loads(row["evidence"])["states_ns"]


def test_late_rows_are_told_once_and_a_repeat_of_the_batch_asks_for_nothing(runs: tuple[Run, Run, Held]) -> None:
    in_time, late, held = runs
    assert sum(row["late_rows"] for row in in_time.windows.values()) == 0
    assert sum(row["late_rows"] for row in late.windows.values()) == held.late.rows
    assert in_time.requests == []
    causes = {(row["topic"], row["offset"]) for row in late.requests}
    assert {topic for topic, _ in causes} == {"aligned.spans", "coverage"}
    assert len(causes) == 2
    assert sum(row["late_rows"] for row in late.requests) == held.late.rows
