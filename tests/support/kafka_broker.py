"""A real Apache Kafka broker of one node for tests and benchmarks; usable without pytest.

    with KafkaBroker() as broker:
        KafkaSettings(bootstrap_servers=broker.bootstrap_servers)

With a Docker engine it runs the official image, else a JDK runs the published jars. Ports and data outlive ``stop``,
``kill`` and ``restart``.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

from tests.support.kafka_jars import KAFKA_VERSION, kafka_jars, missing_for_jars

SASL_USERNAME = "fleet"
SASL_PASSWORD = "scope-secret"
_CLUSTER_ID = "5L6g3nShT-eMCtK--X86sw"
_START_LIMIT_S = 90.0


def docker_answers() -> bool:
    """True where a Docker engine is there for testcontainers."""
    if not shutil.which("docker") and not os.environ.get("DOCKER_HOST"):
        return False
    try:
        import docker

        client = docker.from_env(timeout=3)
        client.ping()
        client.close()
    except Exception:  # noqa: BLE001 - whatever is wrong with it, there is no engine for us
        return False
    return True


def missing_for_kafka() -> str | None:
    """Why no broker can be started here, or None."""
    lacking = missing_for_jars()
    if lacking is None or docker_answers():
        return None
    return f"no Docker engine and {lacking}"


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def _properties(plain: int, sasl: int, controller: int, bind: str) -> dict[str, str]:
    jaas = (f'org.apache.kafka.common.security.plain.PlainLoginModule required '
            f'user_{SASL_USERNAME}="{SASL_PASSWORD}";')
    return {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{bind}:{plain},SASL://{bind}:{sasl},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{plain},SASL://127.0.0.1:{sasl}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "listener.name.sasl.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.sasl.plain.sasl.jaas.config": jaas,
        "auto.create.topics.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "2",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "2",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
        "share.coordinator.state.topic.replication.factor": "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "500",
        "broker.session.timeout.ms": "2000",  # a killed broker registers again only after its old session
        "broker.heartbeat.interval.ms": "500",
        "log.cleaner.backoff.ms": "200",
        "log.cleaner.dedupe.buffer.size": str(16 * 1024 * 1024),
    }


class _Engine(Protocol):
    def start(self) -> None: ...
    def stop(self, *, hard: bool) -> None: ...
    def alive(self) -> bool: ...
    def log(self) -> str: ...
    def remove(self) -> None: ...


class _Jars:
    """A JVM of our own on the published jars."""

    def __init__(self, properties: dict[str, str], heap_mb: int) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="fleetscope-kafka-"))
        self._config = self._folder / "server.properties"
        properties = {**properties, "log.dirs": str(self._folder / "data")}
        self._config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
        self._java = ["java", "-Xms128m", f"-Xmx{heap_mb}m", "-XX:+UseSerialGC", "-Xshare:auto",
                      "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-cp", f"{kafka_jars()}/*"]
        self._process: subprocess.Popen[bytes] | None = None
        self._format()

    def _format(self) -> None:
        run = subprocess.run(
            [*self._java, "-XX:TieredStopAtLevel=1", "kafka.tools.StorageTool", "format", "-t", _CLUSTER_ID, "-c",
             str(self._config)],
            capture_output=True, text=True, timeout=_START_LIMIT_S, check=False)
        if run.returncode:
            raise RuntimeError(f"Kafka's storage could not be formatted: {(run.stdout + run.stderr)[-800:]}")

    def start(self) -> None:
        with (self._folder / "broker.log").open("ab") as log:
            self._process = subprocess.Popen([*self._java, "kafka.Kafka", str(self._config)], stdout=log, stderr=log,
                                             start_new_session=True)

    def stop(self, *, hard: bool) -> None:
        if self._process is None:
            return
        self._process.send_signal(signal.SIGKILL if hard else signal.SIGTERM)
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)
        self._process = None

    def alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        return (self._folder / "broker.log").read_text(errors="replace")[-2000:]

    def remove(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


class _Docker:
    """The official image; the same ports inside and outside, so that the advertised address holds."""

    def __init__(self, properties: dict[str, str], ports: list[int], heap_mb: int) -> None:
        from testcontainers.core.container import DockerContainer

        container = DockerContainer(f"apache/kafka:{KAFKA_VERSION}")
        for key, value in properties.items():
            container = container.with_env("KAFKA_" + key.upper().replace(".", "_"), value)
        container = container.with_env("CLUSTER_ID", _CLUSTER_ID).with_env("KAFKA_HEAP_OPTS", f"-Xmx{heap_mb}m")
        for port in ports:
            container = container.with_bind_ports(port, port)
        self._container: Any = container
        self._created = False

    def start(self) -> None:
        if self._created:
            self._container.get_wrapped_container().start()
        else:
            self._container.start()
            self._created = True

    def stop(self, *, hard: bool) -> None:
        inner = self._container.get_wrapped_container()
        inner.reload()
        if inner.status == "running":
            inner.kill() if hard else inner.stop(timeout=20)

    def alive(self) -> bool:
        inner = self._container.get_wrapped_container()
        inner.reload()
        return bool(inner.status in ("created", "running"))

    def log(self) -> str:
        return "".join(part.decode(errors="replace") for part in self._container.get_logs())[-2000:]

    def remove(self) -> None:
        if self._created:
            self._container.stop()


class KafkaBroker:
    """See the module's text. ``engine`` is "docker" or "jars", by default what is there. RuntimeError: no start."""

    def __init__(self, *, heap_mb: int = 512, engine: str | None = None,
                 properties: dict[str, str] | None = None) -> None:
        self._plain, self._sasl, controller = _free_ports(3)
        engine = engine or ("docker" if docker_answers() else "jars")
        bind = "0.0.0.0" if engine == "docker" else "127.0.0.1"
        config = {**_properties(self._plain, self._sasl, controller, bind), **(properties or {})}
        self._engine: _Engine = (_Docker(config, [self._plain, self._sasl], heap_mb) if engine == "docker"
                                 else _Jars(config, heap_mb))
        self.engine = engine

    @property
    def bootstrap_servers(self) -> str:
        """host:port of the plain listener."""
        return f"127.0.0.1:{self._plain}"

    @property
    def sasl_bootstrap_servers(self) -> str:
        """host:port of the SASL_PLAINTEXT listener (PLAIN; SASL_USERNAME and SASL_PASSWORD)."""
        return f"127.0.0.1:{self._sasl}"

    def start(self) -> KafkaBroker:
        """Start and return when the broker answers a metadata request."""
        self._engine.start()
        deadline = time.monotonic() + _START_LIMIT_S
        while not self._answers():
            if not self._engine.alive() or time.monotonic() > deadline:
                text = self._engine.log()
                self.close()
                raise RuntimeError(f"the Kafka broker did not start: {text}")
            time.sleep(0.1)
        return self

    def stop(self) -> None:
        """Shut down in order; data stays."""
        self._engine.stop(hard=False)

    def kill(self) -> None:
        """End it at once, as a crash would; data stays."""
        self._engine.stop(hard=True)

    def restart(self, *, hard: bool = False) -> None:
        """Stop (or kill) and start again on the same ports and data."""
        self._engine.stop(hard=hard)
        self.start()

    def close(self) -> None:
        """Stop and remove everything."""
        self._engine.stop(hard=True)
        self._engine.remove()

    def _answers(self) -> bool:
        from kafka import KafkaAdminClient
        from kafka.errors import KafkaError

        try:
            with socket.create_connection(("127.0.0.1", self._plain), timeout=1):
                pass
            admin = KafkaAdminClient(bootstrap_servers=self.bootstrap_servers, bootstrap_timeout_ms=5000)
        except (OSError, KafkaError):
            return False
        admin.close()
        return True

    def __enter__(self) -> KafkaBroker:
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
