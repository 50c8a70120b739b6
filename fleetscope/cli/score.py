"""`fleetscope score`: a scenario through the whole embedded pipeline, graded against its ground truth."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from fleetscope.cli.common import JsonOption, console, out, print_json

START = "2026-01-01T00:00:00Z"
"""Fixed, so that scenario and seed alone say what is run."""
_EPILOG = "Example: fleetscope score --scenario pcie-bound --seed 7 --json"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("score", epilog=_EPILOG)(score)


def score(
    scenario: Annotated[str, typer.Option(help="Name of a scenario, or a .toml file.")] = "serving",
    seed: Annotated[int, typer.Option(help="Same scenario, seed, size and start: same rows.")] = 1,
    seconds: Annotated[float | None, typer.Option(help="Length of the workload; else the scenario's.")] = None,
    hosts: Annotated[int | None, typer.Option(help="Simulated hosts; else the scenario's.")] = None,
    devices: Annotated[int | None, typer.Option(help="Devices on each host; else the scenario's.")] = None,
    start: Annotated[str, typer.Option(help="Time it plays at: ISO 8601 or Unix seconds.")] = START,
    data_dir: Annotated[Path | None, typer.Option(
        "--data-dir", help="Folder for store and truth, kept afterwards; replaced if a demo or score made it.")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the temporary folder and say where it is.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a scenario through the whole embedded pipeline and grade what is stored against the ground truth.

    The pipeline never sees the truth. Exit code 1: rows are not accounted for, stored twice, or were not processed to
    the end. How good the grades are does not change the exit code.
    """
    from fleetscope.telemetry import log_plain

    log_plain()
    if data_dir is not None:
        failed = _run(data_dir, scenario, seed, seconds, hosts, devices, start, as_json)
    else:
        folder = Path(tempfile.mkdtemp(prefix="fleetscope-score-"))
        try:
            failed = _run(folder, scenario, seed, seconds, hosts, devices, start, as_json)
        finally:
            if keep:
                console().print(f"store and truth are kept in {folder}", markup=False, soft_wrap=True)
            else:
                shutil.rmtree(folder, ignore_errors=True)
    if failed:
        raise typer.Exit(1)


def _run(folder: Path, scenario: str, seed: int, seconds: float | None, hosts: int | None, devices: int | None,
         start: str, as_json: bool) -> bool:
    from fleetscope.cli.demo_run import Demo
    from fleetscope.cli.score_summary import print_score
    from simulator.scenario import load_scenario

    own = load_scenario(scenario, seed).fleet
    run = Demo.plan(seconds=own.seconds if seconds is None else seconds, hosts=own.hosts if hosts is None else hosts,
                    devices=own.devices if devices is None else devices, scenario=scenario, seed=seed, start=start,
                    with_host=False, data_dir=folder, kafka=None, clickhouse=None)
    with run.opened() as store:
        result = run.execute(store)
    if as_json:
        print_json(result.document)
    else:
        print_score(out(), run.config, result.document, result.notes)
    return result.failed
