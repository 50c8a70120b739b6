"""The pure part of the JSON pipeline: events to JSON and back, busy windows."""

from __future__ import annotations

from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.json_rows import SPANS_TABLE, WINDOWS_TABLE, Aligner, Busy, BusyWindows, Rows, messages, windows_table
from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.derived import ALIGNED_SPANS, STATE_NAMES, WINDOWS
from fleetscope.contracts.raw import SPANS
from fleetscope.errors import Origin
from fleetscope.store.arrange import arrange

SECOND = 1_000_000_000


def batch(*rows: dict[str, Any], clock: str = "dev0") -> Batch:
    full = [{"track": "engine:matrix", "name": "gemm", "start_ticks": 0, "duration_ticks": 1, **row} for row in rows]
    header = Header("spans", 1, "host0", "host0/agent", 7, 0, len(rows), clock=clock)
    return Batch(header, from_rows(SPANS, full))


def rows() -> Rows:
    return Rows(Aligner(), BusyWindows())


def test_a_message_carries_what_is_known_of_the_span_and_no_nulls() -> None:
    (message,) = messages(batch({"device": "dev0", "start_ticks": 5, "wait_ids": [3, 4],
                                 "attributes": [("k", "v")]}))
    assert orjson.loads(message) == {
        "host": "host0", "clock": "dev0", "device": "dev0", "track": "engine:matrix", "name": "gemm", "start_ns": 5,
        "duration_ns": 1, "wait_ids": [3, 4], "attributes": {"k": "v"}}


def test_a_value_that_only_some_rows_have_is_left_out_of_the_others() -> None:
    first, second = (orjson.loads(m) for m in messages(batch({"bytes": 0}, {"flops": 9})))
    assert (first["bytes"], "flops" in first) == (0, False)
    assert ("bytes" in second, second["flops"]) == (False, 9)


def test_ticks_of_another_rate_become_ns_at_the_source_without_floats() -> None:
    ticks = (1 << 60) // SECOND * 19_200_000 + 7
    (message,) = messages(batch({"start_ticks": ticks, "duration_ticks": 192}), hz=19_200_000)
    assert orjson.loads(message)["start_ns"] == ticks * SECOND // 19_200_000
    assert orjson.loads(message)["duration_ns"] == 10_000


def test_a_clock_keeps_the_offset_of_its_first_event() -> None:
    aligner = Aligner()
    event = {"host": "h", "clock": "c", "start_ns": 1_000, "duration_ns": 500}
    assert aligner.align(event, time_ms=1_700_000_000_000) == 1_700_000_000_000_000_000 - 500
    later = {**event, "start_ns": 9_000}
    assert aligner.align(later, time_ms=1_900_000_000_000) == 1_700_000_000_000_000_000 - 500 + 8_000


def test_events_come_out_as_columns_of_the_table_in_their_order() -> None:
    waiting = rows()
    source = batch({"device": "dev0", "start_ticks": 10, "duration_ticks": 5, "wait_ids": [1],
                    "attributes": [("k", "v")], "bytes": 1 << 60},
                   {"start_ticks": 20, "duration_ticks": 2, "track": "driver", "name": "ünï'\"\n"})
    for offset, message in enumerate(messages(source), start=40):
        waiting.add(message, partition=3, offset=offset, time_ms=1_000)
    table, unfit = waiting.take()
    assert (table.schema, unfit, len(waiting)) == (SPANS_TABLE, [], 0)
    first, second = table.to_pylist()
    assert (first["start_ticks"], first["start_ns"], first["duration_ns"]) == (10, 1_000_000_000 - 5, 5)
    assert (first["wait_ids"], first["attributes"], first["bytes"]) == ([1], [("k", "v")], 1 << 60)
    assert (first["epoch"], first["sequence"], first["row"], first["producer"]) == (3, 40, 0, "json")
    assert (second["wait_ids"], second["attributes"], second["device"], second["bytes"]) == ([], [], None, None)
    assert (second["name"], second["start_ns"], second["input_offset"]) == ("ünï'\"\n", 1_000_000_000 + 5, 41)


def test_rows_have_the_columns_that_the_same_tables_get_from_batches() -> None:
    for contract, schema in ((ALIGNED_SPANS, SPANS_TABLE), (WINDOWS, WINDOWS_TABLE)):
        empty = Batch(Header(contract.name, 1, "h", "p", 0, 0, 0), from_rows(contract, []), Origin("t", 0, 0))
        theirs = arrange([empty]).schema
        plain = {f.name: pa.string() if pa.types.is_dictionary(f.type) else f.type for f in theirs}
        assert dict(zip(schema.names, schema.types, strict=True)) == plain


@pytest.mark.parametrize("value", [None, b"", b"{", b"[]", b"1", b"{}", b'{"host":"h","clock":"c","start_ns":1}',
                                   b'{"host":"h","clock":"c","start_ns":"1","duration_ns":2}'])
def test_what_is_no_event_is_refused_and_leaves_nothing_behind(value: bytes | None) -> None:
    waiting = rows()
    with pytest.raises((ValueError, KeyError, TypeError)):
        waiting.add(value, partition=0, offset=0, time_ms=0)
    assert len(waiting) == 0


def test_a_value_of_another_type_costs_that_event_and_no_other() -> None:
    waiting = rows()
    good = next(messages(batch({"device": "dev0"})))
    bad = orjson.dumps({**orjson.loads(good), "bytes": "many"})
    for offset, message in enumerate((good, bad, good)):
        waiting.add(message, partition=1, offset=offset, time_ms=0)
    table, unfit = waiting.take()
    assert table.column("input_offset").to_pylist() == [0, 2]
    assert len(unfit) == 1
    assert unfit[0].startswith("[1]@1: ")


def test_only_work_on_a_device_makes_it_busy() -> None:
    busy = BusyWindows()
    waiting = Rows(Aligner(), busy)
    tracks = ("engine:matrix", "pcie_h2d", "driver", "host_api", "cpu_thread")
    source = batch(*({"device": "dev0", "track": t, "start_ticks": i * 10, "duration_ticks": 5}
                     for i, t in enumerate(tracks)), {"track": "engine:matrix", "start_ticks": 90})
    for offset, message in enumerate(messages(source)):
        waiting.add(message, partition=0, offset=offset, time_ms=1_000)
    assert sum(w.busy_ns for w in busy.rest()) == 10


def test_a_span_over_an_edge_counts_in_each_window_by_its_part() -> None:
    busy = BusyWindows()
    busy.add("h", "d", SECOND - 3, SECOND + 10, partition=0, offset=8)
    assert busy.rest() == [Busy("h", "d", 0, 3, 0, 8), Busy("h", "d", SECOND, SECOND, 0, 8),
                           Busy("h", "d", 2 * SECOND, 7, 0, 8)]
    assert busy.rest() == []


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 25)), max_size=30))
def test_busy_time_in_order_of_start_is_the_union_counted_ns_by_ns(spans: list[tuple[int, int]]) -> None:
    busy = BusyWindows(window_ns=10)
    known: set[int] = set()
    start, counted = 0, []
    for gap, length in spans:
        start += gap
        busy.add("h", "d", start, length, 0, 0)
        known.update(range(start, start + length))
        counted.extend(busy.closed())
    counted.extend(busy.rest())
    found = {w.start_ns: w.busy_ns for w in counted}
    assert len(found) == len(counted)
    assert found == {edge: sum(edge <= ns < edge + 10 for ns in known)
                     for edge in {ns - ns % 10 for ns in known}}


def test_windows_are_given_out_once_a_later_one_is_over() -> None:
    busy = BusyWindows(window_ns=10)
    busy.add("h", "d", 0, 4, 0, 0)
    busy.add("h", "d", 12, 7, 0, 1)
    assert busy.closed() == []
    busy.add("h", "d", 19, 1, 0, 2)
    assert [w.start_ns for w in busy.closed()] == [0]
    assert [w.start_ns for w in busy.rest()] == [10]


def test_the_states_of_a_stored_window_add_up_to_its_length() -> None:
    table = windows_table([Busy("h", "d", SECOND, 250, 2, 77)])
    assert table.schema == WINDOWS_TABLE
    (row,) = table.to_pylist()
    assert sum(row[f"{state}_ns"] or 0 for state in STATE_NAMES) == row["window_ns"] == SECOND
    assert (row["kernel_unattributed_ns"], row["revision"], row["input_partition"]) == (250, 77, 2)
    assert row["job"] is None


def test_no_windows_make_an_empty_table_of_the_same_columns() -> None:
    table = windows_table([])
    assert (table.num_rows, table.schema) == (0, WINDOWS_TABLE)
    assert isinstance(table, pa.Table)
