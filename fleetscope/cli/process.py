"""`fleetscope process`: the steps and writers as a service on Kafka, or over a capture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fleetscope.cli.common import JsonOption, console, out, print_json, settings

if TYPE_CHECKING:
    import threading

    from fleetscope.settings import Settings, StoreSettings
    from fleetscope.store.abstract import Store
    from processors.runner import Pipeline

_EPILOG = "Examples: fleetscope process align windows · fleetscope process --from capture --data-dir data"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("process", epilog=_EPILOG)(process)


def process(
    steps: Annotated[list[str] | None, typer.Argument(help="Steps and writers to run; all if none is named.",
                                                      show_default=False)] = None,
    capture: Annotated[Path | None, typer.Option("--from", help="Folder of `fleetscope simulate --out`, or a capture "
                                                 "file: process it and leave.")] = None,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="Into the embedded store of this folder.")] = None,
    instance: Annotated[str, typer.Option(help="Name of this worker, unique in the fleet; default: host and pid.")]
    = "",
    as_json: JsonOption = False,
) -> None:
    """Run the pipeline's steps until SIGTERM or Ctrl-C, then drain, flush and commit.

    FLEETSCOPE_KAFKA__BOOTSTRAP_SERVERS and FLEETSCOPE_STORE__HOST name the servers. Workers of one step share its
    partitions; start as many as you like.
    """
    from fleetscope.telemetry import log_json, log_plain

    given = settings()
    store_settings = _store_settings(given, data_dir)
    if capture is not None:
        log_plain()
        _replay(capture, given, store_settings, steps, as_json)
    else:
        log_json()
        _serve(given, store_settings, steps, instance, as_json)


def _store_settings(given: Settings, data_dir: Path | None) -> StoreSettings:
    from fleetscope.settings import StoreSettings

    return given.store if data_dir is None else StoreSettings(path=data_dir / "store", ttl_days=given.store.ttl_days)


def _opened(store_settings: StoreSettings) -> Store:
    from fleetscope.store.clickhouse import open_store
    from fleetscope.store.migrate import migrate

    store = open_store(store_settings)
    try:
        migrate(store, store_settings.ttl_days)
    except BaseException:
        store.close()
        raise
    return store


def _serve(given: Settings, store_settings: StoreSettings, steps: list[str] | None, instance: str,
           as_json: bool) -> None:
    from fleetscope.stream.kafka import KafkaStream
    from processors.runner import Pipeline
    from processors.topology import REVISE, UNITS

    names = tuple(steps or UNITS)
    stop = _stop_on_signals()
    needs_store = any(n == REVISE or n.startswith("write-") for n in names)
    stream = KafkaStream(given.kafka)
    store = None
    try:
        # The table is checked before any server is asked: wrong usage must not wait for a time-out.
        pipeline = Pipeline(stream, None, given.pipeline, names=names)
        pipeline.instance = instance or pipeline.instance
        store = _opened(store_settings) if needs_store else None
        pipeline.store = store
        pipeline.start()
        console().print(f"running {', '.join(names)} as {pipeline.instance}; stop with Ctrl-C")
        pipeline.run_until(stop)
        _report(pipeline, as_json)
    finally:
        stream.close()
        if store is not None:
            store.close()


def _replay(capture: Path, given: Settings, store_settings: StoreSettings, steps: list[str] | None,
            as_json: bool) -> None:
    from fleetscope.cli.demo_run import DRAIN_TIMEOUT_S, MEMORY_PARTITIONS
    from fleetscope.errors import UsageError
    from fleetscope.stream.capture import read_capture
    from fleetscope.stream.memory import MemoryStream
    from processors.runner import Pipeline
    from processors.topology import UNITS

    file = capture / "capture.arrow" if capture.is_dir() else capture
    if not file.is_file():
        raise UsageError(f"{capture} holds no capture; make one with: fleetscope simulate --out {capture}")
    with _opened(store_settings) as store:
        _refuse_repeat(store, file)
        stream = MemoryStream(MEMORY_PARTITIONS)
        pipeline = Pipeline(stream, store, given.pipeline, names=tuple(steps or UNITS), with_telemetry=False,
                            max_failures=3, on_failure=stream.close)
        pipeline.start()
        try:
            producer = stream.producer("fleetscope-process")
            for topic, message in read_capture(file):
                producer.send(topic, message)
                if pipeline.error is not None:
                    raise pipeline.error
            if not pipeline.finish(0.3, DRAIN_TIMEOUT_S):
                raise UsageError(f"{file}: not drained after {DRAIN_TIMEOUT_S:g} s")
        finally:
            pipeline.stop()
            stream.close()
        _report(pipeline, as_json)


def _refuse_repeat(store: Store, file: Path) -> None:
    """UsageError where the store has rows of this capture's producers already: a stream in memory begins anew each
    time, so it would not recognise them, and they would stand there twice."""
    from fleetscope.contracts.codec import decode_header
    from fleetscope.errors import RejectedError, UsageError
    from fleetscope.stream.capture import read_capture

    stored = {(str(p), int(e)) for p, e in store.frame(
        "SELECT DISTINCT source, source_epoch FROM coverage").itertuples(index=False)}
    if not stored:
        return
    for _, message in read_capture(file):
        try:
            header = decode_header(message.headers)
        except RejectedError:
            continue
        if (header.producer, header.epoch) in stored:
            raise UsageError(f"{file}: rows of {header.producer} (epoch {header.epoch}) are in the store already; "
                             "give another --data-dir")


def _stop_on_signals() -> threading.Event:
    import signal
    import threading

    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop


def _report(pipeline: Pipeline, as_json: bool) -> None:
    rows: dict[str, dict[str, Any]] = {
        name: {"rows": round(pipeline.metrics.total("rows", name)),
               "dead_letters": round(pipeline.metrics.total("dead_letters", name))}
        for name in pipeline.names
    }
    if as_json:
        print_json({"steps": rows})
        return
    from rich.table import Table

    table = Table(title="Rows taken", title_justify="left")
    for column in ("step", "rows", "dead letters"):
        table.add_column(column, justify="left" if column == "step" else "right")
    for name, counts in rows.items():
        table.add_row(name, f"{counts['rows']:,}", f"{counts['dead_letters']:,}")
    out().print(table)
