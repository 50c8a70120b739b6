"""The store: versions, schema, clocks, coverage, dead letters and how recent everything is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fleetscope.cli.doctor_report import Column, Part, Severity, Table
from fleetscope.errors import UsageError
from views.figures import duration

if TYPE_CHECKING:
    from fleetscope.store.abstract import Parameter, Store

MAX_GAP_SHARE: Final = 0.01
MAX_PROVISIONAL_SHARE: Final = 0.5
SHOWN_STEPS: Final = 20
WIDE_BOUND_NS: Final = 1_000_000
"""A median bound above this is longer than most kernels and transfers."""
MAX_LOST_SHARE: Final = 0.05
MAX_LATE_SHARE: Final = 0.01
SILENT_S: Final = 60.0
WINDOWS_BEHIND_S: Final = 30.0

_PRODUCER: Final = "Fix or replace the producer; `fleetscope query dead_letters_by_reason` shows its first message."
_UPDATE: Final = "Update the processors before the producers: they read their own contract version and the one before."
_ADVICE: Final = {
    "no_fleet_time": "See that the host's agent runs and reaches the topic raw.clock_links: without clock samples its "
                     "rows have no fleet time.",
    "unknown_contract": _UPDATE, "unknown_version": _UPDATE, "unknown_column": _UPDATE,
    "too_large": "Let that producer send smaller batches.",
}


def look_at_store(store: Store, title: str, *, now_ns: int = 0) -> Part:
    """Everything that the store tells; with a wrong schema only that. ``now_ns`` 0: ages count from the server's clock.

    Raises StoreError or RetryError where a query fails.
    """
    part = Part("store", title, {"clickhouse": store.version(), "database": store.database})
    if not _schema(part, store):
        return part
    coverage = _ask(store, "coverage_by_host")
    _clocks(part, _ask(store, "clock_health"), {str(row["host"]) for row in coverage})
    _gaps(part, _ask(store, "clock_pairs_in_gap"))
    _steps(part, _ask(store, "clock_steps"))
    _inversions(part, _ask(store, "clock_inversions"))
    _coverage(part, coverage)
    _dead_letters(part, _ask(store, "dead_letters_by_reason"))
    _freshness(part, _ask(store, "freshness", now_ns=now_ns))
    if not coverage:
        part.find("info", "store", "no heartbeat was ever stored", "Start agents and `fleetscope process`, or try: "
                  "fleetscope demo.")
    return part


def _ask(store: Store, name: str, **given: Parameter) -> list[dict[str, Any]]:
    from fleetscope.store.library import find_query

    query = find_query(name)
    rows: list[dict[str, Any]] = store.query(query.sql, {**query.parameters({}), **given}).to_pylist()
    return rows


def _schema(part: Part, store: Store) -> bool:
    """Whether the schema is exactly this program's."""
    from fleetscope.store.migrate import migrate

    try:
        found = migrate(store, dry_run=True)
    except UsageError as error:  # newer than this program, or edited
        part.facts["schema"] = "unusable"
        part.find("critical", "schema", str(error), "Run the fleetscope that made this database, or a newer one; it "
                  "is not touched by this one.")
        return False
    part.facts["schema"] = found.already[-1].removesuffix(".sql") if found.already else None
    part.facts["pending_migrations"] = list(found.applied)
    if found.applied:
        part.find("critical", "schema", f"{len(found.applied)} migrations behind, first {found.applied[0]}",
                  "Run: fleetscope migrate, with the same --data-dir or --clickhouse.")
    return not found.applied


def _clocks(part: Part, rows: list[dict[str, Any]], heard: set[str]) -> None:
    for row in rows:
        row["steps"] = row["epochs"] - 1
        elsewhere = "" if row["target_host"] == row["host"] else f"{row['target_host']}/"
        row["to"] = f"{elsewhere}{row['target_clock']}"
        row["standing"] = "ended" if row["closed"] else row["last_state"]
    part.tables.append(Table("clocks", "Clocks: what each is mapped to, and the bound on it", (
        Column("host", "host"), Column("clock", "clock"), Column("to", "mapped to"),
        Column("standing", "state"), Column("err_p50_ns", "± p50", "ns"), Column("err_p99_ns", "± p99", "ns"),
        Column("err_max_ns", "± max", "ns"), Column("utc_err_p50_ns", "UTC ± p50", "ns"),
        Column("steps", "steps", "count"), Column("settled_share", "settled", "share"),
        Column("gap_share", "in gap", "share")), rows))
    for row in rows:
        _judge_clock(part, row)
    placed = {str(row["host"]) for row in rows if row["target_clock"] == "fleet"}
    for host in sorted(heard - placed):
        part.find("critical", f"host {host}", "has no map to fleet time: its rows wait or become dead letters",
                  "See that its agent runs, and that `fleetscope process fleet_clocks` does.")


def _judge_clock(part: Part, row: dict[str, Any]) -> None:
    name = f"clock {row['host']}/{row['clock']}"
    gap_now = row["last_state"] == "gap" and not row["closed"]
    if not gap_now and (row["gap_share"] or 0.0) > MAX_GAP_SHARE:
        part.find("warning", name, f"had no bound for {row['gap_share']:.1%} of its time",
                  "Look for resets of the device and pauses of its agent: fleetscope query clock_bounds.")
    if not row["closed"] and (row["provisional_share"] or 0.0) > MAX_PROVISIONAL_SHARE:
        part.find("warning", name, f"was decided without later readings for {row['provisional_share']:.0%} of its time",
                  "Readings come too rarely, or are lost: read this clock at least every 4 s.")
    if row["err_p50_ns"] is not None and row["err_p50_ns"] > WIDE_BOUND_NS:
        part.find("warning", name, f"median bound is {duration(row['err_p50_ns'])}: longer than most work on a "
                  "device", "Read this clock over a shorter path or more often; the quickest reading sets the bound.")


def _gaps(part: Part, rows: list[dict[str, Any]]) -> None:
    part.tables.append(Table("clock_gaps", "Clocks without a bound now", (
        Column("host", "host"), Column("clock", "clock"), Column("target_clock", "mapped to"),
        Column("last_bound_time_ns", "bound until", "offset"), Column("last_err_ns", "± then", "ns"),
        Column("gap_ns", "since", "ns")), rows, shown=False))
    for row in rows:
        severity: Severity = "critical" if row["target_clock"] == "fleet" else "warning"
        part.find(severity, f"clock {row['host']}/{row['clock']}", f"has no bound against {row['target_clock']} now, "
                  f"for {duration(row['gap_ns'])} so far", "See that the host's agent still reads this clock; a reset "
                  "or a step heals with two more readings.")


def _steps(part: Part, rows: list[dict[str, Any]]) -> None:
    part.tables.append(Table("clock_steps", "Steps, resets and elections", (
        Column("host", "host"), Column("clock", "clock"), Column("target_clock", "mapped to"),
        Column("time_ns", "when", "offset"), Column("size_ns", "size", "offset"), Column("size_err_ns", "±", "ns"),
        Column("gap_ns", "no bound for", "ns")), rows, shown=len(rows) <= SHOWN_STEPS))
    clocks: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        clocks.setdefault((str(row["host"]), str(row["clock"])), []).append(row)
    for (host, clock), own in clocks.items():
        size = own[-1]["size_ns"]
        last = "" if size is None else f", last by {duration(abs(size))} {'forwards' if size > 0 else 'back'}"
        part.find("info", f"clock {host}/{clock}", f"stepped or was reset {len(own)} times{last}",
                  "If no reset was meant, let the time daemon slew rather than step, and check the device's log.")


def _inversions(part: Part, rows: list[dict[str, Any]]) -> None:
    part.tables.append(Table("clock_inversions", "Events in an order that cannot be, by hour", (
        Column("host", "host"), Column("rule", "rule"), Column("cause_clock", "first clock"),
        Column("effect_clock", "second clock"), Column("hour_start_ns", "hour", "offset"),
        Column("violations", "pairs", "count"), Column("beyond_max_ns", "beyond bounds", "ns"),
        Column("cause", "worst: first"), Column("effect", "worst: second")), rows))
    pairs: dict[tuple[str, str, str], list[dict[str, Any]]] = {}
    for row in rows:
        pairs.setdefault((str(row["host"]), str(row["cause_clock"]), str(row["effect_clock"])), []).append(row)
    for (host, cause, effect), own in pairs.items():
        total, worst = sum(row["violations"] for row in own), max(row["beyond_max_ns"] for row in own)
        part.find("warning", f"clocks {cause} and {effect} of {host}", f"{total:,} pairs of events in an order that "
                  f"cannot be, over {len(own)} hours, the worst {duration(worst)} beyond both bounds",
                  "Their correlation ids are wrong, or a clock left what is assumed of it (docs/clocks.md): see the "
                  "table causality_violations and fleetscope query clock_assumptions.")


def _coverage(part: Part, rows: list[dict[str, Any]]) -> None:
    part.tables.append(Table("coverage", "What arrived of what was produced", (
        Column("host", "host"), Column("contract", "kind"), Column("produced_rows", "produced", "count"),
        Column("received_rows", "received", "count"), Column("lost_rows", "lost", "count"),
        Column("late_rows", "late", "count"), Column("dropped_rows", "dropped", "count"),
        Column("redelivered_rows", "again", "count"), Column("received_share", "share", "share")), rows))
    for row in rows:
        _judge_coverage(part, row)


def _judge_coverage(part: Part, row: dict[str, Any]) -> None:
    name = f"{row['contract']} of {row['host']}"
    made = max(row["produced_rows"] + row["dropped_rows"], 1)
    if row["lost_rows"] > 0:
        severity: Severity = "critical" if row["lost_rows"] > MAX_LOST_SHARE * made else "warning"
        part.find(severity, name, f"{row['lost_rows']:,} of {made:,} rows were published and never received",
                  "Look for topics whose retention is shorter than the lag, and for brokers that lost data.")
    if row["dropped_rows"] > 0:
        part.find("warning", name, f"{row['dropped_rows']:,} of {made:,} rows were dropped at the source",
                  "Give the producer a larger buffer or a faster way to Kafka, or let it trace less.")
    if row["late_rows"] > MAX_LATE_SHARE * made:
        part.find("warning", name, f"{row['late_rows']:,} of {made:,} rows came behind the watermark",
                  "See that the producer sends its batches before the heartbeat that promises them.")
    if row["redelivered_rows"] > 0:
        part.find("info", name, f"{row['redelivered_rows']:,} rows came again, were recognised and dropped",
                  "Nothing; if it goes on, look for a producer that is not acknowledged.")


def _dead_letters(part: Part, rows: list[dict[str, Any]]) -> None:
    part.tables.append(Table("dead_letters", "Dead letters", (
        Column("topic", "topic"), Column("step", "step"), Column("code", "reason"),
        Column("messages", "messages", "count"), Column("claimed_rows", "rows", "count"), Column("example", "first")),
        rows))
    for row in rows:
        part.find("warning", f"dead letters of {row['topic']}", f"{row['messages']:,} messages "
                  f"({row['claimed_rows']:,} rows): {row['code']}", _ADVICE.get(str(row["code"]), _PRODUCER))


def _freshness(part: Part, rows: list[dict[str, Any]]) -> None:
    part.tables.append(Table("freshness", "How recent", (
        Column("host", "host"), Column("closed", "ended"), Column("heard_age_s", "last heard", "age"),
        Column("windows_behind_s", "windows behind that", "age")), rows))
    for row in rows:
        if row["closed"]:
            continue
        silent, behind = row["heard_age_s"], row["windows_behind_s"]
        if silent > SILENT_S:
            part.find("warning", f"host {row['host']}", f"silent for {duration(silent, 's')} without having said that "
                      "it ends", "See that its agent and the workers (align, write-readings) run, and their lag.")
        elif behind is not None and behind > WINDOWS_BEHIND_S:
            part.find("warning", f"host {row['host']}", f"its newest window ends {duration(behind, 's')} before its "
                      "newest heartbeat", "Look at the lag of windows and write-results, and at this host's clocks: "
                      "windows wait for both.")
