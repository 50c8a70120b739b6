"""What a demo shows a person when it is done. Draws what was stored; computes nothing but shares of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fleetscope.cli.demo_host import host_table
from fleetscope.contracts.derived import STATE_NAMES
from views.states import bar, legend, words

if TYPE_CHECKING:
    import pandas as pd

    from fleetscope.cli.demo_run import Demo, Result
    from fleetscope.store.abstract import Parameter, Store

SLACK_NS: Final = 10_000_000
_STORED: Final = ("spans", "counters", "inventory", "marks")
"""Kinds whose rows end in a table of their own; clock samples end as segments, heartbeats as coverage."""
_COUNTS: Final = (("produced", "produced"), ("stored", "stored"), ("dead_letter", "dead"),
                  ("dropped_by_producer", "dropped"), ("lost", "lost"), ("redelivered", "repeated"), ("late", "late"),
                  ("duplicate", "double"))


def print_summary(to: Console, store: Store, run: Demo, result: Result) -> None:
    """The whole summary."""
    _headline(to, run, result)
    to.print(_events(result.document))
    to.print("[dim]clock samples end as clock segments and heartbeats as coverage: see doctor[/dim]\n")
    to.print(_clocks(result.document["clocks"]))
    _limits(to, store, run)
    if result.host_id is not None:
        to.print()
        to.print(host_table(store, result.host_id) or f"[red]no reading of {escape(result.host_id)} was stored[/red]")
    _next(to, run)
    for note in result.notes:
        to.print(f"[bold red]not right:[/bold red] {escape(note)}")


def _table(title: str, columns: Sequence[str], *, left: Sequence[str] | None = None) -> Table:
    """Columns named in ``left`` (by default the first) hold text, the others figures."""
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD, pad_edge=False,
                  padding=(0, 1, 0, 0))
    for name in columns:
        table.add_column(name, justify="left" if name in (left or columns[:1]) else "right")
    return table


def _headline(to: Console, run: Demo, result: Result) -> None:
    config, document = run.config, result.document
    stream = f"Kafka at {run.settings.kafka.bootstrap_servers}" if run.over_kafka else "the in-memory stream"
    store = "embedded ClickHouse" if run.embedded else f"ClickHouse at {run.settings.store.host}"
    host = f", and this host, {escape(result.host_id)}" if result.host_id else ""
    to.print(f"\n[bold]fleetscope demo[/bold]: {config.hosts} hosts × {config.devices} devices, {config.seconds:g} s "
             f"of scenario {escape(config.scenario.name)}, seed {config.seed}{host}")
    to.print(f"{document['events']['produced']:,} span events through {stream} into {store}")
    to.print(f"in {document['wall_s']:.1f} s with simulation and start: {document['events_per_s']:,} events/s, at most "
             f"{document['peak_rss_mb']:,.0f} MB\n")


def _events(document: dict[str, Any]) -> Table:
    table = _table("Simulated rows: produced = stored + dead letters + dropped at the source + lost",
                   ("kind", *(title for _, title in _COUNTS)))
    for kind, counts in document["rows_by_contract"].items():
        if counts["produced"] and kind in _STORED:
            table.add_row(kind, *("–" if counts[c] is None else f"{counts[c]:,}" for c, _ in _COUNTS))
    return table


def _clocks(clocks: dict[str, Any]) -> Table:
    table = _table("Clock error against the simulation's truth, and the bound stated (µs)",
                   ("pair", "error p50", "p99", "max", "bound p50", "p99", "truth inside"))
    for pair, label in (("host_device", "host to device"), ("host_host", "host to host")):
        score = clocks.get(pair)
        if score and score.get("p50_ns") is not None:
            names = ("p50_ns", "p99_ns", "max_ns", "bound_p50_ns", "bound_p99_ns")
            table.add_row(label, *(f"{score[n] / 1000:.2f}" for n in names), f"{score['bound_coverage']:.2%}")
    return table


def _span(run: Demo) -> dict[str, Parameter]:
    """The simulated hosts and the time of the workload: windows that lie whole within it are shown.

    The fleet goes on for some seconds afterwards, so that its clocks settle; that is not what was asked for.
    """
    begin = run.config.start_unix_ns
    return {"hosts": run.config.host_names, "begin": begin - SLACK_NS,
            "end": begin + round(run.config.seconds * 1e9) + SLACK_NS}


_INSIDE: Final = ("host IN {hosts:Array(String)} AND window_start_ns >= {begin:Int64} "
                  "AND window_start_ns + window_ns <= {end:Int64}")


def _limits(to: Console, store: Store, run: Demo) -> None:
    sums = ", ".join(f"sum({name}_ns) AS state_{name}" for name in STATE_NAMES)
    frame = store.frame(
        f"SELECT ifNull(anyHeavy(job), '–') AS main_job, host, device, {sums}, sum(window_ns) AS total "
        f"FROM windows FINAL WHERE {_INSIDE} GROUP BY host, device ORDER BY main_job, host, device", _span(run))
    if frame.empty:
        to.print("[red]no whole window lies within the workload: give it more --seconds[/red]")
        return
    columns = ("job", "device", "time by state", "largest shares")
    seconds = int(frame["total"].max()) / 1e9
    title = f"Where the time goes, by job and device: shares of {seconds:g} s of workload"
    table = _table(title, columns, left=columns)
    for _, row in frame.iterrows():
        table.add_row(str(row["main_job"]), f"{row['host']}/{row['device']}", bar(_states(row)), _largest(row))
    to.print(table)
    shown = [n for n in STATE_NAMES if frame[f"state_{n}"].sum() > 0]
    to.print(legend(shown))
    _verdicts(to, store, run)


def _states(row: pd.Series[Any]) -> dict[str, int]:
    return {name: int(row[f"state_{name}"]) for name in STATE_NAMES}


def _largest(row: pd.Series[Any]) -> str:
    shares = sorted(((int(row[f"state_{n}"]) / int(row["total"]), n) for n in STATE_NAMES), reverse=True)
    return "\n".join(f"{words(name)} {share:.1%}" for share, name in shares[:3] if share >= 0.001)


def _verdicts(to: Console, store: Store, run: Demo) -> None:
    """For each job what limits its windows, in sentences."""
    frame = store.frame(
        "SELECT ifNull(job, '') AS of_job, cause, count() AS windows, avg(share) AS mean_share, "
        f"any(advice) AS advice_text FROM verdicts FINAL WHERE {_INSIDE} "
        "GROUP BY of_job, cause ORDER BY of_job = '', of_job, windows DESC, cause", _span(run))
    lines = Table.grid(padding=(0, 2))
    told: set[str] = set()
    for job, rows in frame.groupby("of_job", sort=False):
        total = int(rows["windows"].sum())
        for _, row in rows.iterrows():
            cause = str(row["cause"])
            text = Text(words(cause), style="bold")
            text.append(f" in {row['windows']} of {total} device windows, {row['mean_share']:.0%} of their time. ",
                        "none")
            if cause not in told:  # the advice is the same for every job
                told.add(cause)
                text.append(str(row["advice_text"]), "none")
            lines.add_row(Text("  " + (str(job) or "no job")), text)
    to.print("\n[bold]What limits the jobs[/bold]")
    to.print(lines)


def _next(to: Console, run: Demo) -> None:
    at = f" --data-dir {run.data_dir}" if run.embedded else " --clickhouse"
    if not run.embedded:
        to.print(f"[dim]with FLEETSCOPE_STORE__DATABASE={run.settings.store.database} for the commands below[/dim]")
    other = "host-bound" if run.config.scenario.name == "pcie-bound" else "pcie-bound"
    lines = Table.grid(padding=(0, 2))
    for command, why in (
        (f"fleetscope query{at}", "the documented queries"),
        (f"fleetscope query top_limits{at}", "what limits each job and device"),
        (f"fleetscope doctor{at}", "clock health, coverage, what to do"),
        (f"fleetscope demo --scenario {other}", "the same fleet with another limit"),
        ("fleetscope agent --once", "one full reading of this host"),
    ):
        lines.add_row(Text(f"  {command}"), Text(why))
    to.print("\n[bold]Look further[/bold]")
    to.print(lines)
