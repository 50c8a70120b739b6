"""The section that measures the pipeline people write first, with one process and with one for each core (a
partition is the least a process can take)."""

from __future__ import annotations

import os
from typing import Any

from bench.json_pipeline import COMPRESSION, consume, prefill
from bench.measure import Measured, in_child, median_figures
from bench.sections import Bench, spans_of
from fleetscope.settings import Settings


def json_pipeline(bench: Bench) -> dict[str, Any]:
    """Prefill the topic once, then read it into a new embedded store for each run.

    The headline is the one process that people write first; more processes stand beside it as a variant.
    """
    clock_hz: dict[tuple[str, str], int] = {}
    kafka = bench.kafka
    bench.say("publishing one JSON message an event")
    expected = prefill(kafka, spans_of(bench.publications(), clock_hz), clock_hz=clock_hz)
    most = min(len(os.sched_getaffinity(0)), bench.options.partitions)
    variants = {workers: _variant(bench, workers, expected) for workers in sorted({1, most})}
    return {"json_pipeline_kafka": variants[1],
            "json_pipeline_kafka_variants": {f"workers_{workers}": figures for workers, figures in variants.items()}}


def _variant(bench: Bench, workers: int, expected: int) -> dict[str, Any]:
    runs = []
    for number in range(bench.options.repeat):
        bench.say(f"JSON pipeline, {workers} worker{'s' * (workers > 1)}, run {number + 1} of {bench.options.repeat}")
        name = f"json-{workers}-{number}"
        runs.append(in_child(run_once, bench.settings(bench.folder(name) / "store"), expected, workers, name))
    figures = median_figures(runs)
    bench.say(f"{figures['events_per_s']:,.0f} events/s, {figures['cpu_s_per_million']:.1f} CPU s per million")
    return {**figures, "workers": workers, "compression": COMPRESSION}


def run_once(settings: Settings, expected: int, workers: int, group: str) -> Measured:
    """One run into the store of ``settings``, which is made; meant for a process of its own."""
    from dataclasses import replace

    from bench.store import disk_bytes
    from fleetscope.store.clickhouse import open_store
    from fleetscope.store.migrate import migrate

    with open_store(settings.store) as store:
        migrate(store)
        measured = consume(settings, store, expected, workers=workers, group=group)
        return replace(measured, disk_bytes=disk_bytes(store, "spans"))
