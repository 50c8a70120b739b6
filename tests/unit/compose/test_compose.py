"""docker-compose.yml against the compose specification and against this repository."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[3]
TEXT = (ROOT / "docker-compose.yml").read_text()
COMPOSE: dict[str, Any] = yaml.safe_load(TEXT)
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
ONE_SHOT = {"migrate", "simulator", "scheduler"}
SPECIFICATION: dict[str, Any] = json.loads(
    resources.files("check_jsonschema.builtin_schemas.vendor").joinpath("compose-spec.json").read_text())


def example_env() -> dict[str, str]:
    """Names and values of .env.example."""
    lines = (line.strip() for line in (ROOT / ".env.example").read_text().splitlines())
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def violations(document: dict[str, Any]) -> list[str]:
    """What the specification finds wrong."""
    validator = jsonschema.validators.validator_for(SPECIFICATION)(SPECIFICATION)
    return [f"{'/'.join(map(str, e.path))}: {e.message}" for e in validator.iter_errors(document)]


def test_the_file_follows_the_compose_specification() -> None:
    assert violations(COMPOSE) == []


def test_the_specification_would_find_a_misspelt_key() -> None:
    broken = json.loads(json.dumps(COMPOSE))
    broken["services"]["kafka"]["healthchek"] = {}
    assert any("healthchek" in violation for violation in violations(broken))


def test_the_services_that_people_are_told_of_are_there() -> None:
    ours = {"migrate", "processors", "simulator", "agent", "scheduler"}
    assert set(SERVICES) == ours | {"kafka", "clickhouse", "grafana"}
    assert {name for name, service in SERVICES.items() if "profiles" in service} == {"agent", "scheduler"}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_service_is_checked_for_health_or_runs_once(name: str) -> None:
    check = SERVICES[name]["healthcheck"]
    if name in ONE_SHOT:
        assert check == {"disable": True}
        assert SERVICES[name]["restart"] == "no"
    else:
        assert check["test"][0] in ("CMD", "CMD-SHELL")
        assert {"interval", "timeout", "retries"} <= check.keys()


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_service_waits_for_a_state_that_its_dependency_can_reach(name: str) -> None:
    for other, wait in SERVICES[name].get("depends_on", {}).items():
        expected = "service_completed_successfully" if other in ONE_SHOT else "service_healthy"
        assert wait == {"condition": expected}


def test_processors_wait_for_the_schema_and_the_broker() -> None:
    assert SERVICES["processors"]["depends_on"].keys() == {"kafka", "migrate"}
    assert SERVICES["migrate"]["depends_on"].keys() == {"clickhouse"}


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_every_mounted_file_is_in_the_repository_and_read_only(name: str) -> None:
    for mount in SERVICES[name].get("volumes", []):
        source, _, *mode = mount.split(":")
        if source.startswith("./"):
            assert (ROOT / source).exists(), source
            assert any((ROOT / source).iterdir()) if (ROOT / source).is_dir() else True, f"{source} is empty"
            assert mode == ["ro"]
        elif source.startswith("/"):
            assert (name, mode) == ("agent", ["ro"])
        else:
            assert source in COMPOSE["volumes"]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_ports_are_open_to_this_machine_only(name: str) -> None:
    assert all(port.startswith("127.0.0.1:") for port in SERVICES[name].get("ports", []))


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_no_password_has_a_value_in_the_file(name: str) -> None:
    for key, value in SERVICES[name].get("environment", {}).items():
        if re.search("PASSWORD|SECRET|TOKEN", key):
            assert re.fullmatch(r"\$\{[A-Z_]+_PASSWORD:\?set [^}]+\}", value), key


def test_every_variable_is_explained_in_the_example_and_only_passwords_are_empty() -> None:
    used = set(re.findall(r"\$\{([A-Z_]+)", TEXT))
    example = example_env()
    assert used == example.keys()
    assert {name for name, value in example.items() if not value} == {n for n in used if n.endswith("_PASSWORD")}


def test_defaults_in_the_file_are_those_of_the_example() -> None:
    assert set(re.findall(r"\$\{([A-Z_]+):-([^}]*)\}", TEXT)) == {(k, v) for k, v in example_env().items() if v}


def test_images_of_others_are_pinned_to_a_version() -> None:
    for service in SERVICES.values():
        if "build" not in service:
            assert re.search(r":\d+\.\d+", service["image"]), service["image"]


def test_our_services_run_without_privileges() -> None:
    for service in SERVICES.values():
        if "build" in service:
            assert service["cap_drop"] == ["ALL"]
            assert service["read_only"] is True
    assert re.search(r"^USER 65532", (ROOT / "Dockerfile").read_text(), re.MULTILINE)


def test_our_services_run_commands_that_exist_or_are_off_by_default() -> None:
    for name, service in SERVICES.items():
        if "build" in service and name != "scheduler":
            assert (ROOT / "fleetscope" / "cli" / f"{service['command'][0]}.py").exists()


def test_docker_itself_accepts_the_file(tmp_path: Path) -> None:
    docker = shutil.which("docker")
    if docker is None or subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker with the compose plugin is not installed")
    env = tmp_path / "env"
    env.write_text("".join(f"{k}={v or 'x'}\n" for k, v in example_env().items()))
    base = [docker, "compose", "--project-directory", str(ROOT), "-f", str(ROOT / "docker-compose.yml")]
    done = subprocess.run([*base, "--env-file", str(env), "--profile", "*", "config", "--quiet"],
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
