"""`fleetscope migrate`: bring the schema of a store to this version."""

from __future__ import annotations

from typing import Annotated

import typer

from fleetscope.cli.common import JsonOption, console, print_json, settings
from fleetscope.cli.stores import ClickHouseOption, DataDirChoice, open_chosen

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, change nothing.")]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("migrate", epilog="Example: fleetscope migrate --clickhouse localhost:8123 --dry-run")(migrate)


def migrate(clickhouse: ClickHouseOption = None, data_dir: DataDirChoice = None, dry_run: DryRunOption = False,
            json: JsonOption = False) -> None:
    """Create or update the tables of a store, and set how long their rows are kept.

    Safe to repeat. Refuses a database newer than this program and migrations edited after they were applied.
    Retention: FLEETSCOPE_STORE__TTL_DAYS='{"spans": 3}', 0 keeps for ever.
    """
    from fleetscope.store import migrate as migrations

    with open_chosen(clickhouse, data_dir, create=not dry_run) as store:
        done = migrations.migrate(store, settings().store.ttl_days, dry_run=dry_run)
        version = store.version()
    if json:
        print_json({"dry_run": dry_run, "database": store.database, "server_version": version,
                    "applied": list(done.applied), "already": list(done.already), "retention_days": done.retention})
        return
    what = "would apply" if dry_run else "applied"
    screen = console()
    for name in done.applied:
        screen.print(f"{what} {name}")
    for table, days in done.retention.items():
        screen.print(f"{'would keep' if dry_run else 'keeps'} {table} {f'{days} days' if days else 'for ever'}")
    if not done.applied and not done.retention:
        screen.print(f"database {store.database} is up to date ({len(done.already)} migrations)")
