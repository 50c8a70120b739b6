"""`fleetscope migrate` and `fleetscope query`, embedded and on a server."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pytest

from fleetscope.cli.main import main
from fleetscope.settings import StoreSettings
from fleetscope.store.clickhouse import open_store
from fleetscope.store.library import load_queries
from fleetscope.store.migrate import load_migrations
from tests.support.stores import PASSWORD, USER, Server, fresh_database, server

__all__ = ["server"]


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """The command line in this process, in an empty folder, without settings of the environment."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str, **environment: str) -> Ran:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["fleetscope", *words])
            for name, value in environment.items():
                patch.setenv(name, value)
            code: object = 0
            try:
                main()
            except SystemExit as stop:
                code = stop.code or 0
        captured = capsys.readouterr()
        return Ran(int(str(code)), captured.out, captured.err)

    return run


def test_migrate_makes_the_tables_once_and_says_so(run: Command) -> None:
    files = [m.file_name for m in load_migrations()]
    first = run("migrate", "--data-dir", "d", "--json")
    assert (first.code, first.err) == (0, "")
    assert json.loads(first.out)["applied"] == files
    assert json.loads(first.out)["retention_days"]["spans"] == 7
    second = run("migrate", "--data-dir", "d")
    assert (second.code, second.out) == (0, "")
    assert "up to date" in second.err


def test_a_dry_run_on_a_server_leaves_it_untouched(run: Command, server: Server) -> None:
    database = fresh_database()
    login = {"FLEETSCOPE_STORE__USERNAME": USER, "FLEETSCOPE_STORE__PASSWORD": PASSWORD,
             "FLEETSCOPE_STORE__DATABASE": database}
    address = f"127.0.0.1:{server.port}"
    tried = run("migrate", "--clickhouse", address, "--dry-run", "--json", **login)
    assert len(json.loads(tried.out)["applied"]) == len(load_migrations())
    refused = run("query", "top_limits", "--clickhouse", address, **login)
    assert refused.code == 2
    assert "lacks migration 0001" in refused.err
    done = run("migrate", FLEETSCOPE_STORE__HOST="127.0.0.1", FLEETSCOPE_STORE__PORT=str(server.port), **login)
    assert done.code == 0
    assert run("query", "top_limits", "--clickhouse", address, **login).code == 0


def test_retention_comes_from_the_settings(run: Command) -> None:
    run("migrate", "--data-dir", "d")
    changed = run("migrate", "--data-dir", "d", "--json", FLEETSCOPE_STORE__TTL_DAYS='{"spans": 2, "windows": 0}')
    assert json.loads(changed.out)["retention_days"] == {"spans": 2, "windows": 0}
    wrong = run("migrate", "--data-dir", "d", FLEETSCOPE_STORE__TTL_DAYS='{"span": 2}')
    assert wrong.code == 2
    assert "retention for unknown table span" in wrong.err


def test_query_without_a_name_lists_the_library(run: Command) -> None:
    shown = run("query")
    assert all(name in shown.out for name in load_queries())
    listed = json.loads(run("query", "--json").out)
    assert [q["name"] for q in listed] == list(load_queries())


def test_query_prints_rows_as_table_json_and_csv(run: Command, tmp_path: Path) -> None:
    run("migrate", "--data-dir", "d")
    with open_store(StoreSettings(path=tmp_path / "d" / "store")) as store:
        store.insert("dead_letters", pa.table({"topic": ["raw.spans"], "step": ["align"], "code": ["corrupt"],
                                               "reason": ["[bold]no frame"], "rows": [2**53 + 1], "offset": [7]}))
    words = ("query", "dead_letters_by_reason", "--data-dir", "d", "--arg", "topic=raw.spans")
    document = json.loads(run(*words, "--json").out)
    assert document["rows"][0]["claimed_rows"] == 2**53 + 1
    assert document["rows"][0]["example"] == "raw.spans[0]@7: [bold]no frame"
    assert document["arguments"] == {"topic": "raw.spans"}
    rows = list(csv.DictReader(StringIO(run(*words, "--csv").out)))
    assert [(row["code"], row["messages"]) for row in rows] == [("corrupt", "1")]
    assert "corrupt" in run(*words).out


@pytest.mark.parametrize("columns", ["80", "140"])
def test_people_read_units_where_documents_are_exact(run: Command, tmp_path: Path, columns: str) -> None:
    run("migrate", "--data-dir", "d")
    at = 1_796_133_221_484_586_050
    with open_store(StoreSettings(path=tmp_path / "d" / "store")) as store:
        store.insert("counters", pa.table({"host": ["h1"], "counter": ["net_bytes"], "instance": ["a" * 20],
                                           "raw": [2**53 + 1], "status": ["ok"], "time_ns": [at]}))
        store.insert("inventory", pa.table({"host": ["h1"], "kind": ["counter"], "component": ["net_bytes"],
                                            "attribute": ["unit"], "text": ["B"], "time_ns": [at]}))
    words = ("query", "host_readings", "--data-dir", "d")
    shown = run(*words, COLUMNS=columns).out
    for figure in ("9.007 PB", "2026-12-01T13:53:41.484Z", "net_bytes", "1 row"):
        assert figure in shown
    assert "…" not in shown
    row = json.loads(run(*words, "--json").out)["rows"][0]
    assert (row["raw"], row["unit"], row["read_ns"]) == (2**53 + 1, "B", at)
    assert f"{2**53 + 1},,B,ok,{at}" in run(*words, "--csv").out


@pytest.mark.parametrize(("words", "message"), [
    (["query", "nonsense"], "no query nonsense; there are"),
    (["query", "top_limits", "--arg", "x=1"], "has no argument x"),
    (["query", "top_limits", "--arg", "job"], "must be NAME=VALUE"),
    (["query", "top_limits", "--arg", "job=a", "--arg", "job=b"], "given twice"),
    (["query", "top_limits", "--arg", "from_ns=yesterday"], "'yesterday' is no Int64"),
    (["query", "top_limits"], "fleetscope-data holds no store"),
    (["query", "--json", "--csv"], "exclude each other"),
    (["query", "top_limits", "--clickhouse", "h:1", "--data-dir", "d"], "exclude each other"),
    (["migrate", "--clickhouse", "nowhere"], "must be HOST:PORT"),
])
def test_wrong_usage_is_one_line_and_exit_code_2(run: Command, words: list[str], message: str) -> None:
    ran = run(*words)
    assert ran.code == 2
    assert ran.out == ""
    assert message in ran.err
    assert ran.err.count("\n") == 1
