"""What goes in comes out, for every contract."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, from_rows
from fleetscope.contracts.codec import MAX_ROWS, decode_header, encode, encode_header, encode_within
from fleetscope.contracts.raw import CLOCK_SAMPLES, COUNTERS, SPANS
from fleetscope.errors import RejectedError
from tests.support.contract_batches import batches, header, plain, read


@pytest.mark.parametrize("name", sorted(CONTRACTS))
@given(data=st.data())
@settings(max_examples=12, deadline=None)
def test_a_batch_of_any_contract_comes_back_as_it_was(name: str, data: st.DataObject) -> None:
    batch = data.draw(batches(CONTRACTS[name]))
    back = read(encode(batch))
    assert back.rows.to_pylist() == batch.rows.to_pylist()
    assert back.rows.schema.equals(CONTRACTS[name].schema())
    back.rows.validate(full=True)


def test_headers_come_back_with_the_time_range_of_the_rows() -> None:
    batch = Batch(header(SPANS, 3, sequence=12, row0=40, dropped_rows=2, flushed_ticks=-5), plain(SPANS).rows)
    back = read(encode(batch)).header
    assert (back.min_time, back.max_time) == (1_000, 1_002)
    assert (back.sequence, back.row0, back.dropped_rows, back.flushed_ticks, back.watermark_ns) == (12, 40, 2, -5, None)


@given(st.integers(0, (1 << 63) - 1), st.text("abcß/中-", min_size=1, max_size=20), st.none() | st.integers(-9, 9))
def test_any_header_survives_its_text_form(sequence: int, producer: str, watermark: int | None) -> None:
    original = header(SPANS, 0, sequence=sequence, producer=producer, watermark_ns=watermark)
    assert decode_header(encode_header(original)) == original


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_floats_that_are_no_numbers_are_refused_by_row(value: float) -> None:
    rows = [{"counter": "c", "status": "ok", "time_ticks": 0, "value": v} for v in (1.0, None, value)]
    with pytest.raises(RejectedError, match=r"not_finite: value is .* in row 2"):
        read(encode(Batch(header(COUNTERS, 3), from_rows(COUNTERS, rows))))


def test_minus_zero_and_null_come_back_as_they_were() -> None:
    rows = [{"counter": "c", "status": "ok", "time_ticks": 0, "value": v} for v in (-0.0, None)]
    back = read(encode(Batch(header(COUNTERS, 2), from_rows(COUNTERS, rows)))).rows.column("value").to_pylist()
    assert math.copysign(1, back[0]) == -1
    assert back[1] is None


@pytest.mark.parametrize(("column", "value"), [("remote_first_ticks", 1 << 63), ("local_after_ticks", 1 << 62),
                                               ("remote_hz", 1 << 41)])
def test_stamps_and_frequencies_that_would_overflow_are_refused(column: str, value: int) -> None:
    row = {"kind": "exchange", "local_clock": "monotonic_raw", "remote_clock": "dev0", "local_before_ticks": 1,
           "remote_first_ticks": 2, "local_after_ticks": 3, "local_hz": 10**9, "remote_hz": 10**9, column: value - 1}
    rows = [{**row, column: min(value + 1, (1 << 63) - 1)}]
    with pytest.raises(RejectedError, match=f"absurd_value: {column}"):
        read(encode(Batch(header(CLOCK_SAMPLES, 1), from_rows(CLOCK_SAMPLES, rows))))


def test_columns_without_values_cost_nothing_but_their_name() -> None:
    rows = [{"track": "driver", "name": "n", "start_ticks": i, "duration_ticks": 1} for i in range(20_000)]
    encoded = encode(Batch(header(SPANS, len(rows)), from_rows(SPANS, rows)))
    assert len(encoded.value) < 5 * len(rows)
    assert read(encoded).rows.column("flops").null_count == len(rows)


def test_a_batch_too_large_for_a_message_is_cut_without_losing_or_repeating_a_row() -> None:
    batch = plain(SPANS, 1_000)
    parts = encode_within(batch, limit=8_000)
    assert len(parts) > 1
    assert all(len(encode(part).value) <= 8_000 for part in parts)
    assert [part.header.row0 for part in parts] == [sum(len(p) for p in parts[:i]) for i in range(len(parts))]
    assert [row for part in parts for row in read(encode(part)).rows.to_pylist()] == batch.rows.to_pylist()


def test_a_row_that_no_message_can_hold_is_refused_at_the_source() -> None:
    with pytest.raises(ValueError, match="one row of spans is larger than 100 bytes"):
        encode_within(plain(SPANS, 1), limit=100)


def test_too_many_rows_are_refused_at_the_source() -> None:
    with pytest.raises(ValueError, match="65537 rows in one batch, at most 65536"):
        encode(plain(COUNTERS, MAX_ROWS + 1))


def test_rows_of_another_contract_are_refused_at_the_source() -> None:
    with pytest.raises(ValueError, match="rows do not have the contract's schema"):
        encode(Batch(header(SPANS, 3), plain(COUNTERS).rows))
