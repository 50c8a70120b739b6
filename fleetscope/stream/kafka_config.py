"""Settings to the options of kafka-python's clients. Imports no Kafka."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from fleetscope.errors import UsageError
from fleetscope.settings import KafkaSettings

CONNECT_LIMIT_MS: Final = 5_000
"""A broker that does not answer for so long counts as absent."""

MAX_REQUEST_BYTES: Final = 20 * 1024 * 1024
"""Above the largest message of any topic (snapshots: 16 MiB): the topic's own limit decides."""

BATCH_BYTES: Final = 512 * 1024
"""Small messages share a request batch up to here; well below a topic's limit, which holds for whole batches."""

FETCH_BYTES: Final = 64 * 1024 * 1024
PARTITION_FETCH_BYTES: Final = 16 * 1024 * 1024
SOCKET_BUFFER_BYTES: Final = 1024 * 1024


def servers(settings: KafkaSettings) -> list[str]:
    """host:port of every bootstrap server."""
    return [one.strip() for one in settings.bootstrap_servers.split(",") if one.strip()]


def _password(settings: KafkaSettings) -> str | None:
    if settings.sasl_password_file is not None:
        path: Path = settings.sasl_password_file
        try:
            return path.read_text().strip("\r\n")
        except OSError as error:
            raise UsageError(f"the Kafka password file {path} cannot be read: {error.strerror}") from None
    return settings.sasl_password.get_secret_value() if settings.sasl_password else None


def connection(settings: KafkaSettings) -> dict[str, Any]:
    """What every client needs to reach the brokers. UsageError: the password file cannot be read."""
    options: dict[str, Any] = {
        "bootstrap_servers": servers(settings),
        "bootstrap_timeout_ms": min(CONNECT_LIMIT_MS, settings.request_timeout_ms),
        "request_timeout_ms": settings.request_timeout_ms,
        "reconnect_backoff_max_ms": 1_000,
        "security_protocol": settings.security_protocol,
        "ssl_check_hostname": settings.ssl_check_hostname,
    }
    for name in ("ssl_cafile", "ssl_certfile", "ssl_keyfile"):
        path: Path | None = getattr(settings, name)
        if path is not None:
            if not path.is_file():
                raise UsageError(f"{name}: there is no file {path}")
            options[name] = str(path)
    if settings.ssl_password is not None:
        options["ssl_password"] = settings.ssl_password.get_secret_value()
    if settings.sasl_mechanism is not None:
        options["sasl_mechanism"] = settings.sasl_mechanism
        options["sasl_plain_username"] = settings.sasl_username
        options["sasl_plain_password"] = _password(settings)
    return options


def administration(settings: KafkaSettings) -> dict[str, Any]:
    """A client that all threads of a process share.

    kafka-python fails a call at once where a connection has as many requests under way as it allows; by default five.
    """
    return connection(settings) | {"max_in_flight_requests_per_connection": 1_000}


def producer(settings: KafkaSettings, client: str) -> dict[str, Any]:
    """An idempotent producer that loses and repeats nothing while it lives."""
    return connection(settings) | {
        "client_id": client,
        "acks": "all",
        "enable_idempotence": True,
        "max_in_flight_requests_per_connection": 5,
        "delivery_timeout_ms": max(120_000, 2 * settings.request_timeout_ms),
        "max_block_ms": settings.request_timeout_ms,
        "max_request_size": MAX_REQUEST_BYTES,
        "batch_size": BATCH_BYTES,
        "linger_ms": 5,
        "compression_type": None if settings.compression == "none" else settings.compression,
        "send_buffer_bytes": SOCKET_BUFFER_BYTES,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
    }


def transactional(settings: KafkaSettings, wire_id: str) -> dict[str, Any]:
    """A producer with a transactional id; a dead worker's open transaction stops readers for the session time-out."""
    return producer(settings, wire_id) | {
        "transactional_id": wire_id,
        "transaction_timeout_ms": max(settings.session_timeout_ms, 10_000),
        "linger_ms": 0,
    }


def reader(settings: KafkaSettings, client: str) -> dict[str, Any]:
    """A consumer outside any group."""
    return connection(settings) | {
        "client_id": client,
        "group_id": None,
        "enable_auto_commit": False,
        "auto_offset_reset": "earliest",
        "isolation_level": "read_committed",
        "fetch_max_wait_ms": 250,
        "fetch_max_bytes": FETCH_BYTES,
        "max_partition_fetch_bytes": PARTITION_FETCH_BYTES,
        "receive_buffer_bytes": SOCKET_BUFFER_BYTES,
        "allow_auto_create_topics": False,
        "metrics_enabled": False,
    }


def consumer(settings: KafkaSettings, wire_group: str) -> dict[str, Any]:
    """A member of a group; dead after the session time-out, stuck after a minute without a poll."""
    return reader(settings, wire_group) | {
        "group_id": wire_group,
        "session_timeout_ms": settings.session_timeout_ms,
        "heartbeat_interval_ms": max(min(3_000, settings.session_timeout_ms // 4), 100),
        "max_poll_interval_ms": max(60_000, settings.session_timeout_ms),
    }


def with_extra(options: dict[str, Any], extra: dict[str, str | int | bool], known: Collection[str]) -> dict[str, Any]:
    """``options`` with those of ``extra`` that this kind of client knows; ``extra`` wins."""
    return options | {name: value for name, value in extra.items() if name in known}
