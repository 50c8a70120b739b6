"""`fleetscope simulate --history FILE`: weeks of windows and hourly figures, into a store or a folder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from fleetscope.cli.common import console, print_json, settings

if TYPE_CHECKING:
    from simulator.history.plan import Plan
    from simulator.history.run import Written
    from simulator.history.settings import History


def simulate_history(path: Path, out: Path | None, truth: Path | None, seed: int, start_ns: int | None,
                     clickhouse: str | None, data_dir: Path | None, as_json: bool) -> None:
    """Write the history of ``path`` to Parquet files in ``out``, else into the store that the options name.

    Without ``start_ns`` it ends with the hour before now. UsageError for wrong settings, or a folder and a store at
    once.
    """
    from fleetscope.errors import UsageError
    from simulator.history.plan import make_plan
    from simulator.history.settings import load_history
    from simulator.history.truth import write_truth

    if out is not None and (clickhouse is not None or data_dir is not None):
        raise UsageError("--out writes files: it excludes --data-dir and --clickhouse")
    history = load_history(path, seed)
    plan = make_plan(history, seed, _start_ns(history, start_ns))
    folder = truth or (out / "truth" if out else data_dir / "truth" if data_dir else None)
    if folder is not None:
        write_truth(plan, folder)
    began_s, cpu_s = time.monotonic(), time.process_time()
    with _progress(plan) as shown:
        written, skipped = _to_files(plan, out, shown) if out else _to_store(plan, clickhouse, data_dir, shown)
    took_s, cpu_s = time.monotonic() - began_s, time.process_time() - cpu_s
    where = str(out or data_dir or clickhouse or "the store")
    if as_json:
        print_json({"hosts": history.hosts, "devices": history.devices, "hours": history.hours,
                    "window_s": history.window_s, "seed": seed, "start_ns": plan.start_ns, "windows": written.windows,
                    "operator_hours": written.operators - skipped, "operator_hours_without_table": skipped,
                    "inventory": written.inventory, "marks": written.marks, "wall_s": took_s, "cpu_s": cpu_s,
                    "to": where, "truth": str(folder) if folder else None})
        return
    screen = console()
    screen.print(f"{written.windows:,} windows, {written.operators - skipped:,} hourly rows of operators to {where} in "
                 f"{took_s:.1f} s ({cpu_s:.1f} CPU s)")
    if skipped:
        screen.print(f"{skipped:,} hourly rows of operators have no table in this store; --out writes them to files")
    screen.print(f"truth in {folder}" if folder else "truth not written: name a folder with --truth")


def _start_ns(history: History, given_ns: int | None) -> int:
    from fleetscope.errors import UsageError

    hour_ns = 3_600 * 1_000_000_000
    start_ns = time.time_ns() // hour_ns * hour_ns - history.hours * hour_ns if given_ns is None else given_ns
    if not 0 <= start_ns < 7_000_000_000 * 1_000_000_000:
        raise UsageError(f"--start: {start_ns} ns since 1970 is not between the years 1970 and 2190")
    return start_ns


def _to_files(plan: Plan, out: Path, shown: Callable[[Written], None]) -> tuple[Written, int]:
    from simulator.history.run import run_history
    from simulator.history.sinks import ParquetSink

    return run_history(plan, ParquetSink(out), progress=shown), 0


def _to_store(plan: Plan, clickhouse: str | None, data_dir: Path | None,
              shown: Callable[[Written], None]) -> tuple[Written, int]:
    from fleetscope.cli.stores import open_chosen
    from fleetscope.store.migrate import migrate
    from simulator.history.generate import BLOCK_ROWS
    from simulator.history.run import run_history
    from simulator.history.sinks import StoreSink

    with open_chosen(clickhouse, data_dir, create=True) as store:
        migrate(store, settings().store.ttl_days)
        sink = StoreSink(store, plan, BLOCK_ROWS)
        return run_history(plan, sink, BLOCK_ROWS, shown), sink.skipped_operators


@contextmanager
def _progress(plan: Plan) -> Iterator[Callable[[Written], None]]:
    """A bar on stderr that counts windows."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    total = plan.history.windows * plan.history.hosts * plan.history.devices
    with Progress(TextColumn("history"), BarColumn(), TextColumn("{task.completed:,.0f} of {task.total:,.0f} windows"),
                  TimeElapsedColumn(), TimeRemainingColumn(), console=console()) as progress:
        task = progress.add_task("", total=total)
        yield lambda written: progress.update(task, completed=written.windows)
