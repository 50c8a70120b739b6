"""kill -9 of `fleetscope process` at random moments: the store ends up as if nothing had happened."""

from __future__ import annotations

import random
import subprocess
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from fleetscope.settings import StoreSettings
from fleetscope.store.abstract import Store
from fleetscope.store.arrange import TABLES
from fleetscope.store.clickhouse import open_store
from tests.support.demos import COMMAND, PLACE, START, differences, environment, every_row, fleetscope, table_rows
from tests.support.kafka_broker import KafkaBroker
from tests.support.stores import PASSWORD, USER, Server, server

__all__ = ["server"]

pytestmark = pytest.mark.kafka

FLEET: Final = ("--seconds", 3, "--hosts", 3, "--devices", 1, "--seed", 11, "--start", START, "--scenario", "lossy")
BY_ARRIVAL: Final = {"dead_letters": frozenset({"time_ms"}), "coverage": frozenset({"redelivered_rows"}),
                     "windows": frozenset({"redelivered_rows"})}
COMPARED: Final = [table for table in TABLES if table != "telemetry"]
KILLS: Final = 4
DRAIN_LIMIT_S: Final = 60.0
QUIET_S: Final = 2.0


class Workers:
    """Processes of all steps and writers on one fleet's topics and one database, by instance name."""

    def __init__(self, broker: KafkaBroker, database: StoreSettings, folder: Path) -> None:
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.environment = {
            "FLEETSCOPE_KAFKA__BOOTSTRAP_SERVERS": broker.bootstrap_servers,
            "FLEETSCOPE_KAFKA__TOPIC_PREFIX": f"kill{uuid.uuid4().hex[:8]}.",
            "FLEETSCOPE_KAFKA__PARTITIONS": "2",
            "FLEETSCOPE_KAFKA__SESSION_TIMEOUT_MS": "2000",
            "FLEETSCOPE_STORE__HOST": database.host, "FLEETSCOPE_STORE__PORT": str(database.port),
            "FLEETSCOPE_STORE__USERNAME": USER, "FLEETSCOPE_STORE__PASSWORD": PASSWORD,
            "FLEETSCOPE_STORE__DATABASE": database.database,
            "FLEETSCOPE_PIPELINE__COMMIT_INTERVAL_S": "0.2", "FLEETSCOPE_PIPELINE__INSERT_LINGER_S": "0.2",
            "FLEETSCOPE_PIPELINE__INSERT_ROWS": "2000",
        }

    def start(self, name: str) -> None:
        """Start an instance; it logs into a file of its own."""
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen([*COMMAND, "process", "--instance", name], stdout=log, stderr=log,
                                                   env=environment(**self.environment))

    def kill(self, name: str) -> None:
        """End it at once, wherever it is."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def fallen(self) -> list[str]:
        """Instances that ended by themselves."""
        return [name for name, process in self._running.items() if process.poll() is not None]

    def stop(self) -> dict[str, int]:
        """Stop all in good order; their exit codes."""
        for process in self._running.values():
            process.terminate()
        codes = {name: process.wait(40) for name, process in self._running.items()}
        self._running.clear()
        return codes

    def end(self) -> None:
        """Nothing of it is left, whatever happened."""
        for name in list(self._running):
            self.kill(name)


@contextmanager
def workers_of(broker: KafkaBroker, database: StoreSettings, folder: Path) -> Iterator[Workers]:
    made = Workers(broker, database, folder)
    try:
        yield made
    finally:
        made.end()


def stored_rows(store: Store) -> dict[str, list[str]]:
    return {table: table_rows(store, table, PLACE | BY_ARRIVAL.get(table, frozenset())) for table in COMPARED}


def counts(store: Store) -> dict[str, int]:
    """Rows of each table as they are stored, replaced ones included: cheap enough to ask again and again."""
    return {table: int(store.command(f"SELECT count() FROM {table}")) for table in COMPARED}


def wait_for_rows(store: Store, expected: dict[str, list[str]], workers: Workers) -> None:
    """Until every table has at least what is expected and nothing has come for a while."""
    deadline = time.monotonic() + DRAIN_LIMIT_S
    before, since = counts(store), time.monotonic()
    while time.monotonic() < deadline:
        assert not workers.fallen(), workers.fallen()
        time.sleep(0.2)
        now = counts(store)
        if now != before:
            before, since = now, time.monotonic()
        complete = all(now[table] >= len(rows) for table, rows in expected.items())
        if complete and time.monotonic() - since > QUIET_S:
            return
    missing = {t: len(rows) - before[t] for t, rows in expected.items() if before[t] < len(rows)}
    raise AssertionError(f"not drained after {DRAIN_LIMIT_S:g} s, missing {missing}")


def test_workers_that_are_killed_at_random_moments_lose_and_double_nothing(
        kafka_broker: KafkaBroker, server: Server, tmp_path: Path) -> None:
    undisturbed = fleetscope("demo", "--no-host", "--json", "--data-dir", tmp_path / "undisturbed", *FLEET)
    assert undisturbed.document["events"]["duplicate"] == 0
    expected = {table: rows for table, rows in every_row(tmp_path / "undisturbed", BY_ARRIVAL).items()
                if table in COMPARED}
    rng = random.Random(1)
    database = server.settings()
    with workers_of(kafka_broker, database, tmp_path) as workers:
        made = fleetscope("simulate", *FLEET, **workers.environment)
        assert made.code == 0, made.err
        assert fleetscope("migrate", **workers.environment).code == 0
        with open_store(database) as store:
            for name in ("one", "two"):
                workers.start(name)
            for kill in range(KILLS):
                share = (kill + 0.5) / (KILLS + 1)
                wait_until_stored(store, round(share * len(expected["spans"])))
                time.sleep(rng.uniform(0.0, 0.3))
                name = rng.choice(("one", "two"))
                workers.kill(name)
                workers.start(name)
            wait_for_rows(store, expected, workers)
            assert set(workers.stop().values()) == {0}
            assert differences(expected, stored_rows(store)) == []


def wait_until_stored(store: Store, spans: int) -> None:
    """Until at least so many spans are stored."""
    deadline = time.monotonic() + DRAIN_LIMIT_S
    while int(store.command("SELECT count() FROM spans")) < spans:
        assert time.monotonic() < deadline, f"{spans} spans were not stored in {DRAIN_LIMIT_S:g} s"
        time.sleep(0.02)
