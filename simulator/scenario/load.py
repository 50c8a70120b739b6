"""Reads scenarios: TOML, distributions drawn by seed, validated with one clear line."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

from pydantic import ValidationError

from fleetscope.errors import UsageError
from simulator.scenario.draw import DrawError, drawn
from simulator.scenario.schema import Scenario
from simulator.scenario.source import Source

SCENARIOS: Final = Path(__file__).parents[1] / "scenarios"


def scenario_names() -> list[str]:
    """Names of the scenarios that come with the package."""
    return sorted(path.stem for path in SCENARIOS.glob("*.toml"))


def load_scenario(name_or_path: str | Path, seed: int = 0) -> Scenario:
    """A scenario by name or from a TOML file, its distributions drawn by ``seed``.

    UsageError names file, line, key and reason.
    """
    text = str(name_or_path)
    path = Path(text)
    if path.suffix != ".toml":
        if text not in scenario_names():
            raise UsageError(f"there is no scenario {text!r}; known are {', '.join(scenario_names())}, "
                             "or give the path of a .toml file")
        path = SCENARIOS / f"{text}.toml"
    try:
        content = path.read_text(encoding="utf-8")
        values = tomllib.loads(content)
    except OSError as error:
        raise UsageError(f"scenario {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"scenario {path}: {error}") from error
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
