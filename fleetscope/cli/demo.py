"""`fleetscope demo`: a simulated fleet and this host through the whole pipeline, and what it found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from fleetscope.cli.common import DEFAULT_DATA_DIR, JsonOption, out, print_json

_EPILOG = "Example: fleetscope demo --seconds 20 --hosts 2 --devices 4 --seed 1"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", epilog=_EPILOG)(demo)


def demo(
    seconds: Annotated[float, typer.Option(help="Length of the simulated workload.")] = 20.0,
    hosts: Annotated[int, typer.Option(help="Simulated hosts.")] = 2,
    devices: Annotated[int, typer.Option(help="Devices on each simulated host.")] = 4,
    scenario: Annotated[str, typer.Option(help="Name of a scenario, or a .toml file.")] = "serving",
    seed: Annotated[int, typer.Option(help="Same seed and start: same rows.")] = 1,
    start: Annotated[str | None, typer.Option(help="Time it plays at: ISO 8601 or Unix seconds; else now.")] = None,
    no_host: Annotated[bool, typer.Option("--no-host", help="Leave this real host out.")] = False,
    data_dir: Annotated[Path, typer.Option("--data-dir", help="Folder of the embedded store; replaced by the demo.")]
    = DEFAULT_DATA_DIR,
    kafka: Annotated[str | None, typer.Option("--kafka", metavar="[HOST:PORT]",
                                              help="Through a real Kafka (alone: the one in the settings).")] = None,
    clickhouse: Annotated[str | None, typer.Option("--clickhouse", metavar="[HOST:PORT]",
                                                   help="Into a real ClickHouse (alone: the one in the settings).")]
    = None,
    as_json: JsonOption = False,
) -> None:
    """Run a simulated fleet and this real host through the whole pipeline; nothing else is needed.

    Everything is real but the accelerators: batches are encoded, clocks aligned with error bounds, time accounted for
    and stored in ClickHouse (embedded unless --clickhouse). The result is graded against the simulation's truth.
    """
    from fleetscope.cli.demo_run import Demo
    from fleetscope.cli.demo_summary import print_summary
    from fleetscope.telemetry import log_plain

    log_plain()

    run = Demo.plan(seconds=seconds, hosts=hosts, devices=devices, scenario=scenario, seed=seed, start=start,
                    with_host=not no_host, data_dir=data_dir, kafka=kafka, clickhouse=clickhouse)
    with run.opened() as store:
        result = run.execute(store)
        if as_json:
            print_json(result.document)
        else:
            print_summary(out(), store, run, result)
    if result.failed:
        raise typer.Exit(1)
