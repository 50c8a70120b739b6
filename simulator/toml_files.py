"""TOML files that come with the package or from the user: found by name or path, and read with one clear error."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from fleetscope.errors import UsageError


def names_in(folder: Path) -> list[str]:
    """Names of the files of a folder, without their ending."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def find(what: str, name_or_path: str | Path, folder: Path) -> Path:
    """The path itself where it ends in .toml, else the file of that name in ``folder``. UsageError lists the names."""
    text = str(name_or_path)
    if Path(text).suffix == ".toml":
        return Path(text)
    if text not in names_in(folder):
        raise UsageError(f"there is no {what} {text!r}; known are {', '.join(names_in(folder))}, "
                         "or give the path of a .toml file")
    return folder / f"{text}.toml"


def read(what: str, path: Path) -> tuple[str, dict[str, Any]]:
    """Text and values of a file. UsageError names what it is, the file and the reason."""
    try:
        text = path.read_text(encoding="utf-8")
        return text, tomllib.loads(text)
    except OSError as error:
        raise UsageError(f"{what} {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{what} {path}: {error}") from error
