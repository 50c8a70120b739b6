"""On which line of a TOML text a key stands, for messages about wrong scenarios."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

Path = tuple[str | int, ...]

_HEADER: Final = re.compile(r"^\s*(\[\[?)([^\[\]]+)\]\]?\s*(?:#.*)?$")
_WORD: Final = r"(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')"
_KEY: Final = re.compile(rf"^\s*({_WORD}(?:\s*\.\s*{_WORD})*)\s*=")


def line_of(text: str, path: Path) -> int | None:
    """Line (from 1) of the key at ``path``, or of the deepest part of it that stands in ``text``; None where none does.

    A path names tables and keys by words and entries of arrays of tables by numbers; keys inside inline tables are
    found at the line of the key that holds the table.
    """
    best, depth = None, 0
    for number, found in _keys(text):
        shared = len(found) if path[:len(found)] == found else 0
        if shared > depth:
            best, depth = number, shared
    return best


def _keys(text: str) -> Iterator[tuple[int, Path]]:
    """(line, path) of every header and key that begins a line."""
    table: Path = ()
    counts: dict[Path, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if header := _HEADER.match(line):
            table = _resolved(_words(header.group(2)), counts, grows=header.group(1) == "[[")
            yield number, table
        elif key := _KEY.match(line):
            yield number, (*table, *_words(key.group(1)))


def _resolved(words: Path, counts: dict[Path, int], *, grows: bool) -> Path:
    """``words`` with the number of the present entry after each array of tables on the way."""
    path: Path = ()
    for place, word in enumerate(words):
        path = (*path, word)
        if grows and place == len(words) - 1:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path = (*path, counts[path])
    return path


def _words(dotted: str) -> Path:
    return tuple(word.strip().strip("\"'") for word in dotted.split("."))
