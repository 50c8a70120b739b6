"""End to end on one machine without servers: in-memory stream, every step and writer, embedded ClickHouse.

An event is a span. Counters, clock samples, inventory, marks and heartbeats are processed beside them and not counted.
The messages are made before and read from a file, so that the simulator is no part of the figures.
"""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from bench.drain import Moment, drained_at
from bench.measure import Measured, in_child, median_figures, peak_rss_bytes, reset_peak_rss
from bench.sections import Bench, Capture
from bench.store import disk_bytes, require_rows
from fleetscope.contracts.codec import Encoded
from fleetscope.contracts.topics import RAW_TOPICS
from fleetscope.settings import PipelineSettings, StoreSettings

PARTITIONS: Final = 2
IDLE_S: Final = 0.5
TIMEOUT_S: Final = 600.0
_SPANS: Final = RAW_TOPICS["spans"].name


def end_to_end(bench: Bench) -> dict[str, Any]:
    """The median of the runs; latency is measured apart, while time passes (see ``bench.latency``)."""
    from bench.latency import p99_latency_s

    runs = []
    for number in range(bench.options.repeat):
        bench.say(f"embedded, run {number + 1} of {bench.options.repeat}")
        runs.append(measure(bench, bench.capture, f"embedded-{number}"))
    figures = median_figures(runs)
    return {"end_to_end": {**figures, **p99_latency_s(bench, figures["events_per_s"] or 0.0)}}


def measure(bench: Bench, capture: Capture, name: str) -> Measured:
    """One run of ``capture`` in a process of its own, with a store in the new folder ``name``, removed afterwards."""
    folder = bench.folder(name)
    try:
        measured = in_child(run_once, capture.path, folder / "store", capture.spans)
    finally:
        shutil.rmtree(folder)
    bench.say(f"{measured.events / measured.wall_s:,.0f} events/s, {measured.cpu_s / measured.events * 1e6:.1f} CPU s "
              f"per million, {measured.peak_rss_bytes / 1e6:,.0f} MB")
    return measured


def run_once(capture: Path, store_path: Path, expected: int) -> Measured:
    """Every message of ``capture`` through the pipeline into a new store; meant for a process of its own.

    From the first message handed over until the last row is stored and committed. RuntimeError where the table of spans
    does not hold exactly ``expected`` rows then.
    """
    from fleetscope.store.clickhouse import open_store
    from fleetscope.store.migrate import migrate
    from fleetscope.stream.capture import read_capture
    from fleetscope.stream.memory import MemoryStream
    from processors.runner import Pipeline

    with open_store(StoreSettings(path=store_path)) as store:
        migrate(store)
        stream = MemoryStream(PARTITIONS)
        pipeline = Pipeline(stream, store, PipelineSettings())
        pipeline.start()
        reset_peak_rss()
        began = Moment.now()
        try:
            producer = stream.producer("bench")
            wire = 0
            for topic, message in read_capture(capture):  # a few MB at a time: the input is no part of peak memory
                producer.send(topic, message)
                wire += _size(message) if topic == _SPANS else 0
            ended = drained_at(pipeline, IDLE_S, TIMEOUT_S)
        finally:
            pipeline.stop()
            stream.close()
        measured = Measured(events=require_rows(store, "spans", expected), wall_s=ended.wall_s - began.wall_s,
                            cpu_s=ended.cpu_s - began.cpu_s, peak_rss_bytes=peak_rss_bytes(), wire_bytes=wire)
        return replace(measured, disk_bytes=disk_bytes(store, "spans"))


def _size(message: Encoded) -> int:
    return len(message.key) + len(message.value) + sum(len(name) + len(value) for name, value in message.headers)
