"""What every command shares: options, the two output channels and the exit codes.

Command modules import nothing heavy at the top: `fleetscope --help` stays under half a second.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from fleetscope.settings import Settings
    from fleetscope.store.abstract import Store

EXIT_OK = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2

DEFAULT_DATA_DIR = Path("fleetscope-data")

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout; the rest goes to stderr.")]
DataDirOption = Annotated[Path, typer.Option("--data-dir", help="Folder of the embedded store.", show_default=True)]


def console() -> Console:
    """Where people read while a command works: stderr."""
    from rich.console import Console

    return Console(stderr=True, highlight=False)


def out() -> Console:
    """Where the result goes: stdout."""
    from rich.console import Console

    return Console(highlight=False)


def print_json(document: Any) -> None:
    """One JSON document on stdout."""
    json.dump(document, sys.stdout, indent=2, sort_keys=False, default=str)
    sys.stdout.write("\n")


def settings() -> Settings:
    """Settings from the environment; UsageError names the first one that is wrong."""
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    from fleetscope.errors import UsageError
    from fleetscope.settings import Settings

    try:
        return Settings()
    except ValidationError as error:
        first = error.errors()[0]
        name = "FLEETSCOPE_" + "__".join(str(part).upper() for part in first["loc"])
        raise UsageError(f"setting {name}: {first['msg']}") from error
    except SettingsError as error:
        raise UsageError(f"settings of the environment (FLEETSCOPE_…): {error}".replace("\n", " ")) from error


def open_embedded(data_dir: Path, *, create: bool = False) -> Store:
    """The embedded store of ``data_dir``; UsageError where there is none or another process holds it."""
    from fleetscope.errors import UsageError
    from fleetscope.settings import StoreSettings
    from fleetscope.store.clickhouse import open_store

    if not create and not (data_dir / "store").is_dir():
        raise UsageError(f"{data_dir} holds no store; make one with: fleetscope demo --data-dir {data_dir}")
    return open_store(StoreSettings(path=data_dir / "store"))
