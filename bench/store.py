"""What the benchmarks ask of a store beside inserting."""

from __future__ import annotations

from fleetscope.store.abstract import Store


def disk_bytes(store: Store, table: str) -> int:
    """Bytes of the active parts of ``table`` after one part a partition was merged; 0 for an empty table."""
    store.command(f"OPTIMIZE TABLE {table} FINAL")  # a table's name cannot be a parameter; ours are constants
    sql = ("SELECT sum(bytes_on_disk) FROM system.parts "
           "WHERE active AND database = currentDatabase() AND table = {table:String}")
    return int(store.command(sql, {"table": table}) or 0)
