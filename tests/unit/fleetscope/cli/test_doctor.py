"""`fleetscope doctor` as a command: what it looks at, exit codes, and servers that are away."""

from __future__ import annotations

import fcntl
import json
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.console import Console

from fleetscope.cli.doctor_kafka import MAX_LAG, _judge, _topics
from fleetscope.cli.doctor_report import Column, Part, Report, Table
from fleetscope.cli.main import main
from fleetscope.contracts.topics import TOPICS
from fleetscope.settings import StoreSettings
from fleetscope.store.clickhouse import open_store
from fleetscope.store.migrate import load_migrations, migrate
from fleetscope.stream.kafka import KafkaStream
from processors.topology import UNITS
from tests.support.kafka_broker import KafkaBroker
from tests.support.stores import PASSWORD, USER, Server, fresh_database, server
from tests.support.stream_case import kafka_settings

__all__ = ["server"]


class Ran(NamedTuple):
    code: int
    out: str
    err: str


Command = Callable[..., Ran]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Command:
    """The command line in this process, in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def run(*words: str, **environment: str) -> Ran:
        with monkeypatch.context() as patch:
            patch.setattr(sys, "argv", ["fleetscope", "doctor", *words])
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


def store_in(folder: Path) -> None:
    with open_store(StoreSettings(path=folder / "store")) as made:
        migrate(made)


def test_without_servers_it_checks_this_host_and_says_what_it_did_not(run: Command) -> None:
    ran = run("--json")
    document = json.loads(ran.out)
    assert (ran.code, ran.err) == (0, "")
    assert document["ok"] is True
    assert document["python"]["packages"] != []
    assert document["host"]["readings"] > 20
    assert document["not_checked"].keys() == {"kafka", "store"}
    assert "kafka" not in document


def test_people_read_what_was_not_checked_and_what_to_do(run: Command) -> None:
    ran = run()
    words = " ".join(ran.out.split())
    assert "not checked: kafka: no broker is named" in words
    assert "nothing that needs doing" in words


def test_a_store_is_looked_at_where_it_is_named_and_where_the_demo_puts_it(run: Command, tmp_path: Path) -> None:
    store_in(tmp_path / "d")
    named = json.loads(run("--data-dir", "d", "--json").out)
    assert named["store"]["schema"] == load_migrations()[-1].file_name.removesuffix(".sql")
    assert named["not_checked"].keys() == {"kafka"}
    store_in(tmp_path / "fleetscope-data")
    assert "store" in json.loads(run("--json").out)


@pytest.mark.parametrize(("words", "line"), [
    (("--data-dir", "nothing"), "nothing holds no store; make one with: fleetscope demo --data-dir nothing"),
    (("--clickhouse", "localhost:1"), "cannot reach ClickHouse at localhost:1: Connection refused"),
    (("--clickhouse", "localhost"), "must be HOST:PORT"),
    (("--kafka", "localhost"), "--kafka localhost: must be HOST:PORT"),
    (("--clickhouse", "--data-dir", "d"), "--clickhouse and --data-dir exclude each other"),
])
def test_what_was_asked_for_and_is_missing_is_one_line_and_exit_code_2(run: Command, words: tuple[str, ...],
                                                                       line: str) -> None:
    ran = run(*words, "--json")
    assert (ran.code, ran.out) == (2, "")
    assert line in ran.err
    assert ran.err.count("\n") == 1


def test_a_data_folder_in_use_names_its_holder(run: Command, tmp_path: Path) -> None:
    store_in(tmp_path / "fleetscope-data")
    with (tmp_path / "fleetscope-data/store.lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("process 4711 (fleetscope demo)\n")
        lock.flush()
        asked = run("--data-dir", "fleetscope-data")
        assert asked.code == 2
        assert "is in use by process 4711 (fleetscope demo)" in asked.err
        found = json.loads(run("--json").out)  # not asked for: the rest is still looked at
    assert "process 4711" in found["not_checked"]["store"]


def test_a_server_that_only_the_environment_names_and_that_is_away_is_a_finding(run: Command) -> None:
    ran = run("--json", FLEETSCOPE_KAFKA__BOOTSTRAP_SERVERS="localhost:1", FLEETSCOPE_STORE__HOST="localhost",
              FLEETSCOPE_STORE__PORT="1", FLEETSCOPE_KAFKA__REQUEST_TIMEOUT_MS="1000")
    document = json.loads(ran.out)
    assert ran.code == 1
    assert [(f["severity"], f["subject"]) for f in document["findings"]][:2] == [
        ("critical", "kafka"), ("critical", "store")]
    assert document["kafka"] == document["store"] == {"reachable": False}


def test_an_older_and_a_newer_schema_are_told_apart(run: Command, tmp_path: Path) -> None:
    with open_store(StoreSettings(path=tmp_path / "d/store")) as made:
        migrate(made, migrations=load_migrations()[:1])
    older = run("--data-dir", "d", "--json")
    finding = json.loads(older.out)["findings"][0]
    assert (older.code, finding["severity"]) == (1, "critical")
    assert finding["text"].startswith(f"{len(load_migrations()) - 1} migrations behind")
    assert "fleetscope migrate" in finding["advice"]
    with open_store(StoreSettings(path=tmp_path / "d/store")) as made:
        migrate(made)
        made.command("INSERT INTO schema_migrations (number, name, sha256) VALUES (9999, 'later', 'x')")
    newer = json.loads(run("--data-dir", "d", "--json").out)
    assert "at migration 9999" in newer["findings"][0]["text"]
    assert "clocks" not in newer["store"]


def test_a_server_is_looked_at_and_left_as_it_is(run: Command, server: Server) -> None:
    login = {"FLEETSCOPE_STORE__USERNAME": USER, "FLEETSCOPE_STORE__PASSWORD": PASSWORD,
             "FLEETSCOPE_STORE__DATABASE": fresh_database(), "FLEETSCOPE_STORE__HOST": "127.0.0.1",
             "FLEETSCOPE_STORE__PORT": str(server.port)}
    for words in (("--clickhouse",), (), ("--clickhouse", f"127.0.0.1:{server.port}")):
        ran = run(*words, "--json", **login)
        document = json.loads(ran.out)
        assert ran.code == 1, words
        assert document["store"]["schema"] is None
        assert len(document["store"]["pending_migrations"]) == len(load_migrations())


@pytest.mark.kafka
def test_a_broker_is_looked_at_with_its_topics_and_groups(run: Command, kafka_broker: KafkaBroker) -> None:
    settings = kafka_settings(kafka_broker.bootstrap_servers, partitions=2)
    stream = KafkaStream(settings)
    environment = {"FLEETSCOPE_KAFKA__TOPIC_PREFIX": settings.topic_prefix, "FLEETSCOPE_KAFKA__PARTITIONS": "2"}
    before = run("--kafka", kafka_broker.bootstrap_servers, "--json", **environment)
    assert before.code == 1, before.err
    nothing = json.loads(before.out)
    assert nothing["findings"][0]["text"] == f"there is none with the prefix {settings.topic_prefix}"
    stream.ensure_topics(TOPICS)
    stream.close()
    ran = run("--kafka", "--json", FLEETSCOPE_KAFKA__BOOTSTRAP_SERVERS=kafka_broker.bootstrap_servers, **environment)
    document = json.loads(ran.out)
    assert ran.code == 0, document["findings"]
    assert document["kafka"]["topics_present"] == f"{len(TOPICS)} of {len(TOPICS)}"
    assert document["kafka"]["version"] is not None
    assert {row["group"] for row in document["kafka"]["lag"]} == set(UNITS)
    assert all(row["lag_messages"] == 0 for row in document["kafka"]["lag"])


def test_topics_that_are_missing_or_have_other_partitions_are_found() -> None:
    part = Part("kafka", "Kafka")
    _topics(part, {"a": 2, "b": 2, "one": 3}, {"a": 8, "b": 8, "one": 1, "c": 8}, "fleetscope.")
    assert [(f.severity, f.text, f.advice.split(" ")[0]) for f in part.findings] == [
        ("warning", "1 of 4 are missing: c", "Start"),
        ("critical", "a, b: 2 partitions, expected 8: workers will refuse to start", "Set"),
        ("critical", "one: 3 partitions, expected 1: workers will refuse to start", "Delete")]


@pytest.mark.parametrize(("members", "lag", "text"), [
    (0, 5, "nobody works on it and 5 messages wait"), (2, MAX_LAG, None),
    (2, MAX_LAG + 1, f"{MAX_LAG + 1:,} messages of raw.spans behind with 2 members"), (0, 0, None),
])
def test_a_group_is_behind_when_nobody_works_on_it_or_much_waits(members: int, lag: int, text: str | None) -> None:
    part = Part("kafka", "Kafka")
    _judge(part, "align", members, {"raw.spans": lag, "raw.marks": 0})
    assert [f.text for f in part.findings] == ([] if text is None else [text])


@pytest.mark.parametrize("width", [80, 140])
def test_facts_have_words_and_units_and_nothing_is_cut(width: int) -> None:
    heads = ("host", "clock", "reading", "left", "right", "more", "most")
    row = {"host": "h" * 30, "clock": "monotonic_raw", "reading": 1_796_126_040_012_596_583, "left": 250_048_443,
           "right": 9_223_372_036, "more": 123_456_789_012, "most": 0.0}
    forms = ("text", "text", "offset", "offset", "ns", "count", "share")
    table = Table("t", "T", tuple(Column(h, h, f) for h, f in zip(heads, forms, strict=True)), [row])  # type: ignore[arg-type]
    text = StringIO()
    part = Part("host", "Host", {"utc_max_error_us": 900, "disk_free_gb": 78.6, "utc_disciplined": False}, [table])
    Report("1", [part]).show(Console(file=text, width=width))
    shown = text.getvalue()
    for words in ("UTC error at most: 900 µs", "free disk: 78.60 GB", "UTC kept by a daemon: no",
                  "2026-12-01T11:54:00.012Z", "250.0 ms", "9.223 s", "123,456,789,012", "0.0%"):
        assert words in shown
    assert "…" not in shown
    assert max(map(len, shown.splitlines())) <= width


def test_findings_come_worst_first_and_text_of_others_is_not_markup() -> None:
    part = Part("p", "[Part]", {"fact": ["[red]x", 1200]}, [Table(
        "t", "T", (Column("a", "a"), Column("n", "n", "ns"), Column("s", "s", "share"), Column("w", "w", "age")),
        [{"a": "[bold]h", "n": 1_500, "s": 0.5, "w": 90_000.0}, {"a": None, "n": None, "s": None, "w": 1.0}])])
    part.find("info", "i", "[i]", "x")
    part.find("critical", "c", "[c]", "x")
    report = Report("1", [part], {"store": "why"})
    assert [f.severity for f in report.findings] == ["critical", "info"]
    assert report.ok is False
    text = StringIO()
    report.show(Console(file=text, width=100))
    for shown in ("[Part]", "[red]x, 1,200", "[bold]h", "1.500 µs", "50.0%", "25 h", "–", "critical c: [c]",
                  "store: why"):
        assert shown in text.getvalue()
    assert "nothing that needs doing" not in text.getvalue()
