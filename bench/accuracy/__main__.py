"""The command line of `make accuracy`."""

from __future__ import annotations

import argparse
import json
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from bench.accuracy.document import by_scenario, pooled
from bench.accuracy.page import page, plots
from bench.accuracy.runs import Journal, Outcome, Run, execute
from bench.measure import environment

ROOT: Final = Path(__file__).parents[2]
RESULTS: Final = ROOT / "bench/results/accuracy.json"
PAGE: Final = ROOT / "docs/accuracy.md"
TIMEOUT_S: Final = 300.0
SHORT_S: Final = 8.0
SHORT_DEVICES: Final = 2
PACKAGES: Final = ("fleetscope", "processors", "simulator")


def parser() -> argparse.ArgumentParser:
    """The options; what is not given follows the scenario."""
    result = argparse.ArgumentParser(
        prog="python -m bench.accuracy",
        description="Run every scenario over fresh seeds and grade what the pipeline says.",
        epilog="example: make accuracy ACCURACY_ARGS='--scenarios serving pcie-bound --seeds 11 12'")
    result.add_argument("--scenarios", nargs="+", metavar="NAME", help="names or .toml files (default: all)")
    result.add_argument("--seeds", nargs="+", type=int, metavar="N", help="default: one, taken from date and hour")
    result.add_argument("--seconds", type=float, help="length of the workload (default: the scenario's)")
    result.add_argument("--hosts", type=int, help="default: the scenario's")
    result.add_argument("--devices", type=int, help="on each host; default: the scenario's")
    result.add_argument("--short", action="store_true",
                        help=f"{SHORT_S:g} s and {SHORT_DEVICES} devices a host, where the scenario allows it")
    result.add_argument("--timeout", type=float, default=TIMEOUT_S, metavar="S", help="for one run, in seconds")
    result.add_argument("--resume", action="store_true", help="keep what an interrupted series of the same code has")
    result.add_argument("--code", help="what the code is called (default: the commit of the repository)")
    result.add_argument("--results", type=Path, default=RESULTS, metavar="FILE")
    result.add_argument("--page", type=Path, default=PAGE, metavar="FILE", help="plots go to a folder of its name")
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run; 0, or 1 where a run gave no score or lost count of rows."""
    from simulator.scenario import scenario_names

    given = parser().parse_args(arguments)
    console = Console(stderr=True, highlight=False)
    # Nothing else uses numbers as large: what is drawn in this hour is new to the code.
    seeds = given.seeds or [int(datetime.now(UTC).strftime("%Y%m%d%H"))]
    if given.short:
        given.seconds, given.devices = given.seconds or SHORT_S, given.devices or SHORT_DEVICES
    runs = [Run(name, seed, given.seconds, given.hosts, given.devices)
            for name in given.scenarios or scenario_names() for seed in seeds]
    commit = given.code or _commit()
    journal = Journal(given.results.with_suffix(".tmp"), commit, resume=given.resume)
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that a run under way is ended too
    try:
        _run_all(runs, journal, given.timeout, console)
    except KeyboardInterrupt:
        console.print(f"interrupted after {len(journal.done)} of {len(runs)} runs; --resume goes on")
        return 130
    outcomes = [journal.done[run] for run in runs]
    document = assembled(outcomes, commit)
    write(document, given.results, given.page)
    journal.remove()
    failed = [outcome for outcome in outcomes if outcome.error]
    for outcome in failed:
        console.print(f"{outcome.run.scenario}, seed {outcome.run.seed}: {outcome.error}", style="red", markup=False)
    console.print(f"{len(outcomes) - len(failed)} of {len(outcomes)} runs are sound; see {given.page}", markup=False)
    return 1 if failed else 0


def _run_all(runs: Sequence[Run], journal: Journal, timeout_s: float, console: Console) -> None:
    with Progress(TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
                  console=console) as progress:
        task = progress.add_task("", total=len(runs))
        for run in runs:
            progress.update(task, description=f"{run.scenario}, seed {run.seed}")
            if run not in journal.done:
                journal.add(execute(run, timeout_s))
            progress.advance(task)


def assembled(outcomes: Sequence[Outcome], commit: str) -> dict[str, Any]:
    """The document: what was run, figures by scenario, over everything, and every run's own score."""
    return {
        "commit": commit, "environment": environment(),
        "elapsed_s": round(sum(outcome.elapsed_s for outcome in outcomes), 1),
        "scenarios": by_scenario(outcomes),
        "overall": pooled([outcome.document for outcome in outcomes if outcome.document is not None]),
        "runs": [outcome.plain() for outcome in outcomes],
    }


def write(document: dict[str, Any], results: Path, where: Path) -> None:
    """The figures as JSON, the page, and its plots."""
    results.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    folder = where.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in plots(document).items():
        (folder / name).write_text(text, encoding="utf-8")
    where.write_text(page(document, folder.name), encoding="utf-8")


def _commit() -> str:
    """The commit of the code, with a mark where packages differ from it; the time where there is no repository."""
    try:
        head = _git("rev-parse", "--short=12", "HEAD")
        return head + (" with local changes" if _git("status", "--porcelain", "--", *PACKAGES) else "")
    except (OSError, subprocess.CalledProcessError):
        return time.strftime("unknown, at %Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
