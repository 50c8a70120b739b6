"""Runs of the command line in processes of their own, and what they left in the store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fleetscope.settings import StoreSettings
from fleetscope.store.abstract import Store
from fleetscope.store.arrange import TABLES
from fleetscope.store.clickhouse import open_store

START: Final = "2026-11-01T00:00:00Z"
COMMAND: Final = [sys.executable, "-m", "fleetscope.cli.main"]
PLACE: Final = frozenset({"input_offset", "input_partition", "ingested_at", "revision"})
"""Columns that say where and when a row was stored, not what it is."""


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """The one JSON document on stdout."""
        assert self.code == 0, self.err
        found: dict[str, Any] = json.loads(self.out)
        return found


def environment(**more: str) -> dict[str, str]:
    """This process's, without settings of the project, and with ``more``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("FLEETSCOPE_")}
    return {**kept, "COLUMNS": "200", **more}


def fleetscope(*arguments: object, timeout_s: float = 120, **env: str) -> Ran:
    """Run ``fleetscope ARGUMENTS``."""
    done = subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=timeout_s,
                          env=environment(**env), check=False)
    return Ran(done.returncode, done.stdout, done.stderr)


def small_demo(folder: Path, *more: object, scenario: str = "serving", seed: int = 7, seconds: float = 2,
               hosts: int = 2, devices: int = 1) -> Ran:
    """A demo of a few seconds without this host, as a JSON document."""
    return fleetscope("demo", "--no-host", "--seconds", seconds, "--hosts", hosts, "--devices", devices,
                      "--start", START, "--seed", seed, "--scenario", scenario, "--data-dir", folder, "--json", *more)


def opened(folder: Path) -> Store:
    """The embedded store that a demo left in ``folder``."""
    return open_store(StoreSettings(path=folder / "store"), create=False)


def table_rows(store: Store, table: str, leave_out: frozenset[str] = PLACE) -> list[str]:
    """The final rows of a table, each as text, in an order of their own."""
    engine = store.command("SELECT engine FROM system.tables WHERE database = currentDatabase() AND name = "
                           "{table:String}", {"table": table})
    names = store.query("SELECT name FROM system.columns WHERE database = currentDatabase() AND table = {table:String} "
                        "AND default_kind != 'ALIAS' ORDER BY name", {"table": table}).column(0).to_pylist()
    kept = [f"`{name}`" for name in names if name not in leave_out]
    found = store.query(f"SELECT {', '.join(kept)} FROM {table} {'FINAL' if 'Replacing' in engine else ''}")
    return sorted(repr(tuple(row.values())) for row in found.to_pylist())


def every_row(folder: Path, leave_out: dict[str, frozenset[str]] | None = None) -> dict[str, list[str]]:
    """``table_rows`` of every table; ``leave_out``: further columns by table."""
    more = leave_out or {}
    with opened(folder) as store:
        return {table: table_rows(store, table, PLACE | more.get(table, frozenset())) for table in TABLES}


def differences(one: dict[str, list[str]], other: dict[str, list[str]]) -> list[str]:
    """One line a table that differs, with the first row that only one of the two has."""
    lines = []
    for table in one:
        if one[table] != other[table]:
            only = sorted(set(one[table]) ^ set(other[table]))
            lines.append(f"{table}: {len(one[table])} and {len(other[table])} rows, first difference {only[:1]}")
    return lines
