from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, Part, from_rows
from fleetscope.contracts.derived import ALIGNED, ALIGNED_HEARTBEATS, ALIGNED_SPANS, DERIVED, WINDOWS
from fleetscope.errors import Origin
from fleetscope.store.arrange import arrange, table_of
from tests.support.contract_batches import plain


def spans(rows: int = 3, *, offset: int = 0, **header: object) -> Batch:
    batch = plain(ALIGNED_SPANS, rows)
    return replace(batch, header=replace(batch.header, **header), origin=Origin("aligned.spans", 2, offset))


def test_identity_counts_rows_within_each_batch_and_starts_at_its_first_row() -> None:
    table = arrange([spans(3, sequence=4, offset=10), spans(2, sequence=5, row0=100, offset=11, producer="other")])
    assert table["row"].to_pylist() == [0, 1, 2, 100, 101]
    assert table["sequence"].to_pylist() == [4, 4, 4, 5, 5]
    assert table["producer"].to_pylist() == ["host-1/agent"] * 3 + ["other"] * 2
    assert table["input_offset"].to_pylist() == [10, 10, 10, 11, 11]
    assert table["input_partition"].to_pylist() == [2] * 5
    assert table["late"].to_pylist() == [False] * 5


def test_a_slice_of_a_batch_keeps_the_identity_of_its_rows() -> None:
    whole = arrange([spans(5)])
    sliced = arrange([spans(5).slice(2, 3)])
    assert sliced["row"].to_pylist() == [2, 3, 4]
    assert sliced.to_pylist() == whole.slice(2, 3).to_pylist()


@pytest.mark.parametrize("contract", [*ALIGNED, *DERIVED], ids=lambda c: c.name)
def test_every_column_of_the_contract_stays_as_it_is(contract) -> None:
    batch = replace(plain(contract), origin=Origin("t", 0, 1))
    table = arrange([batch])
    for name in contract.schema().names:
        assert table[name].to_pylist() == batch.rows[name].to_pylist(), name


def test_null_lists_and_maps_become_empty_also_in_slices() -> None:
    rows = [{"wait_ids": None, "attributes": [("a", "b")]}, {"wait_ids": [1, 2], "attributes": None},
            {"wait_ids": [], "attributes": None}, {"wait_ids": None, "attributes": []}, {"wait_ids": [3]}]
    base = plain(ALIGNED_SPANS, 1).rows.to_pylist()[0]
    batch = Batch(spans(5).header, from_rows(ALIGNED_SPANS, [base | {"attributes": None} | row for row in rows]),
                  Origin("t", 0, 0))
    table = arrange([batch, batch.slice(1, 4)])
    assert table["wait_ids"].to_pylist() == [[], [1, 2], [], [], [3], [1, 2], [], [], [3]]
    assert table["attributes"].to_pylist() == [[("a", "b")], [], [], [], [], [], [], [], []]
    assert table["wait_ids"].null_count == table["attributes"].null_count == 0


def test_a_null_list_that_owns_values_becomes_empty_too() -> None:
    batch = spans(3)
    offsets, values = pa.array([0, 2, 4, 5], pa.int32()), pa.array([1, 2, 3, 4, 5], pa.int64())
    owning = pa.ListArray.from_arrays(offsets, values, mask=pa.array([False, True, False]))
    index = batch.rows.schema.get_field_index("wait_ids")
    rows = batch.rows.set_column(index, batch.rows.schema.field("wait_ids"), owning)
    assert arrange([replace(batch, rows=rows)])["wait_ids"].to_pylist() == [[1, 2], [], [5]]


def test_heartbeats_keep_their_own_clock_column_beside_the_clock_of_the_batch() -> None:
    table = arrange([replace(plain(ALIGNED_HEARTBEATS), origin=Origin("t", 0, 0))])
    assert table["batch_clock"].to_pylist() == ["monotonic_raw"] * 3
    assert table["clock"].to_pylist() != table["batch_clock"].to_pylist()


def test_derived_rows_get_no_identity_of_a_producer() -> None:
    table = arrange([replace(plain(WINDOWS), origin=Origin("windows", 1, 9))])
    assert set(table.column_names) - set(WINDOWS.schema().names) == {"input_partition", "input_offset"}


def test_batches_of_two_contracts_are_refused() -> None:
    other = replace(plain(WINDOWS), origin=Origin("windows", 0, 0))
    with pytest.raises(ValueError, match="aligned_spans and windows"):
        arrange([spans(), other])


def test_a_batch_that_was_never_published_is_refused() -> None:
    with pytest.raises(ValueError, match="without origin"):
        arrange([replace(spans(), origin=None)])


def test_no_batches_are_refused() -> None:
    with pytest.raises(ValueError, match="no batches"):
        arrange([])


def test_raw_contracts_have_no_table() -> None:
    assert table_of("aligned_spans") == "spans"
    assert table_of("windows") == "windows"
    with pytest.raises(KeyError):
        table_of(CONTRACTS["spans"].name)


def test_rows_before_the_time_that_the_header_names_are_late_and_no_others() -> None:
    times = spans(3).rows["start_ns"].to_pylist()
    table = arrange([spans(3, late_before_ns=times[1]), spans(3, offset=1), spans(3, late_before_ns=times[2] + 1,
                                                                                 offset=2).slice(1, 2)])
    assert len(set(times)) == 3
    assert times == sorted(times)
    assert table["late"].to_pylist() == [True, False, False, False, False, False, True, True]


def test_rows_of_several_batches_in_one_message_keep_their_own_identities() -> None:
    parts = (Part("h1/agent", 3, "dev0", 40, 0, 2, 2), Part("h1/other", 5, "monotonic_raw", 7, 10, 1, 30))
    table = arrange([spans(3, parts=parts), spans(2, offset=1)])
    assert table["producer"].to_pylist()[:4] == ["h1/agent", "h1/agent", "h1/other", spans().header.producer]
    assert table["epoch"].to_pylist()[:3] == [3, 3, 5]
    assert table["sequence"].to_pylist()[:3] == [40, 40, 7]
    assert table["row"].to_pylist()[:3] == [0, 1, 10]
    assert table["clock"].to_pylist()[:3] == ["dev0", "dev0", "monotonic_raw"]
    assert table["row"].to_pylist()[3:] == [spans().header.row0, spans().header.row0 + 1]
