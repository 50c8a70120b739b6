"""Numbered, forward-only changes of the schema, and how long rows are kept.

A migration is a file ``sql/migrations/NNNN_name.sql``. Its statements can be run again (IF NOT EXISTS and the like),
because one that fails half-way is run again from its first statement; it counts as applied once its row, with the
file's checksum, stands in ``schema_migrations``. An applied file never changes again.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

import pyarrow as pa

from fleetscope.errors import RetryError, StoreError, UsageError
from fleetscope.store.abstract import Store

DEFAULT_TTL_DAYS: Final[dict[str, int]] = {
    "spans": 7, "counters": 30, "profiles": 7, "inventory": 0, "marks": 0, "heartbeats": 7, "segments": 90,
    "windows": 90, "verdicts": 365, "incidents": 365, "causality_violations": 90, "job_windows": 365,
    "collective_waits": 90, "operators": 90,
    "coverage": 90, "dead_letters": 90, "telemetry": 30,
}
"""Days that rows stay, counted from when they were stored (imported history is not old on arrival); 0 is for ever."""

_FILE_NAME: Final = re.compile(r"^(\d{4})_([a-z0-9_]+)\.sql$")
_TOKEN: Final = re.compile(
    r"--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`\\]|\\.)*`|[^-/'\"`;]+|.", re.DOTALL)
_OPENERS: Final = ("'", '"', "`")
_LEDGER: Final = """
CREATE TABLE IF NOT EXISTS schema_migrations
(
    number     UInt32 COMMENT 'number of the file',
    name       String COMMENT 'rest of its name',
    sha256     String COMMENT 'checksum of its text',
    applied_at DateTime64(3, 'UTC') DEFAULT now64(3)
)
ENGINE = ReplacingMergeTree
ORDER BY number
SETTINGS non_replicated_deduplication_window = 100
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """One file."""

    number: int
    name: str
    sql: str

    @property
    def file_name(self) -> str:
        """Its name in the folder."""
        return f"{self.number:04d}_{self.name}.sql"

    @property
    def sha256(self) -> str:
        """Checksum of the text; line ends do not count."""
        return hashlib.sha256(self.sql.replace("\r\n", "\n").encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Migrated:
    """What was done, or with ``dry_run`` would be done."""

    applied: tuple[str, ...]
    already: tuple[str, ...]
    retention: Mapping[str, int]


def load_migrations(folder: Traversable | None = None) -> list[Migration]:
    """The migrations in their order; UsageError for a wrong name, a number twice or a missing number."""
    folder = folder or resources.files("sql").joinpath("migrations")
    found: list[Migration] = []
    for entry in sorted(folder.iterdir(), key=lambda e: e.name):
        if not entry.name.endswith(".sql"):
            continue
        match = _FILE_NAME.match(entry.name)
        if match is None:
            raise UsageError(f"migration {entry.name}: the name must be NNNN_name.sql")
        found.append(Migration(int(match[1]), match[2], entry.read_text(encoding="utf-8")))
    for expected, migration in enumerate(found, start=1):
        if migration.number < expected:
            raise UsageError(f"migration {migration.file_name}: number {migration.number} is there twice")
        if migration.number > expected:
            raise UsageError(f"migration {expected:04d} is missing before {migration.file_name}")
    return found


def split_statements(sql: str) -> list[str]:
    """Statements without their semicolons. Semicolons in quotes and comments do not end one; comments are dropped.

    Raises ValueError for a quote or a comment that is not closed.
    """
    statements: list[str] = []
    current: list[str] = []
    for match in _TOKEN.finditer(sql):
        token = match[0]
        if token in _OPENERS:
            raise ValueError(f"a quote in line {sql.count(chr(10), 0, match.start()) + 1} is not closed")
        if token == "/" and sql.startswith("/*", match.start()):
            raise ValueError(f"a comment in line {sql.count(chr(10), 0, match.start()) + 1} is not closed")
        if token == ";":
            statements.append("".join(current).strip())
            current = []
        else:
            current.append(" " if token.startswith(("--", "/*")) else token)
    statements.append("".join(current).strip())
    return [statement for statement in statements if statement]


def migrate(store: Store, ttl_days: Mapping[str, int] | None = None, *, dry_run: bool = False,
            migrations: Sequence[Migration] | None = None) -> Migrated:
    """Bring the schema to this code's version, then set the retention of every table; safe to repeat.

    Raises UsageError where the database is newer than the code, an applied file was edited, or ``ttl_days`` names an
    unknown table; StoreError or RetryError, naming file and statement, where one fails.
    """
    wanted = {**DEFAULT_TTL_DAYS, **(ttl_days or {})}
    _check_retention(wanted)
    known = load_migrations() if migrations is None else list(migrations)
    applied = _applied(store)
    _check(known, applied)
    pending = [m for m in known if m.number not in applied]
    if not dry_run:
        store.command(_LEDGER)
        for migration in pending:
            _apply(store, migration)
        retention = _set_retention(store, wanted)
    else:
        retention = {table: days for table, days in wanted.items() if _has_ttl(_definition(store, table)) != days}
    return Migrated(tuple(m.file_name for m in pending), tuple(m.file_name for m in known if m.number in applied),
                    retention)


def require_schema(store: Store) -> None:
    """UsageError where the schema is not exactly this code's: too old, too new or edited."""
    known = load_migrations()
    applied = _applied(store)
    _check(known, applied)
    missing = [m.file_name for m in known if m.number not in applied]
    if missing:
        raise UsageError(f"database {store.database} lacks migration {missing[0]}; run: fleetscope migrate")


def _applied(store: Store) -> dict[int, tuple[str, str]]:
    if not _definition(store, "schema_migrations"):
        return {}
    rows = store.query("SELECT number, name, sha256 FROM schema_migrations FINAL ORDER BY number").to_pylist()
    return {int(row["number"]): (str(row["name"]), str(row["sha256"])) for row in rows}


def _check(known: Sequence[Migration], applied: Mapping[int, tuple[str, str]]) -> None:
    by_number = {m.number: m for m in known}
    for number, (name, sha256) in sorted(applied.items()):
        migration = by_number.get(number)
        if migration is None:
            raise UsageError(f"the database is at migration {max(applied):04d}, this program knows up to "
                             f"{max(by_number, default=0):04d}: use a newer fleetscope")
        if migration.sha256 != sha256:
            raise UsageError(f"migration {migration.file_name} was edited after it was applied as "
                             f"{number:04d}_{name}.sql: put the file back and add a new migration")
    for number in range(1, max(applied, default=0)):
        if number not in applied:
            raise UsageError(f"the database has migration {max(applied):04d} but not {number:04d}")


def _apply(store: Store, migration: Migration) -> None:
    try:
        statements = split_statements(migration.sql)
    except ValueError as error:
        raise UsageError(f"migration {migration.file_name}: {error}") from error
    for position, statement in enumerate(statements, start=1):
        where = f"migration {migration.file_name}, statement {position}"
        try:
            store.command(statement)
        except StoreError as error:
            raise StoreError(f"{where}: {error}", code=error.code, name=error.name) from error
        except RetryError as error:
            raise RetryError(f"{where}: {error}") from error
    row = pa.table({"number": pa.array([migration.number], pa.uint32()), "name": [migration.name],
                    "sha256": [migration.sha256]})
    store.insert("schema_migrations", row, token=f"{migration.number}-{migration.sha256}")


def _check_retention(wanted: Mapping[str, int]) -> None:
    for table, days in wanted.items():
        if table not in DEFAULT_TTL_DAYS:
            raise UsageError(f"retention for unknown table {table}; tables: {', '.join(DEFAULT_TTL_DAYS)}")
        if not 0 <= days <= 36_500:
            raise UsageError(f"retention of {table}: {days} days, must be 0 (for ever) to 36500")


def _set_retention(store: Store, wanted: Mapping[str, int]) -> dict[str, int]:
    changed: dict[str, int] = {}
    for table, days in wanted.items():
        definition = _definition(store, table)
        if not definition or _has_ttl(definition) == days:
            continue
        change = f"MODIFY TTL toDateTime(ingested_at) + toIntervalDay({days})" if days else "REMOVE TTL"
        store.command(f"ALTER TABLE {table} {change}")
        changed[table] = days
    return changed


def _definition(store: Store, table: str) -> str:
    found = store.query("SELECT engine_full FROM system.tables WHERE database = {database:String} AND name = "
                        "{table:String}", {"database": store.database, "table": table})
    return str(found.column(0)[0].as_py()) if found.num_rows else ""


def _has_ttl(definition: str) -> int:
    found = re.search(r"\bTTL\b.*?toIntervalDay\((\d+)\)", definition)
    return int(found[1]) if found else 0
