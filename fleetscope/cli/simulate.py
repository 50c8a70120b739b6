"""`fleetscope simulate`: a simulated fleet into a capture or to Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleetscope.cli.common import JsonOption, console, print_json, settings
from fleetscope.cli.stores import ClickHouseOption, DataDirChoice

if TYPE_CHECKING:
    from rich.progress import Progress

    from simulator.fleet import Fleet, FleetConfig
    from simulator.producer import Publication
    from simulator.truth import Sink

_EPILOG = "Example: fleetscope simulate --out capture --seconds 20 --hosts 2 --devices 4 --seed 1"


def parse_start(text: str | None, now_ns: int) -> int:
    """Unix ns of ``--start``: ISO 8601 (UTC unless it says otherwise) or Unix seconds; None: ``now_ns``."""
    from datetime import UTC, datetime, timedelta
    from decimal import Decimal, InvalidOperation

    from fleetscope.errors import UsageError

    if text is None:
        return now_ns
    try:
        return int(Decimal(text) * 1_000_000_000)
    except (InvalidOperation, ValueError, OverflowError):
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"--start {text!r}: give ISO 8601, such as 2026-01-31T12:00:00Z, or Unix seconds") from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1) * 1_000


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate", epilog=_EPILOG)(simulate)


def simulate(
    out: Annotated[Path | None, typer.Option(help="Folder for capture.arrow and truth/; else to Kafka.")] = None,
    seconds: Annotated[float | None, typer.Option(help="Length of the workload; else the scenario's.")] = None,
    hosts: Annotated[int | None, typer.Option(help="Number of hosts; else the scenario's.")] = None,
    devices: Annotated[int | None, typer.Option(help="Devices on each host; else the scenario's.")] = None,
    seed: Annotated[int, typer.Option(help="Same seed and start: same bytes.")] = 1,
    scenario: Annotated[str, typer.Option(help="Name of a scenario, or a .toml file.")] = "serving",
    start: Annotated[str | None, typer.Option(help="Time it plays at: ISO 8601 or Unix seconds; else now.")] = None,
    truth: Annotated[Path | None, typer.Option(help="Folder for the ground truth.")] = None,
    real_time: Annotated[bool, typer.Option("--real-time", help="Publish no faster than the fleet would.")] = False,
    history: Annotated[Path | None, typer.Option(help="Weeks of windows as this .toml says.")] = None,
    clickhouse: ClickHouseOption = None,
    data_dir: DataDirChoice = None,
    as_json: JsonOption = False,
) -> None:
    """Simulate a fleet that serves language models, with every clock on its own.

    With --history FILE no events are simulated: weeks of windows, hourly figures and deployments go to --out as Parquet
    files, or into the store of --data-dir or --clickhouse. Size and scenario stand in the file; --seed, --start and
    --truth hold as without.
    """
    if history is not None:
        from fleetscope.cli.simulate_history import simulate_history

        start_ns = None if start is None else parse_start(start, 0)
        simulate_history(history, out, truth, seed, start_ns, clickhouse, data_dir, as_json)
        return
    from simulator.fleet import Fleet, FleetConfig
    from simulator.scenario import load_scenario
    from simulator.truth import TruthSink

    loaded = load_scenario(scenario, seed)
    size = loaded.fleet
    config = FleetConfig(size.hosts if hosts is None else hosts, size.devices if devices is None else devices,
                         size.seconds if seconds is None else seconds, seed, parse_start(start, time.time_ns()), loaded)
    folder = truth or (out / "truth" if out else None)
    sink: Sink | None = TruthSink(folder) if folder else None
    fleet = Fleet(config, sink)
    with _progress(config) as tick:
        publications = tick(_paced(fleet.publications()) if real_time else fleet.publications())
        messages = _to_file(out, publications) if out else _to_kafka(publications)
    _report(fleet, messages, out, folder, as_json)


def _to_file(out: Path, publications: Iterable[Publication]) -> int:
    from fleetscope.stream.capture import write_capture

    return write_capture(out / "capture.arrow", publications)


def _to_kafka(publications: Iterable[Publication]) -> int:
    from fleetscope.contracts.topics import CLOCK_LINKS, RAW_TOPICS
    from fleetscope.stream.kafka import KafkaStream

    stream = KafkaStream(settings().kafka)
    sent = 0
    try:
        stream.ensure_topics([*RAW_TOPICS.values(), CLOCK_LINKS])
        producer = stream.producer("fleetscope-simulate")
        for publication in publications:
            producer.send(publication.topic, publication.message)
            sent += 1
        producer.flush()
        producer.close()
    finally:
        stream.close()
    return sent


def _paced(publications: Iterable[Publication]) -> Iterator[Publication]:
    from fleetscope.clock import SystemClock

    clock = SystemClock()
    began_s = clock.monotonic_s()
    for publication in publications:
        early_s = publication.flushed_ns / 1e9 - (clock.monotonic_s() - began_s)
        if early_s > 0:
            clock.sleep(early_s)
        yield publication


@contextmanager
def _progress(config: FleetConfig) -> Iterator[Any]:
    """A function that passes publications on and moves a bar on stderr by simulated time."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    with Progress(TextColumn("simulating"), BarColumn(), TextColumn("{task.completed:.0f} of {task.total:.0f} s"),
                  TextColumn("{task.fields[rows]:,} rows"), TimeElapsedColumn(), console=console()) as progress:
        total_s = config.seconds + config.drain_seconds

        def tick(publications: Iterable[Publication]) -> Iterator[Publication]:
            return _ticking(publications, progress, total_s)

        yield tick


def _ticking(publications: Iterable[Publication], progress: Progress, total_s: float) -> Iterator[Publication]:
    task = progress.add_task("", total=total_s, rows=0)
    rows, shown_ns = 0, 0
    for publication in publications:
        yield publication
        rows += publication.rows
        if publication.flushed_ns != shown_ns:
            shown_ns = publication.flushed_ns
            progress.update(task, completed=min(shown_ns / 1e9, total_s), rows=rows)
    progress.update(task, completed=total_s, rows=rows)


def _report(fleet: Fleet, messages: int, out: Path | None, truth: Path | None, as_json: bool) -> None:
    from dataclasses import asdict

    rows = {name: asdict(tally) for name, tally in sorted(fleet.tallies.items())}
    if as_json:
        config = fleet.config
        print_json({"scenario": config.scenario.name, "hosts": config.hosts, "devices": config.devices,
                    "seconds": config.seconds, "seed": config.seed, "start_unix_ns": config.start_unix_ns,
                    "messages": messages, "rows_by_contract": rows,
                    "capture": str(out / "capture.arrow") if out else None, "truth": str(truth) if truth else None})
        return
    _print_table(rows, messages, str(out / "capture.arrow") if out else "Kafka")


def _print_table(rows: dict[str, dict[str, int]], messages: int, where: str) -> None:
    from rich.table import Table

    table = Table(title=f"{messages:,} messages to {where}")
    columns = ("produced", "dropped_by_producer", "lost", "corrupted", "redelivered")
    table.add_column("rows of")
    for column in columns:
        table.add_column(column.replace("_", " "), justify="right")
    for name, counts in rows.items():
        table.add_row(name, *(f"{counts[column]:,}" for column in columns))
    console().print(table)
