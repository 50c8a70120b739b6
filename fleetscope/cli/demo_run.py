"""The run behind `fleetscope demo` and, without a terminal, behind the tests and the benchmark."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import platform
import resource
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fleetscope.cli.common import console, settings
from fleetscope.cli.simulate import parse_start
from fleetscope.errors import FleetscopeError, UsageError
from fleetscope.settings import KafkaSettings, Settings, StoreSettings
from fleetscope.store.clickhouse import open_store
from fleetscope.store.migrate import migrate
from fleetscope.stream.abstract import Producer, Stream
from fleetscope.stream.memory import MemoryStream
from ingest.agent import Agent
from ingest.hostroot import HostRoot
from processors.runner import Pipeline
from simulator.fleet import Fleet, FleetConfig
from simulator.grading import grade
from simulator.scenario import load_scenario
from simulator.truth import Truth, TruthSink

if TYPE_CHECKING:
    from fleetscope.store.abstract import Store

NS: Final = 1_000_000_000
MARKER: Final = "demo.json"
MEMORY_PARTITIONS: Final = 2
DRAIN_TIMEOUT_S: Final = 600.0
MIN_HOST_S: Final = 6.0
"""The real host is read at least this long: its clocks settle in 3 to 4 s."""


@dataclass
class Result:
    """What a run gave: the `score` document and what a person is told besides."""

    document: dict[str, Any]
    failed: bool
    host_id: str | None
    notes: list[str] = field(default_factory=list)


@dataclass
class Demo:
    """One run, planned: everything is checked before anything is made."""

    config: FleetConfig
    settings: Settings
    data_dir: Path
    with_host: bool
    over_kafka: bool
    embedded: bool
    telemetry: bool

    @classmethod
    def plan(cls, *, seconds: float, hosts: int, devices: int, scenario: str, seed: int, start: str | None,
             with_host: bool, data_dir: Path, kafka: str | None, clickhouse: str | None) -> Demo:
        """Check what was asked for; UsageError says what is wrong with it."""
        length_ns = round(max(seconds, 0) * 1e9) if math.isfinite(seconds) else 0  # refused below, with the others
        # On a whole second, as windows are: the first one is then known in full.
        begin = parse_start(start, (time.time_ns() - length_ns) // NS * NS)
        config = FleetConfig(hosts, devices, seconds, seed, begin, load_scenario(scenario, seed))
        given = settings()
        bus = given.kafka
        if "partitions" not in bus.model_fields_set:
            bus = bus.model_copy(update={"partitions": MEMORY_PARTITIONS})
        if kafka:
            bus = bus.model_copy(update={"bootstrap_servers": kafka})
        if bus.topic_prefix == KafkaSettings().topic_prefix:
            # Topics of its own: a demo must not mix with what a fleet has published.
            bus = bus.model_copy(update={"topic_prefix": f"fleetscope-demo-{os.getpid()}-{time.time_ns() // 10**9}."})
        base = given.store if clickhouse is not None else StoreSettings(path=data_dir / "store")
        if clickhouse:
            host, port = _address(clickhouse)
            base = base.model_copy(update={"host": host, "port": port, "path": None})
        if clickhouse is not None and base.database == StoreSettings().database:
            base = base.model_copy(update={"database": "fleetscope_demo"})
        made = given.model_copy(update={"kafka": bus, "store": base})
        return cls(config, made, data_dir, with_host, kafka is not None, clickhouse is None, start is None)

    @contextmanager
    def opened(self) -> Iterator[Store]:
        """The store, empty and migrated; what was there before goes only when everything else is in place."""
        self._stream().close()
        _clear(self.data_dir)
        with open_store(self.settings.store) as store:
            if not self.embedded:
                _clear_database(store)
            migrate(store, self.settings.store.ttl_days)
            yield store

    def execute(self, store: Store) -> Result:
        """Run it all and grade it."""
        began = time.monotonic()
        stream = self._stream()
        pipeline = Pipeline(stream, store, self.settings.pipeline, with_telemetry=self.telemetry, max_failures=3,
                            on_failure=None if self.over_kafka else stream.close)
        truth = self.data_dir / "truth"
        agent = None
        drained = False
        try:
            with _progress() as show:
                pipeline.start()
                agent = self._start_agent(stream) if self.with_host else None
                self._feed(stream, truth, pipeline, show)
                if agent is not None:
                    show("reading this host", 0)
                    agent.finish()
                show("draining", 0)
                drained = pipeline.finish(2.0 if self.over_kafka else 0.3, DRAIN_TIMEOUT_S)
        except FleetscopeError as error:
            raise pipeline.error or error from None
        finally:
            stopped = _stopped(pipeline)
            stream.close()
        if stopped is not None:
            raise stopped
        wall = time.monotonic() - began
        return self._grade(store, Truth.load(truth), wall, drained, pipeline, agent)

    def _stream(self) -> Stream:
        if not self.over_kafka:
            return MemoryStream(MEMORY_PARTITIONS)
        from fleetscope.stream.kafka import KafkaStream

        return KafkaStream(self.settings.kafka)

    def _feed(self, stream: Stream, truth: Path, pipeline: Pipeline, show: Callable[[str, int], None]) -> None:
        """The fleet simulates in a process of its own; its messages come over a pipe."""
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        child = context.Process(target=_simulate, args=(self.config, truth, sender), daemon=True)
        child.start()
        sender.close()
        producer = stream.producer("fleetscope-demo")
        rows = 0
        try:
            for messages, count in _received(receiver, child):
                for topic, message in messages:
                    producer.send(topic, message)
                rows += count
                show("simulating, aligning, accounting, storing", rows)
                if pipeline.error is not None:
                    raise pipeline.error
            producer.flush()
        finally:
            producer.close()
            if child.is_alive():
                child.terminate()
            child.join()

    def _start_agent(self, stream: Stream) -> _HostAgent:
        return _HostAgent(stream)

    def _grade(self, store: Store, truth: Truth, wall: float, drained: bool, pipeline: Pipeline,
               agent: _HostAgent | None) -> Result:
        document = grade(store, truth, self.config)
        events: Any = document["events"]
        document["events_per_s"] = round(events["produced"] / wall)
        document["wall_s"] = round(wall, 3)
        document["peak_rss_mb"] = round(peak_rss_mb(), 1)
        accounted = events["stored"] + events["dead_letter"] + events["dropped_by_producer"] + events["lost"]
        notes = []
        if not drained:
            notes.append(f"the pipeline had not drained after {DRAIN_TIMEOUT_S:g} s")
        if accounted != events["produced"]:
            notes.append(f"{events['produced']:,} events were produced and {accounted:,} are accounted for")
        if events["duplicate"]:
            notes.append(f"{events['duplicate']:,} rows are stored twice")
        if agent is not None and agent.error is not None:
            notes.append(f"this host was not read to the end: {agent.error}")
        return Result(document, bool(notes), agent.host_id if agent else None, notes)


class _HostAgent:
    """The agent on this machine, in a thread, for as long as the demo feeds."""

    def __init__(self, stream: Stream) -> None:
        self.host_id = platform.node() or "localhost"
        self.error: Exception | None = None
        self._stop = threading.Event()
        self._producer: Producer = stream.producer(f"{self.host_id}/agent")
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="agent", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            with HostRoot(Path("/")) as root:
                root.require_proc()
                Agent(self.host_id, self._producer, root, 0.5, salt=os.getpid()).run(self._stop)
        except Exception as error:  # noqa: BLE001 - told in the summary; the simulated fleet goes on
            self.error = error

    def finish(self) -> None:
        """Stop after a time in which clocks settle, and send what waits."""
        self._stop.wait(max(0.0, MIN_HOST_S - (time.monotonic() - self._began)))
        self._stop.set()
        self._thread.join(30)
        self._producer.close()


def _stopped(pipeline: Pipeline) -> FleetscopeError | None:
    """Stop the pipeline; what it says then must not hide what was raised before."""
    try:
        pipeline.stop()
    except FleetscopeError as error:
        return error
    return None


def _simulate(config: FleetConfig, truth: Path, sender: Connection) -> None:
    """In the child: 200 ms of the fleet at a time into the pipe; a last message says whether all went well."""
    try:
        chunk: list[tuple[str, Any]] = []
        rows = 0
        at = -1
        for publication in Fleet(config, TruthSink(truth)).publications():
            if publication.flushed_ns != at and chunk:
                sender.send((chunk, rows))
                chunk, rows = [], 0
            at = publication.flushed_ns
            chunk.append((publication.topic, publication.message))
            rows += publication.rows
        sender.send((chunk, rows))
        sender.send(None)
    except (BrokenPipeError, KeyboardInterrupt):
        return
    finally:
        sender.close()


def _received(receiver: Connection, child: Any) -> Iterator[tuple[list[tuple[str, Any]], int]]:
    while True:
        try:
            item = receiver.recv()
        except EOFError:
            child.join(5)
            raise FleetscopeError(f"the simulator ended early, exit code {child.exitcode}") from None
        if item is None:
            return
        yield item


@contextmanager
def _progress() -> Iterator[Callable[[str, int], None]]:
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    with Progress(SpinnerColumn(), TextColumn("{task.description}"), TextColumn("{task.fields[rows]:,} rows"),
                  TimeElapsedColumn(), console=console(), transient=True) as progress:
        task = progress.add_task("starting", total=None, rows=0)
        rows = [0]

        def show(text: str, count: int) -> None:
            rows[0] = max(rows[0], count)
            progress.update(task, description=text, rows=rows[0])

        yield show


def _clear(data_dir: Path) -> None:
    """Make room: only what an earlier demo left may go."""
    if data_dir.exists() and not data_dir.is_dir():
        raise UsageError(f"{data_dir} is not a folder")
    known = (data_dir / MARKER).is_file()
    if data_dir.is_dir() and any(data_dir.iterdir()) and not known:
        raise UsageError(f"{data_dir} was not made by a demo and is left alone; give another --data-dir")
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        if known and (data_dir / "store").is_dir():
            with open_store(StoreSettings(path=data_dir / "store")):
                pass  # UsageError where another process has it open
        (data_dir / MARKER).write_text(json.dumps({"made_by": "fleetscope demo"}) + "\n")
        for name in ("store", "truth"):
            shutil.rmtree(data_dir / name, ignore_errors=True)
    except OSError as error:
        raise UsageError(f"{data_dir}: {error.strerror or error}") from error


def _clear_database(store: Store) -> None:
    for table in store.query("SELECT name FROM system.tables WHERE database = currentDatabase()").column(0).to_pylist():
        store.command(f"DROP TABLE IF EXISTS `{table}`")


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdigit():
        raise UsageError(f"{text!r} is not HOST:PORT")
    return host, int(port)


def peak_rss_mb() -> float:
    """Highest resident memory of this process and the largest of its children together, in MB."""
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    children = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return (own + children) / 1024
