"""Which store a command works on: --clickhouse, --data-dir, or what the environment names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fleetscope.cli.common import DEFAULT_DATA_DIR, open_embedded, settings

if TYPE_CHECKING:
    from fleetscope.settings import StoreSettings
    from fleetscope.store.abstract import Store

ClickHouseOption = Annotated[str | None, typer.Option(
    "--clickhouse", metavar="HOST:PORT", help="ClickHouse server; user and the rest come from FLEETSCOPE_STORE__*.")]
DataDirChoice = Annotated[Path | None, typer.Option(
    "--data-dir", help=f"Folder of the embedded store (without a server: {DEFAULT_DATA_DIR}).", show_default=False)]


def server_settings(clickhouse: str | None) -> StoreSettings | None:
    """Settings of the server that ``clickhouse`` or the environment names, None where neither does.

    UsageError for an address that is not HOST:PORT.
    """
    from fleetscope.errors import UsageError

    stored = settings().store
    if clickhouse is None:
        return stored if "host" in stored.model_fields_set or stored.path is not None else None
    host, colon, port = clickhouse.rpartition(":")
    if not colon or not host or not port.isdecimal() or not 1 <= int(port) <= 65_535:
        raise UsageError(f"--clickhouse {clickhouse}: must be HOST:PORT, such as localhost:8123")
    return stored.model_copy(update={"path": None, "host": host.strip("[]"), "port": int(port)})


def open_chosen(clickhouse: str | None, data_dir: Path | None, *, create: bool = False) -> Store:
    """The store that the options name: --clickhouse, else --data-dir, else the environment's, else the default folder.

    UsageError where both options are given, and as `open_store`.
    """
    from fleetscope.errors import UsageError

    if clickhouse is not None and data_dir is not None:
        raise UsageError("--clickhouse and --data-dir exclude each other")
    named = server_settings(clickhouse) if data_dir is None else None
    if named is None:
        return open_embedded(data_dir or DEFAULT_DATA_DIR, create=create)
    from fleetscope.store.clickhouse import open_store

    return open_store(named, create=create)
