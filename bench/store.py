"""What the benchmarks ask of a store beside inserting."""

from __future__ import annotations

from fleetscope.store.abstract import Store


def disk_bytes(store: Store, table: str) -> int:
    """Bytes of the active parts of ``table`` as they stand; 0 for an empty table."""
    sql = ("SELECT sum(bytes_on_disk) FROM system.parts "
           "WHERE active AND database = currentDatabase() AND table = {table:String}")
    return int(store.command(sql, {"table": table}) or 0)


def require_rows(store: Store, table: str, expected: int) -> int:
    """Returns ``expected``; RuntimeError where ``table`` holds another number of rows."""
    stored = int(store.command(f"SELECT count() FROM {table}"))
    if stored != expected:
        raise RuntimeError(f"{table}: {expected} rows were expected, {stored} are stored")
    return stored
