"""What the sections of a benchmark run share, and the table of them.

A section takes the ``Bench`` and returns keys for bench/results/latest.json. Sections of one run use the same fleet,
seed and broker, so that their figures can be compared.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow.compute as pc

from fleetscope.contracts.batch import Batch
from fleetscope.contracts.codec import decode
from fleetscope.contracts.topics import RAW_TOPICS
from fleetscope.settings import KafkaSettings, PipelineSettings, Settings, StoreSettings

if TYPE_CHECKING:
    from simulator.producer import Publication

START_UNIX_NS: Final = 1_700_000_000_000_000_000
SPANS: Final = RAW_TOPICS["spans"].name
"""Topic of what counts as events."""
_CLOCK_SAMPLES: Final = RAW_TOPICS["clock_samples"].name


@dataclass(frozen=True, slots=True)
class Options:
    """What is measured. ``bootstrap`` None: a broker is started for the run and removed afterwards."""

    seconds: float = 15.0
    hosts: int = 2
    devices: int = 4
    seed: int = 1
    scenario: str = "serving"
    repeat: int = 5
    partitions: int = 2
    bootstrap: str | None = None
    short: bool = False
    """Fewer and shorter series of clocks."""


class Bench:
    """The run: its options, and a broker, folders and the simulated fleet when a section asks for them."""

    def __init__(self, options: Options, say: Callable[[str], None]) -> None:
        self.options = options
        self.say = say
        self._cleanup = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._cleanup.close()

    @cached_property
    def kafka(self) -> KafkaSettings:
        """A broker with a topic prefix of this run's own. RuntimeError: none could be started."""
        bootstrap = self.options.bootstrap
        if bootstrap is None:
            from tests.support.kafka_broker import KafkaBroker

            self.say("starting a Kafka broker")
            bootstrap = self._cleanup.enter_context(KafkaBroker()).bootstrap_servers
        prefix = f"bench-{self.folder('run').parent.name.lower()}."
        return KafkaSettings(bootstrap_servers=bootstrap, topic_prefix=prefix, partitions=self.options.partitions)

    @cached_property
    def _folder(self) -> Path:
        return Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="fleetscope-bench-")))

    def folder(self, name: str) -> Path:
        """A new folder ``name``, removed at the end; FileExistsError where a section took the name before."""
        path = self._folder / name
        path.mkdir()
        return path

    def settings(self, store: Path) -> Settings:
        """The run's broker and an embedded store in ``store``."""
        return Settings(kafka=self.kafka, store=StoreSettings(path=store), pipeline=PipelineSettings())

    @cached_property
    def capture(self) -> Capture:
        """The fleet's messages in a file."""
        return self.captured("capture", self.options)

    def captured(self, name: str, options: Options) -> Capture:
        """The messages of the fleet of ``options`` in a new file ``name``."""
        self.say(f"simulating {options.seconds:g} s of {options.hosts} hosts with {options.devices} devices each")
        return write(self.folder(name) / "capture.arrow", fleet(options))

    def publications(self) -> Iterator[Publication]:
        """What the fleet publishes, the same each time."""
        return fleet(self.options)


def fleet(options: Options) -> Iterator[Publication]:
    """What the simulated fleet of ``options`` publishes, in order of true time from START_UNIX_NS on."""
    from simulator.fleet import Fleet, FleetConfig
    from simulator.scenario import load_scenario

    config = FleetConfig(hosts=options.hosts, devices=options.devices, seconds=options.seconds, seed=options.seed,
                         start_unix_ns=START_UNIX_NS, scenario=load_scenario(options.scenario, options.seed))
    return iter(Fleet(config).publications())


@dataclass(frozen=True, slots=True)
class Capture:
    """Messages in a file, and how many spans they carry."""

    path: Path
    spans: int


def write(path: Path, publications: Iterable[Publication]) -> Capture:
    """Write a capture of ``publications`` to ``path``."""
    from fleetscope.stream.capture import write_capture

    spans = 0

    def counted() -> Iterator[Publication]:
        nonlocal spans
        for publication in publications:
            spans += publication.rows if publication.topic == SPANS else 0
            yield publication

    write_capture(path, counted())
    return Capture(path, spans)


def spans_of(publications: Iterable[Publication], clock_hz: dict[tuple[str, str], int]) -> Iterator[Batch]:
    """The batches of spans; ``clock_hz`` is filled with ticks a second by (host, clock) as clock samples pass."""
    for publication in publications:
        if publication.topic not in (SPANS, _CLOCK_SAMPLES):
            continue
        message = publication.message
        batch = decode(message.key, message.value, message.headers)
        if publication.topic == SPANS:
            yield batch
        else:
            _note_frequencies(batch, clock_hz)


def _note_frequencies(batch: Batch, clock_hz: dict[tuple[str, str], int]) -> None:
    for side in ("local", "remote"):
        pairs = batch.rows.select([f"{side}_clock", f"{side}_hz"])
        own = pairs if side == "local" else pairs.filter(pc.is_null(batch.rows.column("remote_host")))
        for name, hz in {(row[f"{side}_clock"], row[f"{side}_hz"]) for row in own.to_pylist()}:
            clock_hz[batch.header.host, name] = hz


@dataclass(frozen=True, slots=True)
class Section:
    """One part of a run; ``run`` returns keys of the results and their figures."""

    name: str
    doc: str
    run: Callable[[Bench], dict[str, Any]]


def sections() -> tuple[Section, ...]:
    """All sections, in the order they run."""
    from bench.clocks.section import clock_methods
    from bench.embedded import end_to_end
    from bench.generate import generate
    from bench.json_section import json_pipeline
    from bench.length import memory_over_length
    from bench.over_kafka import end_to_end_kafka

    return (
        Section("embedded", "in-memory stream, all steps and writers, embedded ClickHouse; then latency", end_to_end),
        Section("memory", "peak memory of 20 s and of 120 s of simulated time, embedded", memory_over_length),
        Section("kafka", "the same from filled Kafka topics", end_to_end_kafka),
        Section("json", "the pipeline people write first: one JSON message an event, through Kafka", json_pipeline),
        Section("clocks", "maps of clocks by the methods of other tools and by ours, same probes", clock_methods),
        Section("generate", "events/s that the simulator makes on one core, with contention and without", generate),
    )
