"""The project's own promises: import rules that bite, a Makefile and a lock that fit the rest."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES: list[str] = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
MAKEFILE = (ROOT / "Makefile").read_text()


def lint_imports(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run import-linter over a copy of the packages."""
    return subprocess.run([str(Path(sys.executable).parent / "lint-imports"), "--no-cache"], cwd=folder,
                          capture_output=True, text=True, check=False)


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """The packages and the import rules, in a folder of their own."""
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_the_import_rules_hold() -> None:
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(("file", "line", "rule"), [
    ("fleetscope/planted.py", "import processors", "The core imports the applications only in its command line"),
    ("fleetscope/contracts/planted.py", "import fleetscope.store.abstract", "The core's layers"),
    ("simulator/planted.py", "import fleetscope.cli.main", "Applications do not import the command line"),
    ("simulator/planted.py", "import processors.windows", "Applications do not import each other"),
    ("processors/planted.py", "def f():\n    import kafka.errors", "Kafka is imported in fleetscope.stream.kafka"),
    ("views/planted.py", "import clickhouse_connect", "ClickHouse is imported in fleetscope.store.clickhouse alone"),
    ("fleetscope/store/planted.py", "import chdb", "ClickHouse is imported in fleetscope.store.clickhouse alone"),
    ("ingest/planted.py", "import apscheduler", "APScheduler is imported in processors.schedule alone"),
    ("processors/windows/planted.py", "import time", "Pure modules know no clock"),
    ("processors/clocks/planted.py", "from datetime import datetime", "Pure modules know no clock"),
    ("fleetscope/contracts/planted.py", "import random", "Pure modules know no clock"),
    ("processors/bottleneck/planted.py", "import fleetscope.stream.memory", "Pure modules know no clock"),
])
def test_a_planted_violation_is_reported(copy: Path, file: str, line: str, rule: str) -> None:
    (copy / file).write_text(line + "\n")
    done = lint_imports(copy)
    assert done.returncode == 1
    assert re.search(rf"{re.escape(rule)}.*BROKEN", " ".join(done.stdout.split())), done.stdout


def test_what_the_rules_allow_is_allowed(copy: Path) -> None:
    (copy / "fleetscope/cli/planted.py").write_text("def f() -> None:\n    import processors.windows\n")
    (copy / "processors/schedule.py").write_text("import apscheduler\n")
    done = lint_imports(copy)
    assert done.returncode == 0, done.stdout


def test_every_package_of_the_wheel_is_under_the_import_rules_and_the_type_checker() -> None:
    with_code = {package for package in PACKAGES if package != "sql"}
    assert set(PROJECT["tool"]["importlinter"]["root_packages"]) == with_code
    assert set(PROJECT["tool"]["mypy"]["packages"]) == with_code


def test_make_alone_lists_every_target() -> None:
    done = subprocess.run(["make", "-C", str(ROOT)], capture_output=True, text=True, check=True)
    targets = set(re.findall(r"^  make ([a-z]+)", done.stdout, re.MULTILINE))
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)
    assert phony is not None
    assert targets == set(phony.group(1).split())


def test_the_makefile_names_only_files_that_exist() -> None:
    named = re.findall(r"(?<![\w./-])((?:bench|tests|deploy)/[\w./-]+\.(?:py|sh))", MAKEFILE)
    assert len(named) >= 4
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_the_lock_has_a_version_for_everything_that_ci_installs() -> None:
    lines = [line for line in (ROOT / "requirements-dev.lock").read_text().splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[A-Za-z0-9._-]+==[A-Za-z0-9.+!]+", line) for line in lines)
    locked = {_plain(line.split("==")[0]) for line in lines}
    extras = PROJECT["project"]["optional-dependencies"]
    wanted = [*PROJECT["project"]["dependencies"], *extras["embedded"], *extras["timeline"], *extras["dev"]]
    names = {_plain(re.split(r"[<>=\[ ]", requirement)[0]) for requirement in wanted}
    assert names - locked == {"fleetscope"}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_hosted_workflow_follows_its_schema_and_covers_every_supported_python() -> None:
    schema = json.loads(
        resources.files("check_jsonschema.builtin_schemas.vendor").joinpath("github-workflows.json").read_text())
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    workflow["on"] = workflow.pop(True)  # YAML 1.1 reads the key `on` as a boolean
    jsonschema.validate(workflow, schema)
    classified = {c.rsplit(" ", 1)[1] for c in PROJECT["project"]["classifiers"] if re.search(r":: 3\.\d+$", c)}
    assert set(workflow["jobs"]["check"]["strategy"]["matrix"]["python"]) == classified


def make_venv(path: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run deploy/make-venv.sh with nothing but ``path`` to look in."""
    return subprocess.run(["/bin/bash", str(ROOT / "deploy/make-venv.sh"), "venv"], env={"PATH": path, **env},
                          capture_output=True, text=True, check=False)


def fake_python(folder: Path, body: str) -> Path:
    """A program called python3 that does ``body``."""
    program = folder / "python3"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return program


def test_without_a_fitting_python_the_message_says_which_would_do(tmp_path: Path) -> None:
    fake_python(tmp_path, "exit 1")
    done = make_venv(str(tmp_path))
    assert done.returncode == 2
    assert done.stderr.startswith("no Python 3.11 to 3.14 found")


def test_a_python_without_venv_is_named_with_the_package_to_install(tmp_path: Path) -> None:
    fake_python(tmp_path, 'case "$2" in *ensurepip*) exit 1;; *) exit 0;; esac')
    done = make_venv(str(tmp_path))
    assert done.returncode == 2
    assert done.stderr == "python3 has no venv module; on Debian or Ubuntu: apt-get install python3-venv\n"


def test_the_python_that_was_asked_for_is_tried_first(tmp_path: Path) -> None:
    wanted = tmp_path / "wanted"
    wanted.mkdir()
    fake_python(tmp_path, "exit 1")
    asked = fake_python(wanted, 'case "$1" in -V) echo Python 3.12.9;; -m) echo made "$3";; esac')
    done = make_venv(str(tmp_path), PYTHON=str(asked))
    assert done.returncode == 0
    assert done.stdout == "made venv\n"
