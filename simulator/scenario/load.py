"""Reads scenarios: TOML, distributions drawn by seed, validated with one clear line."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from pydantic import ValidationError

from simulator.scenario.draw import DrawError, drawn
from simulator.scenario.schema import Scenario
from simulator.scenario.source import Source
from simulator.toml_files import find, names_in, read

SCENARIOS: Final = Path(__file__).parents[1] / "scenarios"


def scenario_names() -> list[str]:
    """Names of the scenarios that come with the package."""
    return names_in(SCENARIOS)


def load_scenario(name_or_path: str | Path, seed: int = 0) -> Scenario:
    """A scenario by name or from a TOML file, its distributions drawn by ``seed``.

    UsageError names file, line, key and reason.
    """
    path = find("scenario", name_or_path, SCENARIOS)
    content, values = read("scenario", path)
    return parse_scenario({"name": path.stem, **values}, Source(str(path), content), seed)


def parse_scenario(values: dict[str, object], source: Source, seed: int = 0) -> Scenario:
    """A scenario of ``values``. UsageError names file, line, key and reason."""
    try:
        concrete = drawn(values, seed)
    except DrawError as error:
        raise source.error(error.path, str(error)) from error
    try:
        scenario = Scenario.model_validate(concrete)
    except ValidationError as error:
        raise source.validation(error, concrete) from error
    return scenario.checked(source)
