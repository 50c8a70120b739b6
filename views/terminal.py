"""The report on a terminal. Draws what the results say; computes nothing but shares of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from views.figures import MISSING, duration, figure, moment, percentage
from views.states import bar, legend, words

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

Row = dict[str, Any]

NOT_CAUSES: Final = frozenset({"no_demand", "unresolved", "unknown"})
TOP: Final = 5
"""Rows of a section that people see; documents have all."""
MIN_EXCESS: Final = 0.05
"""A host that exceeds the others of its job by less does not stand out."""
_SEVERITY: Final = {"critical": "bold red", "warning": "yellow", "info": "cyan"}


@dataclass(frozen=True, slots=True)
class Report:
    """What a report shows: rows of the library's queries ``report_*`` and the like, by section, and its scope."""

    overview: Row
    states: list[Row]
    verdicts: list[Row]
    devices: list[Row]
    hosts: list[Row]
    gains: list[Row]
    incidents: list[Row]
    more: dict[str, list[Row]] = field(default_factory=dict)
    """Further sections by the name of their query."""
    job: str = ""
    host: str = ""

    def document(self) -> dict[str, Any]:
        """For `--json`."""
        return {"job": self.job or None, "host": self.host or None, "overview": self.overview, "states": self.states,
                "verdicts": self.verdicts, "devices": self.devices, "hosts": self.hosts, "gains": self.gains,
                "incidents": self.incidents, **self.more}


def show(to: Console, report: Report) -> None:
    """All sections, each on at most half a screen."""
    _headline(to, report)
    if not report.overview["windows"]:
        return
    _time(to, report)
    _limits(to, report)
    _gains(to, report)
    if not report.job:
        _hosts(to, report)
    _incidents(to, report)


def _headline(to: Console, report: Report) -> None:
    from rich.markup import escape

    seen = report.overview
    scope = " · ".join(f"{kind} {escape(name)}" for kind, name in (("job", report.job), ("host", report.host)) if name)
    to.print(f"\n[bold]fleetscope report[/bold]{' · ' + scope if scope else ''}")
    if not seen["windows"]:
        to.print("[yellow]no window in this range: see `fleetscope query freshness`, or take a longer --since[/yellow]")
        return
    begin, end = int(seen["begin_ns"]), int(seen["end_ns"])
    to.print(f"{moment(begin, 10**9)} – {moment(end, 10**9)} ({duration(end - begin)}): {_count(seen, 'job')}, "
             f"{_count(seen, 'device')} on {_count(seen, 'host')}, coverage {figure(seen['coverage'], '0..1')}, "
             f"worst window {figure(seen['coverage_min'], '0..1')}")


def _count(seen: Row, what: str) -> str:
    count = int(seen[f"{what}s"])
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _heading(to: Console, text: str) -> None:
    to.print(f"\n[bold]{text}[/bold]")


def _grid() -> Table:
    from rich.table import Table

    return Table.grid(padding=(0, 2))


def _time(to: Console, report: Report) -> None:
    """A bar a job, or a device where one job or host is asked for."""
    single = bool(report.job or report.host)
    rows = report.devices if single else [row for row in report.states if row["job"] is not None]
    of: dict[str, dict[str, int]] = {}
    for row in rows:
        name = f"{row['host']}/{row['device']}" if single else row["job"]
        of.setdefault(name, {})[row["state_name"]] = int(row["time_ns"])
    worst = sorted(of, key=lambda name: -_lost(of[name]))[:TOP * 2]
    _heading(to, "Where the time goes: shares of device time, together 100 %")
    lines = _grid()
    for name in worst:
        largest = sorted(of[name].items(), key=lambda item: -item[1])[:3]
        total = sum(of[name].values())
        lines.add_row(_plain(name), bar(of[name]), _plain(
            ", ".join(f"{words(state)} {percentage(time / total)}" for state, time in largest)))
    to.print(lines)
    if len(of) > len(worst):
        to.print(f"[dim]and {len(of) - len(worst)} more that lose less time[/dim]")
    to.print(legend(list({state for name in worst for state in of[name]})))


def _lost(states: dict[str, int]) -> int:
    return sum(time for state, time in states.items() if state not in NOT_CAUSES)


def _limits(to: Console, report: Report) -> None:
    """For each job the most frequent verdict in a sentence, and those of at least a tenth of its windows."""
    _heading(to, "What limits it" if report.job else "What limits each job")
    lines, told = _grid(), set()
    for row in _jobs_first(report.verdicts):
        if row["windows"] < 0.1 * row["of_windows"]:
            continue
        text = _plain(words(row["cause"]), style="bold")
        text.append(f" in {row['windows']:,} of {row['of_windows']:,} device windows", "none")
        if row["cause"] not in NOT_CAUSES | {"mixed", "insufficient_data"}:
            text.append(f", {percentage(row['share'])} of their time (limits {percentage(row['share_low'])} to "
                        f"{percentage(row['share_high'])}; confidence {row['confidence']:.2f})", "none")
        if row["cause"] not in told:
            told.add(row["cause"])
            text.append(f". {row['advice']}", "none")
        lines.add_row(_plain(row["job"]), text)
    to.print(lines)


def _jobs_first(rows: Iterable[Row]) -> list[Row]:
    """Those of jobs; all where none has a job."""
    found = list(rows)
    return [row for row in found if row["job"] is not None] or found


def _gains(to: Console, report: Report) -> None:
    _heading(to, "What you gain at most: removing the losses, or a faster resource at a limit")
    lines = _grid()
    shown = [row for row in _jobs_first(report.gains) if row["share"] >= 0.005]
    best = sorted(shown, key=lambda row: -row["device_time_ns"])[:TOP]
    for row in best:
        faster = row["at_most_faster"]
        lines.add_row(_plain(row["job"]), _plain(words(row["cause"]), style="bold"), _plain(row["kind"]),
                      _plain(f"{duration(row['device_time_ns'])} of device time, {percentage(row['share'])}"),
                      _plain("" if faster is None else f"at most {faster:.2f}× as fast"))
    to.print(lines if best else "  nothing takes 0.5 % of the time")
    for row in report.more.get("what_if_gains", [])[:TOP]:
        to.print(_plain(f"  predicted by replay: {row}"))


def _hosts(to: Console, report: Report) -> None:
    _heading(to, "Which host is sick")
    lines = _grid()
    sick = [row for row in report.hosts if _symptoms(row)]
    for row in sick[:TOP]:
        lines.add_row(_plain(row["host"]), _plain("; ".join(_symptoms(row))))
    to.print(lines if sick else f"  none of {len(report.hosts):,} stands out")
    if len(sick) > TOP:
        to.print(f"[dim]and {len(sick) - TOP} more: fleetscope query report_hosts[/dim]")


def _symptoms(row: Row) -> list[str]:
    found = []
    if row["critical"] or row["warnings"]:
        found.append(f"{row['critical']} critical incidents and {row['warnings']} warnings ({row['kinds']})")
    if row["excess"] is not None and row["excess"] >= MIN_EXCESS:
        found.append(f"{percentage(row['excess'])} more {words(row['worst_state'])} than its peers")
    if row["coverage_min"] is not None and row["coverage_min"] < 0.95:
        found.append(f"coverage down to {percentage(row['coverage_min'])}")
    return found


def _incidents(to: Console, report: Report) -> None:
    rows = [row for row in report.incidents if row["severity"] != "info"]
    _heading(to, f"Incidents: {len(rows):,}, {sum(row['end_ns'] is None for row in rows):,} open")
    lines = _grid()
    for row in rows[:TOP]:
        where = row["host"] if row["device"] is None else f"{row['host']}/{row['device']}"
        length = "open" if row["length_ns"] is None else duration(row["length_ns"])
        lines.add_row(_plain(row["severity"], style=_SEVERITY.get(row["severity"], "")), _plain(words(row["kind"])),
                      _plain(where), _plain(moment(row["start_ns"], 10**9)), _plain(length))
    if rows:
        to.print(lines)
    if len(rows) > TOP:
        to.print(f"[dim]and {len(rows) - TOP} more: fleetscope query report_incidents[/dim]")


def _plain(text: str | None, style: str = "") -> Text:
    from rich.text import Text

    return Text(MISSING if text is None else text, style=style)


__all__: Sequence[str] = ("Report", "Row", "show")
