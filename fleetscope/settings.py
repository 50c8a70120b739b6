"""Typed settings: defaults, then the environment (FLEETSCOPE_*), then the command line. Immutable once made."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict


class KafkaSettings(BaseModel):
    """How to reach Kafka. ``extra`` is passed to kafka-python as it is (TLS, SASL and the rest)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    bootstrap_servers: str = "localhost:9092"
    topic_prefix: str = "fleetscope."
    partitions: int = Field(8, ge=1, le=4096)
    replication_factor: int = Field(1, ge=1, le=16)
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "none"  # batches are zstd frames already
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    ssl_cafile: Path | None = None
    ssl_certfile: Path | None = None
    ssl_keyfile: Path | None = None
    ssl_password: SecretStr | None = None
    ssl_check_hostname: bool = True
    sasl_mechanism: str | None = None
    sasl_username: str | None = None
    sasl_password: SecretStr | None = None
    sasl_password_file: Path | None = None
    session_timeout_ms: int = Field(10_000, ge=1_000)
    request_timeout_ms: int = Field(15_000, ge=1_000)
    retention_hours: dict[str, int] = Field(default_factory=dict, description="by topic name without prefix")
    extra: dict[str, str | int | bool] = Field(default_factory=dict)


class StoreSettings(BaseModel):
    """How to reach ClickHouse: a server, or with ``path`` the embedded engine."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    path: Path | None = None
    host: str = "localhost"
    port: int = Field(8123, ge=1, le=65_535)
    username: str = "default"
    password: SecretStr = SecretStr("")
    password_file: Path | None = None
    database: str = Field("fleetscope", pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")
    secure: bool = False
    verify: bool = True
    ca_cert: Path | None = None
    connect_timeout_s: int = Field(10, ge=1)
    ttl_days: dict[str, int] = Field(default_factory=dict, description="by table; 0 keeps for ever")


class PipelineSettings(BaseModel):
    """Thresholds of the flow; steps take theirs from here."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    window_ms: int = Field(1_000, ge=100, le=60_000)
    allowed_lateness_s: float = Field(60.0, ge=0)
    settle_limit_s: float = Field(10.0, gt=0)
    insert_rows: int = Field(100_000, ge=1)
    insert_linger_s: float = Field(1.0, gt=0)
    commit_interval_s: float = Field(1.0, gt=0)
    held_bytes: int = Field(16 * 1024 * 1024, ge=1024 * 1024)
    metrics_port: int = Field(0, ge=0, le=65_535, description="0: no Prometheus endpoint")
    metrics_address: str = "127.0.0.1"


class Settings(BaseSettings):
    """All settings, for example FLEETSCOPE_KAFKA__BOOTSTRAP_SERVERS=broker:9092."""

    model_config = SettingsConfigDict(env_prefix="FLEETSCOPE_", env_nested_delimiter="__", frozen=True, extra="ignore")

    kafka: KafkaSettings = KafkaSettings()
    store: StoreSettings = StoreSettings()
    pipeline: PipelineSettings = PipelineSettings()
