from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetscope.contracts.derived import ALIGNED, DERIVED
from fleetscope.errors import StoreError, UsageError
from fleetscope.store.arrange import table_of
from fleetscope.store.clickhouse import ClickHouseStore
from fleetscope.store.migrate import (
    DEFAULT_TTL_DAYS,
    Migration,
    load_migrations,
    migrate,
    require_schema,
    split_statements,
)

FIRST = Migration(1, "first", "CREATE TABLE IF NOT EXISTS a (n Int64) ENGINE = MergeTree ORDER BY n;")
SECOND = Migration(2, "second", "ALTER TABLE a ADD COLUMN IF NOT EXISTS m Int64; SELECT 1;")


@pytest.mark.parametrize(("sql", "statements"), [
    ("SELECT 1; SELECT 2", ["SELECT 1", "SELECT 2"]),
    ("SELECT ';'; SELECT \";\"; SELECT `;`", ["SELECT ';'", 'SELECT ";"', "SELECT `;`"]),
    ("SELECT 'it''s; \\'; x'; SELECT 2", ["SELECT 'it''s; \\'; x'", "SELECT 2"]),
    ("SELECT 1 -- one; not two\n+ 1; /* ; ' */ SELECT 2", ["SELECT 1  \n+ 1", "SELECT 2"]),
    ("-- only a comment's text;\n;;", []),
    ("SELECT 4 - 2 / 1, '--', '/*'", ["SELECT 4 - 2 / 1, '--', '/*'"]),
])
def test_statements_end_at_semicolons_outside_quotes_and_comments(sql: str, statements: list[str]) -> None:
    assert split_statements(sql) == statements


@pytest.mark.parametrize(("sql", "message"), [
    ("SELECT 1;\nSELECT 'x; SELECT 2", "a quote in line 2"), ("SELECT 1 /* x; SELECT 2", "a comment in line 1"),
])
def test_what_is_not_closed_is_refused_with_its_line(sql: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        split_statements(sql)


@given(st.lists(st.text(max_size=20), min_size=1, max_size=5))
def test_any_quoted_text_stays_within_its_statement(texts: list[str]) -> None:
    quoted = ["SELECT '" + t.replace("\\", "\\\\").replace("'", "\\'") + "'" for t in texts]
    assert split_statements(";".join(quoted)) == quoted


def test_own_files_are_numbered_without_gaps_and_can_be_repeated() -> None:
    migrations = load_migrations()
    assert [m.number for m in migrations] == list(range(1, len(migrations) + 1))
    for migration in migrations:
        for statement in split_statements(migration.sql):
            assert "IF NOT EXISTS" in statement or "IF EXISTS" in statement or statement.startswith("ALTER TABLE")


@pytest.mark.parametrize(("names", "message"), [
    (["0001_a.sql", "0003_c.sql"], "0002 is missing before 0003_c.sql"), (["0002_b.sql"], "0001 is missing"),
    (["0001_a.sql", "0001_b.sql"], "number 1 is there twice"), (["1_a.sql"], "NNNN_name.sql"),
])
def test_a_wrong_folder_is_refused(tmp_path: Path, names: list[str], message: str) -> None:
    for name in names:
        (tmp_path / name).write_text("SELECT 1")
    with pytest.raises(UsageError, match=message):
        load_migrations(tmp_path)


def test_line_ends_do_not_change_the_checksum() -> None:
    assert Migration(1, "a", "SELECT 1\r\n").sha256 == Migration(1, "a", "SELECT 1\n").sha256


def test_migrating_twice_applies_once(store: ClickHouseStore) -> None:
    first = migrate(store)
    second = migrate(store)
    assert first.applied == tuple(m.file_name for m in load_migrations())
    assert second.applied == ()
    assert second.already == first.applied
    assert second.retention == {}
    require_schema(store)


@pytest.mark.parametrize("contract", [*ALIGNED, *DERIVED], ids=lambda c: c.name)
def test_tables_have_the_columns_of_the_contracts(embedded: ClickHouseStore, contract) -> None:
    migrate(embedded)
    rows = embedded.query("SELECT name, type, comment, default_expression FROM system.columns "
                          "WHERE database = currentDatabase() AND table = {table:String}",
                          {"table": table_of(contract.name)}).to_pylist()
    types = {row["name"]: row["type"] for row in rows}
    zeros = {row["name"] for row in rows if row["default_expression"] == "0"}
    for column in contract.columns:
        can_be_null = "Nullable" in types[column.name]
        holds_collections = types[column.name].startswith(("Array", "Map"))
        newer = column.since > 1 and column.name in zeros  # what old rows lack adds nothing to their sums
        assert can_be_null == (column.nullable and not holds_collections and not newer), column.name
    assert {"input_partition", "input_offset", "ingested_at"} <= types.keys()
    assert all(row["comment"] for row in rows)


def test_a_dry_run_changes_nothing_and_says_what_it_would_do(embedded: ClickHouseStore) -> None:
    report = migrate(embedded, dry_run=True)
    assert len(report.applied) == len(load_migrations())
    assert report.retention["spans"] == DEFAULT_TTL_DAYS["spans"]
    assert embedded.query("SELECT count() AS n FROM system.tables WHERE database = currentDatabase()") \
        .to_pylist() == [{"n": 0}]
    with pytest.raises(UsageError, match="lacks migration 0001"):
        require_schema(embedded)


def test_an_edited_file_is_refused(embedded: ClickHouseStore) -> None:
    migrate(embedded, migrations=[FIRST])
    with pytest.raises(UsageError, match=r"0001_first\.sql was edited"):
        migrate(embedded, migrations=[replace(FIRST, sql=FIRST.sql + " "), SECOND])


def test_a_database_newer_than_the_code_is_refused(embedded: ClickHouseStore) -> None:
    migrate(embedded, migrations=[FIRST, SECOND])
    with pytest.raises(UsageError, match="at migration 0002, this program knows up to 0001"):
        migrate(embedded, migrations=[FIRST])


def test_a_database_with_a_gap_is_refused(embedded: ClickHouseStore) -> None:
    migrate(embedded, migrations=[FIRST, SECOND])
    embedded.command("ALTER TABLE schema_migrations DELETE WHERE number = 1 SETTINGS mutations_sync = 2")
    with pytest.raises(UsageError, match="has migration 0002 but not 0001"):
        migrate(embedded, migrations=[FIRST, SECOND])


def test_a_migration_that_failed_half_way_can_be_run_again(embedded: ClickHouseStore) -> None:
    broken = replace(SECOND, sql=SECOND.sql + "ALTER TABLE missing ADD COLUMN x Int64;")
    with pytest.raises(StoreError, match=r"migration 0002_second\.sql, statement 3") as failure:
        migrate(embedded, migrations=[FIRST, broken])
    assert failure.value.code == 60
    report = migrate(embedded, migrations=[FIRST, SECOND])
    assert report.applied == ("0002_second.sql",)
    assert report.already == ("0001_first.sql",)


def test_retention_follows_the_settings_and_zero_keeps_for_ever(embedded: ClickHouseStore) -> None:
    migrate(embedded)
    assert dict(migrate(embedded, {"spans": 3, "windows": 0, "marks": 10}).retention) == {
        "spans": 3, "windows": 0, "marks": 10}
    engines = {row["name"]: row["engine_full"] for row in embedded.query(
        "SELECT name, engine_full FROM system.tables WHERE database = currentDatabase()").to_pylist()}
    assert "TTL toDateTime(ingested_at) + toIntervalDay(3)" in engines["spans"]
    assert "TTL" not in engines["windows"]
    assert "toIntervalDay(10)" in engines["marks"]
    assert set(migrate(embedded).retention) == {"spans", "windows", "marks"}


@pytest.mark.parametrize("days", [{"no_such": 1}, {"spans": -1}])
def test_wrong_retention_is_refused_before_anything_is_changed(embedded: ClickHouseStore, days) -> None:
    with pytest.raises(UsageError, match="retention"):
        migrate(embedded, days)
    assert embedded.query("SHOW TABLES").num_rows == 0
