"""Users of ClickHouse and the provisioning files of Grafana agree with each other and give away nothing."""

from __future__ import annotations

import re
import stat
import subprocess
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
USERS = ET.parse(ROOT / "deploy/clickhouse/users.xml").getroot()
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SOURCE: dict[str, Any] = yaml.safe_load(
    (ROOT / "grafana/provisioning/datasources/clickhouse.yaml").read_text())["datasources"][0]


def grants(user: str) -> list[str]:
    """The GRANT statements of a user."""
    return [query.text or "" for query in USERS.findall(f"users/{user}/grants/query")]


def test_grafanas_user_may_read_one_database_and_nothing_else() -> None:
    assert grants("grafana") == ["GRANT SELECT ON fleetscope.*"]
    assert USERS.findtext("users/grafana/profile") == "grafana"
    assert USERS.findtext("profiles/grafana/readonly") == "1"


def test_grafanas_user_may_set_a_time_limit_as_the_data_source_does_with_every_query() -> None:
    assert USERS.find("profiles/grafana/constraints/max_execution_time/changeable_in_readonly") is not None
    config = ET.parse(ROOT / "deploy/clickhouse/config.xml").getroot()
    assert config.findtext("access_control_improvements/settings_constraints_replace_previous") == "true"


def test_the_pipelines_user_may_write_one_database_and_not_manage_users() -> None:
    assert grants("fleetscope") == ["GRANT ALL ON fleetscope.*", "GRANT SELECT ON system.*"]
    assert USERS.find("users/fleetscope/access_management") is None


def test_there_is_no_user_without_a_password_and_no_password_in_the_file() -> None:
    users = USERS.find("users")
    assert users is not None
    for user in users:
        if user.tag == "default":
            assert user.attrib == {"remove": "remove"}
            continue
        password = user.find("password")
        assert password is not None
        assert not (password.text or "").strip()
        assert password.attrib["from_env"] in COMPOSE["services"]["clickhouse"]["environment"]


def test_the_data_source_logs_in_as_the_reading_user_with_the_password_of_the_environment() -> None:
    assert SOURCE["type"] == "grafana-clickhouse-datasource"
    assert SOURCE["jsonData"] | {"host": "clickhouse", "port": 9000, "protocol": "native", "username": "grafana",
                                 "defaultDatabase": "fleetscope"} == SOURCE["jsonData"]
    variable = SOURCE["secureJsonData"]["password"]
    assert variable == "$CLICKHOUSE_GRAFANA_PASSWORD"
    assert variable[1:] in COMPOSE["services"]["grafana"]["environment"]


def test_the_dashboards_folder_of_the_provider_is_mounted() -> None:
    provider = yaml.safe_load((ROOT / "grafana/provisioning/dashboards/fleetscope.yaml").read_text())["providers"][0]
    mounts = [mount.split(":")[1] for mount in COMPOSE["services"]["grafana"]["volumes"]]
    assert provider["options"]["path"] in mounts


def test_the_services_log_in_as_the_writing_user() -> None:
    for name in ("migrate", "processors"):
        environment = COMPOSE["services"][name]["environment"]
        assert environment["FLEETSCOPE_STORE__USERNAME"] == "fleetscope"
        assert environment["FLEETSCOPE_STORE__PASSWORD"].startswith("${CLICKHOUSE_PASSWORD:?")


def test_settings_given_to_the_services_are_ones_they_know(monkeypatch: pytest.MonkeyPatch) -> None:
    from fleetscope.settings import Settings

    environment = dict(COMPOSE["services"]["processors"]["environment"])
    assert all(name.startswith("FLEETSCOPE_") for name in environment)
    for name, value in environment.items():
        monkeypatch.setenv(name, str(value))
    settings = Settings()
    assert (settings.kafka.bootstrap_servers, settings.store.host) == ("kafka:9092", "clickhouse")
    assert settings.pipeline.metrics_port == 9464


def make_env(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the script of `make env` in ``folder``."""
    return subprocess.run(["bash", str(ROOT / "deploy/make-env.sh"), str(ROOT / ".env.example"), ".env"], cwd=folder,
                          capture_output=True, text=True, check=False)


def test_make_env_fills_every_password_with_another_random_value_that_only_the_owner_reads(tmp_path: Path) -> None:
    assert make_env(tmp_path).returncode == 0
    text = (tmp_path / ".env").read_text()
    passwords = re.findall(r"^[A-Z_]+_PASSWORD=([0-9a-f]{48})$", text, re.MULTILINE)
    assert len(set(passwords)) == 3
    assert stat.S_IMODE((tmp_path / ".env").stat().st_mode) == 0o600
    assert "KAFKA_PORT=9094\n" in text


def test_make_env_never_overwrites(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("mine")
    assert make_env(tmp_path).returncode == 2
    assert (tmp_path / ".env").read_text() == "mine"
