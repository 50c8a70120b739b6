"""What `fleetscope doctor` gathers: parts with facts, tables and findings; and how they are shown."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable

Severity = Literal["info", "warning", "critical"]
SEVERITIES: Final[tuple[Severity, ...]] = ("critical", "warning", "info")
_STYLES: Final[dict[Severity, str]] = {"critical": "bold red", "warning": "yellow", "info": "cyan"}

Form = Literal["text", "count", "us", "share", "age"]
"""How a value is drawn: ``us`` takes ns and shows µs, ``share`` takes 0..1, ``age`` seconds."""


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
                to.print(f"  {name.replace('_', ' ')}: {escape(_plain(value))}")
            for table in part.tables:
                if table.rows and table.shown:
                    to.print(_drawn(table))
        to.print()
        for what, why in self.not_checked.items():
            to.print(f"[dim]not checked:[/dim] {escape(what)}: {escape(why)}")
        for finding in self.findings:
            style = _STYLES[finding.severity]
            to.print(f"[{style}]{finding.severity}[/{style}] {escape(finding.subject)}: {escape(finding.text)}\n"
                     f"  → {escape(finding.advice)}")
        if self.ok:
            to.print("[green]nothing that needs doing[/green]")


def _drawn(table: Table) -> RichTable:
    from rich.table import Table as RichTable

    drawn = RichTable(title=table.title, title_justify="left")
    for column in table.columns:
        drawn.add_column(column.head, justify="left" if column.form == "text" else "right")
    for row in table.rows:
        drawn.add_row(*_cells(table.columns, row))
    return drawn


def _cells(columns: Iterable[Column], row: dict[str, Any]) -> list[str]:
    from rich.markup import escape

    return [escape(_shown(row[column.key], column.form)) for column in columns]


def _shown(value: Any, form: Form) -> str:
    if value is None:
        return "–"
    if form == "count":
        return f"{value:,}"
    if form == "us":
        return f"{value / 1000:,.2f}"
    if form == "share":
        return f"{value:.2%}"
    if form == "age":
        return _age(float(value))
    return _plain(value)


def _age(seconds: float) -> str:
    if abs(seconds) < 120:
        return f"{seconds:.1f} s"
    if abs(seconds) < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.1f} h" if abs(seconds) < 172_800 else f"{seconds / 86_400:,.0f} d"


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
