"""End to end through Kafka: from topics that stand filled until everything is stored, in one process or in two.

The broker's CPU and memory are not counted, those of all our processes are. Joining the groups is.
"""

from __future__ import annotations

import multiprocessing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench import broker
from bench.drain import Moment, drained_at
from bench.measure import Measured, cpu_seconds, in_child, median_figures, peak_rss_bytes, reset_peak_rss
from bench.sections import Bench
from bench.store import disk_bytes, require_rows
from fleetscope.contracts.topics import RAW_TOPICS, TOPICS
from fleetscope.settings import KafkaSettings, Settings

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

    from processors.runner import Pipeline

IDLE_S: Final = 2.0
TIMEOUT_S: Final = 300.0
VARIANTS: Final = (1, 2)


def end_to_end_kafka(bench: Bench) -> dict[str, Any]:
    """Each number of processes; the one with more events/s is the headline."""
    variants = {count: _variant(bench, count) for count in VARIANTS}
    best = max(variants.values(), key=lambda figures: figures["events_per_s"] or 0.0)
    return {"end_to_end_kafka": best,
            "end_to_end_kafka_variants": {f"processes_{count}": figures for count, figures in variants.items()}}


def _variant(bench: Bench, processes: int) -> dict[str, Any]:
    runs = []
    for number in range(bench.options.repeat):
        name = f"kafka-{processes}-{number}"
        bench.say(f"through Kafka, {processes} process{'es' * (processes > 1)}, run {number + 1} of "
                  f"{bench.options.repeat}")
        settings = bench.settings(bench.folder(name) / "store")
        # Groups and derived topics carry the prefix too: a run of its own needs topics of its own.
        kafka = settings.kafka.model_copy(update={"topic_prefix": f"{settings.kafka.topic_prefix}{name}."})
        settings = settings.model_copy(update={"kafka": kafka})
        in_child(prefill, kafka, bench.capture.path)
        runs.append(in_child(run_once, settings, bench.capture.spans, processes))
        bench.say(f"{runs[-1].events / runs[-1].wall_s:,.0f} events/s, "
                  f"{runs[-1].cpu_s / runs[-1].events * 1e6:.1f} CPU s per million")
    return {**median_figures(runs), "processes": processes}


def prefill(settings: KafkaSettings, capture: Path) -> int:
    """Make all topics and publish every message of ``capture``; returns how many."""
    from fleetscope.stream.capture import read_capture
    from fleetscope.stream.kafka import KafkaStream

    stream = KafkaStream(settings)
    try:
        stream.ensure_topics(TOPICS)
        producer = stream.producer("bench")
        sent = 0
        for topic, message in read_capture(capture):
            producer.send(topic, message)
            sent += 1
        producer.flush()
        producer.close()
        return sent
    finally:
        stream.close()


def run_once(settings: Settings, expected: int, processes: int) -> Measured:
    """The filled topics of ``settings`` into a new embedded store; meant for a process of its own.

    With two processes the steps run in one and the units that need the store in the other.
    RuntimeError where the table of spans does not hold exactly ``expected`` rows in the end.
    """
    from fleetscope.store.clickhouse import open_store
    from fleetscope.store.migrate import migrate
    from fleetscope.stream.kafka import KafkaStream
    from processors.runner import Pipeline
    from processors.topology import STEPS, UNITS

    with open_store(settings.store) as store:
        migrate(store)
        steps = _Steps(settings) if processes > 1 else None
        elsewhere = {s.name for s in STEPS} if steps else set()
        stream = KafkaStream(settings.kafka)
        pipeline = Pipeline(stream, store, settings.pipeline, names=[u for u in UNITS if u not in elsewhere])
        reset_peak_rss()
        began = Moment.now()
        try:
            pipeline.start()
            ended, cpu, peak = _until_stored(pipeline, steps)
        finally:
            if steps:
                steps.close()
            pipeline.stop()
            stream.close()
        measured = Measured(
            events=require_rows(store, "spans", expected), wall_s=ended.wall_s - began.wall_s,
            cpu_s=ended.cpu_s - began.cpu_s + cpu, peak_rss_bytes=peak_rss_bytes() + peak,
            wire_bytes=broker.topic_bytes(settings.kafka, [RAW_TOPICS["spans"].name]))
        return replace(measured, disk_bytes=disk_bytes(store, "spans"))


def _until_stored(pipeline: Pipeline, steps: _Steps | None) -> tuple[Moment, float, int]:
    """When all was stored; CPU seconds and peak memory of the other process. The rest is done after the steps."""
    if steps is None:
        return drained_at(pipeline, IDLE_S, TIMEOUT_S), 0.0, 0
    steps.go()
    cpu, peak = steps.drained()
    return drained_at(pipeline, IDLE_S, TIMEOUT_S), cpu, peak


class _Steps:
    """The steps in a process of their own, started and ready, waiting for ``go``."""

    def __init__(self, settings: Settings) -> None:
        context = multiprocessing.get_context("spawn")
        self._ours, theirs = context.Pipe()
        self._child = context.Process(target=_run_steps, args=(settings, theirs), daemon=True)
        self._child.start()
        theirs.close()
        self._receive()

    def go(self) -> None:
        """Start the pipeline there."""
        self._ours.send(True)

    def drained(self) -> tuple[float, int]:
        """Wait until the steps have nothing left; CPU seconds and peak memory of that process until then."""
        cpu, peak = self._receive()
        return cpu, peak

    def close(self) -> None:
        """End the process."""
        self._child.terminate()
        self._child.join()
        self._ours.close()

    def _receive(self) -> Any:
        try:
            return self._ours.recv()
        except EOFError:
            self._child.join()
            raise RuntimeError(f"the steps ended early, exit code {self._child.exitcode}") from None


def _run_steps(settings: Settings, theirs: Connection) -> None:
    from fleetscope.stream.kafka import KafkaStream
    from processors.runner import Pipeline
    from processors.topology import STEPS

    stream = KafkaStream(settings.kafka)
    pipeline = Pipeline(stream, None, settings.pipeline, names=tuple(s.name for s in STEPS))
    theirs.send(True)
    theirs.recv()
    reset_peak_rss()
    before = cpu_seconds()
    pipeline.start()
    ended = drained_at(pipeline, IDLE_S, TIMEOUT_S)
    theirs.send((ended.cpu_s - before, peak_rss_bytes()))
    theirs.recv()  # ends with the parent's terminate; until then the steps stay members
