"""What `fleetscope doctor` gathers: parts with facts, tables and findings; and how they are shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from rich.console import Console

Severity = Literal["info", "warning", "critical"]
SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "warning", "info")
_STYLES: Final[dict[Severity, str]] = {"critical": "bold red", "warning": "yellow", "info": "cyan"}

Form = Literal["text", "count", "ns", "share", "age", "offset"]
"""What a value is: ``ns`` a duration, ``share`` 0..1, ``age`` seconds, ``offset`` ns between clocks, that of a clock
which counts from 1970 a time."""
_UNITS: Final[dict[Form, str]] = {"text": "", "count": "", "ns": "ns", "share": "0..1", "age": "s"}
_LABELS: Final = {
    "python": ("Python", ""), "packages_in_order": ("packages that fit", ""), "readings": ("readings possible", ""),
    "pcie_functions": ("PCIe functions", ""), "utc_disciplined": ("UTC kept by a daemon", ""),
    "utc_max_error_us": ("UTC error at most", "us"), "disk_free_gb": ("free disk", "GB"),
    "clickhouse": ("ClickHouse", ""), "pending_migrations": ("migrations to do", ""), "cluster_id": ("cluster", ""),
    "version": ("protocol", ""), "topics_present": ("topics there", ""),
}
"""Key of a fact in the document → words for people, unit of the value."""
_LONG_AGO_NS: Final = 10 * 365 * 86_400 * 10**9
"""No clock that counts from a start of this host is off another by more."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to know, and one sentence about what to do."""

    severity: Severity
    subject: str
    text: str
    advice: str


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: key of the row, head for people, form."""

    key: str
    head: str
    form: Form = "text"


@dataclass(frozen=True, slots=True)
class Table:
    """Rows as the document has them, and the columns that people see; ``shown`` false: only the document has it."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: list[dict[str, Any]]
    shown: bool = True


@dataclass(slots=True)
class Part:
    """One thing that was looked at."""

    name: str
    title: str
    facts: dict[str, Any] = field(default_factory=dict)
    tables: list[Table] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)

    def find(self, severity: Severity, subject: str, text: str, advice: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(severity, subject, text, advice))

    def document(self) -> dict[str, Any]:
        """Facts and tables; findings are gathered over all parts."""
        return {**self.facts, **{table.name: table.rows for table in self.tables}}


@dataclass(slots=True)
class Report:
    """All parts, and what was not looked at."""

    version: str
    parts: list[Part] = field(default_factory=list)
    not_checked: dict[str, str] = field(default_factory=dict)

    @property
    def findings(self) -> list[Finding]:
        """Worst first, otherwise in the order they were found."""
        every = [finding for part in self.parts for finding in part.findings]
        return sorted(every, key=lambda f: SEVERITIES.index(f.severity))

    @property
    def ok(self) -> bool:
        """True without a warning and without anything critical."""
        return all(finding.severity == "info" for finding in self.findings)

    def document(self) -> dict[str, Any]:
        """The one JSON document."""
        return {"fleetscope": self.version, "ok": self.ok, "findings": [asdict(f) for f in self.findings],
                **{part.name: part.document() for part in self.parts}, "not_checked": self.not_checked}

    def show(self, to: Console) -> None:
        """For people: what was seen, then what to do."""
        from rich.markup import escape

        for part in self.parts:
            to.print(f"\n[bold]{escape(part.title)}[/bold]")
            for name, value in part.facts.items():
                to.print(f"  {escape(_fact(name, value))}")
            for table in part.tables:
                if table.rows and table.shown:
                    _draw(to, table)
        to.print()
        for what, why in self.not_checked.items():
            to.print(f"[dim]not checked:[/dim] {escape(what)}: {escape(why)}")
        for finding in self.findings:
            style = _STYLES[finding.severity]
            to.print(f"[{style}]{finding.severity}[/{style}] {escape(finding.subject)}: {escape(finding.text)}\n"
                     f"  → {escape(finding.advice)}")
        if self.ok:
            to.print("[green]nothing that needs doing[/green]")


def _draw(to: Console, table: Table) -> None:
    from views.grid import Head, show

    to.print()
    show(to, [Head(column.head, column.form != "text") for column in table.columns],
         [[_shown(row[column.key], column.form) for column in table.columns] for row in table.rows], title=table.title)


def _fact(name: str, value: Any) -> str:
    from views.figures import figure

    words, unit = _LABELS.get(name, (name.replace("_", " "), ""))
    return f"{words}: {figure(value, unit) if unit else _plain(value)}"


def _shown(value: Any, form: Form) -> str:
    from views.figures import figure

    if form == "text" or value is None:
        return _plain(value)
    if form == "offset":
        return figure(value, "ns since 1970" if abs(value) > _LONG_AGO_NS else "ns")
    return figure(value, _UNITS[form])


def _plain(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(map(_plain, value)) or "–"
    if isinstance(value, dict):
        return ", ".join(f"{k} {_plain(v)}" for k, v in value.items()) or "–"
    return "–" if value is None else str(value)
