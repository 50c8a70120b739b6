"""The documented SQL library: files ``sql/queries/NAME.sql`` that say what they take and what they return.

The head of a file is a comment: a purpose, then ``Arguments`` (``name Type = default: meaning``) and ``Result``
(``name [unit]: meaning``), one a line. Arguments are bound by the server.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Final

from fleetscope.errors import UsageError
from fleetscope.store.abstract import Parameter

_ARGUMENT: Final = re.compile(r"^(\w+) (String|U?Int(?:8|16|32|64)|Float64) = (.+?): (.+)$")
_RESULT: Final = re.compile(r"^(\w+)(?: \[(.+?)\])?: (.+)$")


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a query, of a ClickHouse type, with its default."""

    name: str
    type: str
    default: Parameter
    doc: str

    def parse(self, text: str) -> Parameter:
        """The value that a person wrote; UsageError where it is not of the type."""
        if self.type == "String":
            return text
        try:
            value: float | int = float(text) if self.type == "Float64" else int(text.replace("_", ""))
        except ValueError as error:
            raise UsageError(f"argument {self.name}: {text!r} is no {self.type}") from error
        if self.type != "Float64":
            bits = int(self.type.lstrip("UInt"))
            low, high = (0, 2**bits) if self.type.startswith("U") else (-(2 ** (bits - 1)), 2 ** (bits - 1))
            if not low <= value < high:
                raise UsageError(f"argument {self.name}: {text} does not fit {self.type}")
        return value


@dataclass(frozen=True, slots=True)
class ResultColumn:
    """One column of a query's result; ``unit`` is empty for names and counts."""

    name: str
    unit: str
    doc: str


@dataclass(frozen=True, slots=True)
class Query:
    """One file of the library."""

    name: str
    purpose: str
    arguments: tuple[Argument, ...]
    columns: tuple[ResultColumn, ...]
    sql: str

    def parameters(self, given: Mapping[str, str]) -> dict[str, Parameter]:
        """Values of all arguments: those ``given`` as text, defaults for the rest. UsageError for an unknown name."""
        known = {argument.name: argument for argument in self.arguments}
        for name in given:
            if name not in known:
                raise UsageError(f"query {self.name} has no argument {name}; it takes {', '.join(known) or 'none'}")
        return {name: argument.parse(given[name]) if name in given else argument.default
                for name, argument in known.items()}


def load_queries(folder: Traversable | None = None) -> dict[str, Query]:
    """Every query by name, in the order of names."""
    folder = folder or resources.files("sql").joinpath("queries")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return {name.removesuffix(".sql"): parse_query(name.removesuffix(".sql"),
                                                   folder.joinpath(name).read_text(encoding="utf-8")) for name in names}


def find_query(name: str) -> Query:
    """The query called ``name``; UsageError listing those there are."""
    queries = load_queries()
    if name not in queries:
        raise UsageError(f"no query {name}; there are {', '.join(queries)}")
    return queries[name]


def parse_query(name: str, text: str) -> Query:
    """The query that ``text`` describes; ValueError naming the line of the head that is not understood."""
    purpose: list[str] = []
    arguments: list[Argument] = []
    columns: list[ResultColumn] = []
    section = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.startswith("--"):
            break
        words = line.removeprefix("--").strip()
        if words in ("Arguments", "Result"):
            section = words
        elif not words:
            continue
        elif section == "Arguments" and (match := _ARGUMENT.match(words)):
            arguments.append(Argument(match[1], match[2], ast.literal_eval(match[3]), match[4]))
        elif section == "Result" and (match := _RESULT.match(words)):
            columns.append(ResultColumn(match[1], match[2] or "", match[3]))
        elif section:
            raise ValueError(f"query {name}, line {number}: {section.lower()} not understood: {words}")
        else:
            purpose.append(words)
    if not purpose or not columns:
        raise ValueError(f"query {name}: the head must state a purpose and the result's columns")
    return Query(name, " ".join(purpose), tuple(arguments), tuple(columns), text)
