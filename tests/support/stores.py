"""Stores to test against: embedded, and a server over the real HTTP client.

Both start empty for every test. The embedded engine takes one folder a process, so it is opened and closed with each
test; the HTTP server runs in a process of its own for the session and each test gets a database of its own. Where
FLEETSCOPE_TEST_CLICKHOUSE=HOST:PORT names a real server, or Docker can start one, the tests run over that too.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest

from fleetscope.settings import StoreSettings
from fleetscope.store.clickhouse import ClickHouseStore, open_store

PROGRAM = Path(__file__).with_name("clickhouse_http.py")
USER, PASSWORD = "fleet", "s3cr et'\\"
_numbers = itertools.count()


def fresh_database() -> str:
    return f"test_{os.getpid()}_{next(_numbers)}"


class Server:
    """The HTTP endpoint of `clickhouse_http` in a process of its own."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(folder), "--user", USER, "--password", PASSWORD, *options],
            stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline())

    def settings(self, **changes: object) -> StoreSettings:
        values = {"host": "127.0.0.1", "port": self.port, "username": USER, "password": PASSWORD,
                  "database": fresh_database(), **changes}
        return StoreSettings.model_validate(values)

    def fail_next_insert(self, kind: str) -> None:
        with urlopen(f"http://127.0.0.1:{self.port}/_fault?kind={kind}") as answer:
            assert answer.status == 200

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)
        assert self.process.stdout is not None
        self.process.stdout.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The HTTP endpoint, one for the session."""
    server = Server(tmp_path_factory.mktemp("clickhouse") / "engine")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def real_server() -> Iterator[StoreSettings]:
    """A real ClickHouse server: named by the environment, else started by Docker, else the test is skipped."""
    named = os.environ.get("FLEETSCOPE_TEST_CLICKHOUSE")
    if named:
        host, _, port = named.rpartition(":")
        yield StoreSettings.model_validate({"host": host, "port": int(port)})
        return
    if subprocess.run(["docker", "info"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no FLEETSCOPE_TEST_CLICKHOUSE and no Docker")
    from testcontainers.clickhouse import ClickHouseContainer

    with ClickHouseContainer("clickhouse/clickhouse-server:26.3", port=8123) as container:
        yield StoreSettings.model_validate({
            "host": container.get_container_host_ip(), "port": int(container.get_exposed_port(8123)),
            "username": container.username, "password": container.password})


@pytest.fixture(params=["embedded", "http", "real"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[ClickHouseStore]:
    """An empty database behind each kind of connection."""
    if request.param == "embedded":
        settings = StoreSettings(path=tmp_path / "store")
    elif request.param == "http":
        settings = request.getfixturevalue("server").settings()
    else:
        settings = request.getfixturevalue("real_server").model_copy(update={"database": fresh_database()})
    with open_store(settings) as opened:
        yield opened
        if request.param != "embedded":
            opened.command(f"DROP DATABASE `{opened.database}`")


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[ClickHouseStore]:
    """An empty embedded store, for what does not depend on the connection."""
    with open_store(StoreSettings(path=tmp_path / "store")) as opened:
        yield opened
