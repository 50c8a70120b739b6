"""What a demo shows a person when it is done. Draws what was stored; computes nothing but shares of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from fleetscope.contracts.derived import STATE_NAMES

if TYPE_CHECKING:
    import pandas as pd

    from fleetscope.cli.demo_run import Demo, Result
    from fleetscope.store.abstract import Store

BAR_CELLS: Final = 40
_COLOURS: Final = {
    "compute": "green", "memory_bandwidth": "blue", "on_chip_memory": "cyan", "interconnect": "cyan",
    "latency": "yellow", "throttled": "red", "bank_conflict": "magenta", "spill": "magenta", "dma_stall": "magenta",
    "kernel_unattributed": "white", "collective_network": "bright_magenta", "collective_wait": "magenta",
    "pcie_h2d": "bright_red", "pcie_d2h": "red", "pcie_small": "bright_yellow", "host": "bright_cyan",
    "launch_overhead": "bright_blue", "dependency": "bright_white", "no_demand": "bright_black",
    "unresolved": "bright_black", "unknown": "black on white",
}
_HOST_GAUGES: Final = "host_readings"


def print_summary(to: Console, store: Store, run: Demo, result: Result) -> None:
    """The whole summary."""
    document = result.document
    _headline(to, run, result)
    _events(to, document)
    _clocks(to, document["clocks"])
    _limits(to, store, run)
    if result.host_id is not None:
        _host(to, store, result.host_id)
    _next(to, run)
    for note in result.notes:
        to.print(f"[bold red]not right:[/bold red] {escape(note)}")


def _headline(to: Console, run: Demo, result: Result) -> None:
    config, document = run.config, result.document
    where = f"Kafka at {run.settings.kafka.bootstrap_servers}" if run.over_kafka else "the in-memory stream"
    store = "embedded ClickHouse" if run.embedded else f"ClickHouse at {run.settings.store.host}"
    to.print(f"\n[bold]fleetscope demo[/bold]: {config.hosts} hosts × {config.devices} devices, {config.seconds:g} s "
             f"of scenario {escape(config.scenario.name)}, seed {config.seed}"
             + (f", and this host ({escape(result.host_id)})" if result.host_id else ""))
    to.print(f"through {where} into {store}: {document['events']['produced']:,} events in {document['wall_s']:.1f} s, "
             f"{document['events_per_s']:,} events/s with simulation and start, at most "
             f"{document['peak_rss_mb']:,.0f} MB")


def _events(to: Console, document: dict[str, Any]) -> None:
    table = Table(title="Events: produced = stored + dead letter + dropped + lost", title_justify="left")
    columns = ("produced", "stored", "dead_letter", "dropped_by_producer", "lost", "redelivered", "late", "duplicate")
    table.add_column("kind")
    for name in columns:
        table.add_column(name.replace("_", " "), justify="right")
    for kind, counts in document["rows_by_contract"].items():
        if counts["produced"]:
            table.add_row(kind, *("–" if counts[c] is None else f"{counts[c]:,}" for c in columns))
    to.print(table)


def _clocks(to: Console, clocks: dict[str, Any]) -> None:
    table = Table(title="Clock error against the simulation's truth, and the bound stated", title_justify="left")
    for name in ("pair", "error p50 µs", "error p99 µs", "error max µs", "bound p50 µs", "bound p99 µs",
                 "truth inside bound"):
        table.add_column(name, justify="left" if name == "pair" else "right")
    for pair, label in (("host_device", "host to device"), ("host_host", "host to host")):
        score = clocks.get(pair)
        if score and score.get("p50_ns") is not None:
            figures = (f"{score[k] / 1000:.2f}" for k in ("p50_ns", "p99_ns", "max_ns", "bound_p50_ns",
                                                          "bound_p99_ns"))
            table.add_row(label, *figures, f"{score['bound_coverage']:.4%}")
    to.print(table)


def _limits(to: Console, store: Store, run: Demo) -> None:
    sums = ", ".join(f"sum({name}_ns) AS state_{name}" for name in STATE_NAMES)
    frame = store.frame(
        f"SELECT ifNull(job, '–') AS job, host, device, {sums}, sum(window_ns) AS total FROM windows FINAL "
        "WHERE host IN {hosts:Array(String)} GROUP BY job, host, device ORDER BY job, host, device",
        {"hosts": run.config.host_names})
    if frame.empty:
        to.print("[red]no window was closed[/red]")
        return
    frame = frame.rename(columns={f"state_{name}": f"{name}_ns" for name in STATE_NAMES})
    table = Table(title="Where the time goes, by job and device (bars and shares add up to 100 %)",
                  title_justify="left")
    for name in ("job", "device", "time by state", "largest shares of time"):
        table.add_column(name)
    for _, row in frame.iterrows():
        table.add_row(str(row["job"]), f"{row['host']}/{row['device']}", _bar(row), _largest(row))
    to.print(table)
    shown = [n for n in STATE_NAMES if frame[f"{n}_ns"].sum() > 0]
    legend = Text("  ").join(Text("█ ", style=_COLOURS[n]) + Text(n.replace("_", " ")) for n in shown)
    to.print(legend)
    _verdicts(to, store, run)


def _bar(row: pd.Series[Any]) -> Text:
    text = Text()
    total, done, cells = int(row["total"]), 0, 0
    for name in STATE_NAMES:
        done += int(row[f"{name}_ns"])
        until = round(BAR_CELLS * done / total)
        text.append("█" * (until - cells), style=_COLOURS[name])
        cells = until
    return text


def _largest(row: pd.Series[Any]) -> str:
    shares = sorted(((int(row[f"{n}_ns"]) / int(row["total"]), n) for n in STATE_NAMES), reverse=True)[:3]
    return ", ".join(f"{name.replace('_', ' ')} {share:.1%}" for share, name in shares if share > 0)


def _verdicts(to: Console, store: Store, run: Demo) -> None:
    frame = store.frame(
        "SELECT job, cause, count() AS windows, avg(share) AS mean_share, sum(recoverable_ns) / 1e9 AS lost_s, "
        "any(advice) AS advice FROM verdicts FINAL WHERE host IN {hosts:Array(String)} "
        "GROUP BY job, cause ORDER BY windows DESC LIMIT 6", {"hosts": run.config.host_names})
    table = Table(title="What limits the windows", title_justify="left")
    for name, justify in (("job", "left"), ("limit", "left"), ("windows", "right"), ("mean share", "right"),
                          ("device time s", "right"), ("advice", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for _, row in frame.iterrows():
        job = row["job"] if isinstance(row["job"], str) else "–"
        table.add_row(job, str(row["cause"]).replace("_", " "), f"{row['windows']:,}", f"{row['mean_share']:.1%}",
                      f"{row['lost_s']:.1f}", str(row["advice"]))
    to.print(table)


def _host(to: Console, store: Store, host: str) -> None:
    """This host's own readings: rates of its counters over the run, and the bound of its clock against UTC."""
    frame = store.frame(
        "SELECT counter, ifNull(instance, '') AS instance, argMin(raw, time_ns) AS first_raw, "
        "argMax(raw, time_ns) AS last_raw, argMax(value, time_ns) AS last_value, "
        "(max(time_ns) - min(time_ns)) / 1e9 AS seconds, count() AS readings, max(utc_err_ns) AS utc_err "
        "FROM counters WHERE host = {host:String} GROUP BY counter, instance ORDER BY counter, instance",
        {"host": host})
    if frame.empty:
        to.print(f"[red]no reading of {escape(host)} was stored[/red]")
        return
    units = _units(store, host)
    table = Table(title=f"This host, {host}: {int(frame['readings'].sum()):,} readings over "
                        f"{frame['seconds'].max():.1f} s", title_justify="left")
    for name, justify in (("reading", "left"), ("value", "right"), ("unit", "left")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for name, value, unit in _chosen(frame, units):
        table.add_row(name, value, unit)
    to.print(table)
    err = frame["utc_err"].dropna()
    if len(err):
        to.print(f"its times are good to ±{err.max() / 1000:,.1f} µs of its own UTC clock")


def _units(store: Store, host: str) -> dict[str, str]:
    frame = store.frame("SELECT component, argMax(text, time_ns) AS unit FROM inventory WHERE host = {host:String} AND "
                        "kind = 'counter' AND attribute = 'unit' GROUP BY component", {"host": host})
    return dict(zip(frame["component"], frame["unit"], strict=True))


def _chosen(frame: pd.DataFrame, units: dict[str, str]) -> list[tuple[str, str, str]]:
    """A screenful: totals rather than single instances, rates of what grows, gauges as they are."""
    from pandas import isna

    rows: list[tuple[str, str, str]] = []
    for _, row in frame.iterrows():
        instance = str(row["instance"])
        if instance.startswith("cpu") or "irq" in str(row["counter"]):
            continue
        unit = units.get(str(row["counter"]), "") or ""
        label = f"{row['counter']} {instance}".strip()
        if not isna(row["last_raw"]) and row["seconds"]:
            rate = (int(row["last_raw"]) - int(row["first_raw"])) / row["seconds"]
            if rate > 0:
                rows.append((label, f"{rate:,.1f}", f"{unit}/s"))
        elif not isna(row["last_value"]) and row["last_value"]:
            rows.append((label, f"{row['last_value']:,.1f}", unit))
    return sorted(rows, key=lambda r: r[0])[:24]


def _next(to: Console, run: Demo) -> None:
    folder = run.data_dir
    at = f" --data-dir {folder}" if run.embedded else " --clickhouse"
    to.print("\n[bold]Look further[/bold]")
    for command, why in (
        (f"fleetscope query{at}", "the documented queries on what was stored"),
        (f"fleetscope query top_limits{at}", "what limits each job and device"),
        (f"fleetscope doctor{at}", "clock health, coverage, dead letters, and what to do"),
        ("fleetscope demo --scenario pcie-bound", "the same fleet behind a narrow PCIe link"),
        ("fleetscope agent --once", "one full reading of this host"),
    ):
        to.print(f"  {escape(command):<58} {why}")
