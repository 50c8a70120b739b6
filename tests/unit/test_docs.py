"""The documents tell the truth: contracts as in the code, commands and links that exist."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import typer.main

from fleetscope.cli.doctor_kafka import MAX_LAG
from fleetscope.cli.main import app
from fleetscope.contracts import CONTRACTS
from fleetscope.settings import Settings
from fleetscope.store.library import load_queries
from processors.topology import UNITS

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NAMES = [str(path.relative_to(ROOT)) for path in DOCUMENTS]
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_contracts_document_is_the_code_s() -> None:
    made = runpy.run_path(str(ROOT / "docs/make_contracts.py"))["text"]()
    assert read("docs/contracts.md") == made, "run: python docs/make_contracts.py"
    assert all(f"### {name}, version" in made for name in CONTRACTS)


@pytest.mark.parametrize("name", NAMES)
def test_every_link_leads_somewhere(name: str) -> None:
    for target in re.findall(r"\]\(([^)#]+)", read(name)):
        if not target.startswith(("http://", "https://")):
            assert (ROOT / name).parent.joinpath(target).exists(), target


def code(text: str) -> list[str]:
    """Lines of code blocks and what stands in backticks, without shell comments."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL))
    return [re.sub(r"\s# .*", "", line) for line in [*"\n".join(blocks).splitlines(), *spans]]


def shown(name: str) -> list[tuple[str, list[str]]]:
    """Every ``fleetscope COMMAND WORDS…`` that stands in code."""
    found = [re.match(r"(?:\S*/bin/)?fleetscope ([a-z]+)(?![\w:])(.*)", line.strip()) for line in code(read(name))]
    return [(match[1], match[2].split()) for match in found if match]


@pytest.mark.parametrize("name", NAMES)
def test_every_command_and_option_that_is_shown_exists(name: str) -> None:
    for command, words in shown(name):
        assert command in COMMANDS, command
        known = {text for parameter in COMMANDS[command].params for text in parameter.opts}
        assert {word.split("=")[0] for word in words if word.startswith("--")} <= known, words
        if command == "query" and words and not words[0].startswith("-"):
            assert words[0] in load_queries(), words


def test_commands_are_found_where_they_are_shown() -> None:
    assert ("query", ["top_limits"]) in shown("README.md")
    assert ("process", ["align", "windows", "…"]) in shown("docs/operations.md")


@pytest.mark.parametrize("name", NAMES)
def test_every_setting_that_is_named_exists(name: str) -> None:
    settings = Settings()
    for group, field in re.findall(r"FLEETSCOPE_([A-Z]+)__([A-Z_]+)", read(name)):
        assert hasattr(getattr(settings, group.lower()), field.lower()), f"{group}__{field}"


def test_readme_and_command_line_know_the_same_commands() -> None:
    listed = re.findall(r"^\| `([a-z]+)` \|", read("README.md"), re.MULTILINE)
    assert sorted(listed) == sorted(COMMANDS)


def test_operations_names_every_unit_and_the_limits_of_the_code() -> None:
    text = read("docs/operations.md")
    assert [unit for unit in UNITS if f"`{unit}`" not in text] == []
    assert f"more than {MAX_LAG:,} messages" in text


@pytest.mark.parametrize("name", NAMES)
def test_no_document_knows_the_machine_it_was_written_on(name: str) -> None:
    assert not re.search(r"/work/|/root/|/tmp/", read(name))
