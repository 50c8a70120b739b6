"""This machine: Python, packages, what the agent could read, and its clocks."""

from __future__ import annotations

import importlib.metadata
import platform
import re
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Final

from fleetscope.cli.doctor_report import Column, Part, Table
from fleetscope.errors import UsageError

_REQUIREMENT: Final = re.compile(
    r"^([A-Za-z0-9._-]+)(?:\[[^\]]*\])?\s*([^;]*?)\s*(?:;.*extra\s*==\s*['\"](\w+)['\"])?$")
_CLAUSE: Final = re.compile(r"^(>=|<=|==|!=|<|>)\s*([0-9][0-9.]*)")
_SLOW_SOURCES: Final = frozenset({"hpet", "acpi_pm", "pit", "jiffies", "refined-jiffies"})
USED_EXTRAS: Final = frozenset({"embedded"})
"""Extras that a command imports. Of others a missing package is nothing to tell."""
MIN_FREE_SHARE: Final = 0.05
Discipline = tuple[bool, int]
"""Whether the clock is disciplined, and its largest error in µs by the kernel's own estimate."""


def look_at_python() -> Part:
    """Python and the packages that fleetscope's metadata ask for, apart from the development tools."""
    part = Part("python", "Python and packages", {"python": platform.python_version(), "system": platform.platform()})
    try:
        distribution = importlib.metadata.distribution("fleetscope")
    except importlib.metadata.PackageNotFoundError:
        part.find("warning", "packages", "fleetscope is not installed, only importable",
                  "Install it into an environment of its own: make setup.")
        return part
    wanted = str(distribution.metadata.json.get("requires_python", ""))
    if not fits(platform.python_version(), wanted):
        part.find("warning", "python", f"Python {platform.python_version()} is outside {wanted}",
                  f"Use a Python {wanted}: make setup PYTHON=python3.13 VENV=.venv313.")
    rows = packages(distribution.requires or ())
    part.tables.append(Table("packages", "Packages", (
        Column("name", "package"), Column("version", "version"), Column("required", "required"),
        Column("extra", "only for"), Column("fits", "fits")), rows,
        shown=any(not row["fits"] and row["version"] is not None for row in rows
                  if row["extra"] is None or row["extra"] in USED_EXTRAS)))
    part.facts["packages_in_order"] = sum(row["fits"] for row in rows)
    used = [row for row in rows if row["extra"] is None or row["extra"] in USED_EXTRAS]
    for row in used:
        _judge(part, row)
    for extra in sorted({row["extra"] for row in used if row["extra"] and row["version"] is None}):
        names = [row["name"] for row in used if row["extra"] == extra and row["version"] is None]
        part.find("info", f"extra '{extra}'", f"not installed: {', '.join(names)}",
                  f"Where you want it, run: pip install 'fleetscope[{extra}]'.")
    return part


def packages(requirements: Iterable[str]) -> list[dict[str, Any]]:
    """A row a requirement: ``name``, ``version`` (None: not installed), ``required``, ``extra`` and ``fits``."""
    rows = []
    for requirement in requirements:
        match = _REQUIREMENT.match(requirement)
        if match is None or match[3] == "dev" or match[1] == "fleetscope":
            continue
        try:
            version: str | None = importlib.metadata.version(match[1])
        except importlib.metadata.PackageNotFoundError:
            version = None
        rows.append({"name": match[1], "version": version, "required": match[2], "extra": match[3],
                     "fits": version is not None and fits(version, match[2])})
    return sorted(rows, key=lambda row: (row["extra"] or "", row["name"]))


def fits(version: str, wanted: str) -> bool:
    """Whether the release numbers of ``version`` fulfil every clause of ``wanted``, such as '>=3.0.12,<4'."""
    have = _numbers(version)
    for clause in wanted.split(","):
        match = _CLAUSE.match(clause.strip())
        if match is None:
            continue
        than = _numbers(match[2])
        width = max(len(have), len(than))
        a, b = have + (0,) * (width - len(have)), than + (0,) * (width - len(than))
        if not {">=": a >= b, "<=": a <= b, "==": a == b, "!=": a != b, "<": a < b, ">": a > b}[match[1]]:
            return False
    return True


def _numbers(version: str) -> tuple[int, ...]:
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(map(int, match[0].split("."))) if match else ()


def _judge(part: Part, row: dict[str, Any]) -> None:
    name, extra = row["name"], row["extra"]
    install = f"pip install 'fleetscope{f'[{extra}]' if extra else ''}'"
    if row["version"] is None and extra is None:
        part.find("critical", f"package {name}", "is not installed", f"Install it: {install}.")
    elif row["version"] is not None and not row["fits"]:
        part.find("warning", f"package {name}", f"version {row['version']} is outside {row['required']}",
                  f"Install one that was tested: {install}.")


def look_at_host(folder: Path, *, root: Path = Path("/"), discipline: Callable[[], Discipline | None] | None = None
                 ) -> Part:
    """What the agent could read below ``root``, the clocks, and the free space where ``folder`` is or would be."""
    host = platform.node() or "localhost"
    part = Part("host", f"This host, {host}", {"host": host})
    _readings(part, host, root)
    _clock(part, root, (discipline or ask_kernel)())
    _space(part, folder)
    return part


def _readings(part: Part, host: str, root: Path) -> None:
    from ingest.clocks import LinuxClocks
    from ingest.document import read_once
    from ingest.hostroot import HostRoot

    try:
        with HostRoot(root) as files:
            document = read_once(host, files, LinuxClocks())
    except (UsageError, AttributeError, OSError) as error:  # AttributeError: a system without CLOCK_MONOTONIC_RAW
        part.facts["readings"] = None
        part.find("warning", "this host", f"cannot be read: {error}", "Run the agent on Linux, with /proc mounted.")
        return
    part.facts["readings"] = sum(r["status"] == "ok" for r in document["readings"])
    part.facts["pcie_functions"] = sum(c["kind"] == "link" for c in document["inventory"])
    part.tables.append(Table("clocks", "What the clocks read when monotonic_raw was 0", (
        Column("clock", "clock"), Column("offset_ns", "reading", "offset"), Column("bound_ns", "±", "ns"),
        Column("samples", "comparisons", "count")), document["clocks"]))
    part.tables.append(Table("unreadable", "Not readable", (
        Column("collector", "collector"), Column("reason", "why"), Column("count", "files", "count"),
        Column("example", "first")), document["unreadable"]))
    for fault in document["unreadable"]:
        part.find("info", f"collector {fault['collector']}", f"{fault['count']} files: {fault['reason']}, first "
                  f"{fault['example']}", "Give the agent the right to read them if you need these counters.")


def _clock(part: Part, root: Path, disciplined: Discipline | None) -> None:
    try:
        source = (root / "sys/devices/system/clocksource/clocksource0/current_clocksource").read_text().strip()
    except OSError:
        source = None
    part.facts["clock_source"] = source
    if source in _SLOW_SOURCES:
        part.find("warning", "clock source", f"{source} takes microseconds a reading and widens every bound",
                  "Boot with a stable TSC (clocksource=tsc), or find out why the kernel gave it up (dmesg).")
    part.facts["utc_disciplined"] = None if disciplined is None else disciplined[0]
    # Of a clock that nobody disciplines the kernel only ever gives its ceiling, 16 s: no bound.
    part.facts["utc_max_error_us"] = disciplined[1] if disciplined is not None and disciplined[0] else None
    if disciplined is not None and not disciplined[0]:
        part.find("info", "UTC of this host", "no daemon disciplines it: times are good relative to each other, "
                  "but may be off UTC by any amount", "Run chrony or systemd-timesyncd where UTC matters.")


def ask_kernel() -> Discipline | None:
    """By adjtimex(2), changing nothing; None where there is no such call."""
    from ingest.timex import read_timex

    timex = read_timex()
    return None if timex is None else (timex.disciplined, timex.max_error_us)


def _space(part: Part, folder: Path) -> None:
    there = next(p for p in (folder.absolute(), *folder.absolute().parents) if p.exists())
    usage = shutil.disk_usage(there)
    part.facts["disk_free_gb"] = round(usage.free / 1e9, 1)
    if usage.free < MIN_FREE_SHARE * usage.total:
        part.find("warning", "disk", f"{usage.free / usage.total:.1%} free where {folder} is",
                  "Free space, or shorten the retention: FLEETSCOPE_STORE__TTL_DAYS='{\"spans\": 2}' and migrate.")
