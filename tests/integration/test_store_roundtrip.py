"""A batch of every contract through arrange, insert and select comes back equal, over every kind of connection."""

from __future__ import annotations

import math
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetscope.contracts import CONTRACTS, Contract
from fleetscope.contracts.batch import Batch, from_rows
from fleetscope.contracts.derived import ALIGNED, ALIGNED_SPANS, DERIVED, WINDOWS
from fleetscope.errors import Origin
from fleetscope.store.arrange import arrange, table_of
from fleetscope.store.clickhouse import ClickHouseStore
from fleetscope.store.migrate import migrate
from tests.support.contract_batches import batches, header
from tests.support.stores import embedded, real_server, server, store

__all__ = ["embedded", "real_server", "server", "store"]

STORED = (*ALIGNED, *DERIVED)
WORDS = ["", "plain", "Ünïcödé 😀", "quote ' \" `", "'); DROP TABLE spans;--", "back\\slash \\n", "tab\tline\nend",
         "%s {n:Int64}"]
NUMBERS = [0, 2**53 + 1, -1, -(2**63), 2**63 - 1, 7, 42, 1]


def hostile(contract: Contract, i: int) -> dict[str, object]:
    """Row ``i`` with awkward values; every third row has nulls wherever the contract allows."""
    row: dict[str, object] = {}
    for place, column in enumerate(contract.columns):
        pick = i + place
        kind = column.type
        if column.nullable and i % 3 == 2:
            row[column.name] = None
        elif column.name == contract.time_column:
            row[column.name] = 1_790_000_000_000_000_000 + i
        elif pa.types.is_integer(kind):
            number = NUMBERS[pick % len(NUMBERS)]
            row[column.name] = number if column.minimum is None or number >= column.minimum else column.minimum
        elif pa.types.is_floating(kind):
            row[column.name] = [0.1, -1e300, math.inf, 5e-324][pick % 4]
        elif pa.types.is_boolean(kind):
            row[column.name] = pick % 2 == 0
        elif pa.types.is_list(kind):
            row[column.name] = NUMBERS[:pick % 4]
        elif pa.types.is_map(kind):
            row[column.name] = [(word, WORDS[(pick + 1) % len(WORDS)]) for word in WORDS[:pick % 4]]
        else:
            row[column.name] = WORDS[pick % len(WORDS)]
    return row


def published(contract: Contract, rows: list[dict[str, object]], offset: int) -> Batch:
    return Batch(header(contract, len(rows), sequence=offset, host=WORDS[3], producer=WORDS[4]),
                 from_rows(contract, rows), Origin("topic", 2, offset))


def stored(store: ClickHouseStore, table: str, columns: list[str]) -> list[dict[str, object]]:
    names = ", ".join(f"`{name}`" for name in columns)
    return store.query(f"SELECT {names} FROM {table}").to_pylist()


NEWER: set[str] = {column.name for column in CONTRACTS["windows"].columns if column.since > 1}
"""What old windows lack adds nothing to their sums: null is stored as 0."""


def comparable(rows: list[dict[str, object]]) -> list[str]:
    return sorted(repr(sorted((name, 0 if value is None and name in NEWER else value) for name, value in row.items()))
                  for row in rows)


def test_awkward_rows_of_every_contract_come_back_equal(store: ClickHouseStore) -> None:
    migrate(store)
    for contract in STORED:
        rows = [hostile(contract, i) for i in range(8)]
        table = arrange([published(contract, rows[:4], 0), published(contract, rows[4:], 1)])
        store.insert(table_of(contract.name), table, token="t")
        store.insert(table_of(contract.name), table, token="t")
        found = stored(store, table_of(contract.name), table.column_names)
        assert comparable(found) == comparable(table.to_pylist()), contract.name


@pytest.mark.parametrize("contract", STORED, ids=lambda c: c.name)
@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_valid_batch_comes_back_equal(embedded: ClickHouseStore, contract: Contract, data: st.DataObject) -> None:
    migrate(embedded)
    table_name = table_of(contract.name)
    embedded.command(f"TRUNCATE TABLE {table_name}")
    table = arrange([replace(data.draw(batches(contract)), origin=Origin("topic", 0, 5))])
    embedded.insert(table_name, table)
    found = stored(embedded, table_name, table.column_names)
    if "Replacing" not in embedded.command("SELECT engine FROM system.tables WHERE database = currentDatabase() "
                                           "AND name = {name:String}", {"name": table_name}):
        assert comparable(found) == comparable(table.to_pylist())
    else:
        assert set(comparable(found)) <= set(comparable(table.to_pylist()))
        assert bool(found) == bool(table.num_rows)


def test_a_later_revision_replaces_a_window_and_an_earlier_one_does_not(embedded: ClickHouseStore) -> None:
    migrate(embedded)
    base = hostile(WINDOWS, 0) | {"host": "h", "device": "d", "window_start_ns": 10**18, "window_ns": 10**9}
    for offset, revision in ((0, 5), (1, 9), (2, 7)):
        rows = [base | {"revision": revision, "kernels": revision}]
        embedded.insert("windows", arrange([published(WINDOWS, rows, offset)]))
    assert embedded.query("SELECT revision, kernels FROM windows FINAL").to_pylist() == [{"revision": 9, "kernels": 9}]


def test_questions_by_host_device_and_time_read_few_granules(embedded: ClickHouseStore) -> None:
    migrate(embedded)
    day = 86_400 * 10**9
    base = hostile(ALIGNED_SPANS, 0) | {"track": "engine:0"}
    rows = [base | {"device": f"dev{i % 2}", "start_ns": (20_000 + i // 30_000) * day + i % 30_000 * 10**9}
            for i in range(60_000)]
    embedded.insert("spans", arrange([published(ALIGNED_SPANS, rows, 0)]))
    plan = "\n".join(row["explain"] for row in embedded.query(
        "EXPLAIN indexes = 1 SELECT count() FROM spans WHERE host = {host:String} AND device = 'dev1' AND track = "
        "'engine:0' AND time >= fromUnixTimestamp64Nano({low:Int64}, 'UTC') "
        "AND time < fromUnixTimestamp64Nano({high:Int64}, 'UTC')",
        {"host": WORDS[3], "low": 20_001 * day, "high": 20_001 * day + 10**12}).to_pylist())
    assert "Parts: 1/2" in plan  # by day
    assert "Granules: 3/4" in plan  # by host, device and track
    assert "Granules: 1/3" in plan  # by the index over the alias


def test_rows_of_one_input_offset_are_found_by_the_index(embedded: ClickHouseStore) -> None:
    migrate(embedded)
    for offset in range(3):
        embedded.insert("spans", arrange([published(ALIGNED_SPANS, [hostile(ALIGNED_SPANS, 1)] * 3, offset)]))
    plan = "\n".join(row["explain"] for row in embedded.query(
        "EXPLAIN indexes = 1 SELECT count() FROM spans WHERE input_offset = 1").to_pylist())
    assert "Name: input_offsets" in plan
    assert embedded.command("SELECT count() FROM spans WHERE input_offset = 1") == "3"
