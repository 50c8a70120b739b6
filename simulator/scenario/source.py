"""Where a scenario came from, so that whatever is wrong with it can be told with file, line, key and reason."""

from __future__ import annotations

import re
from dataclasses import dataclass

from pydantic import ValidationError

from fleetscope.errors import UsageError
from simulator.scenario.lines import Path, line_of


@dataclass(frozen=True, slots=True)
class Source:
    """A TOML text and its file."""

    file: str
    text: str = ""

    def error(self, path: Path, reason: str) -> UsageError:
        """``scenario file, line n: key: reason``."""
        line = line_of(self.text, path)
        where = f"scenario {self.file}{f', line {line}' if line else ''}"
        return UsageError(f"{where}: {key_of(path)}: {reason}" if path else f"{where}: {reason}")

    def validation(self, error: ValidationError, values: object, prefix: Path = ()) -> UsageError:
        """The first thing pydantic found. ``values`` are those validated: they tell keys from pydantic's own marks."""
        first = error.errors()[0]
        reason = first["msg"].removeprefix("Value error, ")
        path = (*prefix, *_within(values, tuple(first["loc"])))
        if first["type"] == "value_error":
            path, reason = _led(first["input"], path, reason)
        if first["type"] == "extra_forbidden":
            reason = "there is no such key"
        elif first["type"] == "union_tag_invalid":
            path, reason = (*path, "kind"), f"there is no kind {first['ctx']['tag']!r}; known are " \
                                            f"{first['ctx']['expected_tags']}"
        elif first["type"] == "union_tag_not_found":
            reason = "needs kind"
        elif first["type"] not in ("missing", "value_error"):
            reason = f"{reason} (given: {first['input']!r})" if len(repr(first["input"])) < 80 else reason
        return self.error(path, reason)


def key_of(path: Path) -> str:
    """``faults[2].at_s`` of ("faults", 2, "at_s")."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _within(values: object, loc: Path) -> Path:
    """``loc`` without the names of union members that pydantic puts between keys."""
    path: Path = ()
    for place, part in enumerate(loc):
        inside = part in values if isinstance(values, dict) else \
            isinstance(values, list | tuple) and isinstance(part, int) and part < len(values)
        if inside:
            values = values[part]  # type: ignore[index]
        elif place < len(loc) - 1 or (isinstance(values, dict) and part == values.get("kind")):
            continue
        path = (*path, part)
    return path


def _led(values: object, path: Path, reason: str) -> tuple[Path, str]:
    """Keys that lead a reason (``batch: max_batch: is at least 1``) belong to the path; names of sections fall away."""
    key, colon, rest = reason.partition(": ")
    while colon and re.fullmatch(r"[a-z_]+", key):
        if isinstance(values, dict) and key in values:
            path, values = (*path, key), values[key]
        elif not re.match(r"[a-z_]+: ", rest):
            break
        reason = rest
        key, colon, rest = reason.partition(": ")
    return path, reason
