"""Rows and headers that break the contract are rejected with a stable code and a reason that names the place."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from fleetscope.contracts.batch import Batch, from_rows
from fleetscope.contracts.codec import MAX_DURATION, MAX_FLEET_NS, MAX_TIME, Limits, decode, encode
from fleetscope.contracts.derived import ALIGNED_SPANS, WINDOWS
from fleetscope.contracts.raw import COUNTERS, SPANS
from fleetscope.contracts.schema import Contract
from fleetscope.errors import RejectedError
from tests.support.contract_batches import ORIGIN, header, message, plain, read, stream_bytes, with_header

GOOD = encode(plain(SPANS))


def rejected(rows: pa.RecordBatch) -> str:
    """The text of the rejection of a spans message with these rows."""
    encoded = with_header(with_header(message(stream_bytes(rows), GOOD), "fs-min-time", None), "fs-max-time", None)
    with pytest.raises(RejectedError) as caught:
        read(with_header(encoded, "fs-rows", str(rows.num_rows).encode()))
    return str(caught.value)


def changed(name: str, array: pa.Array) -> pa.RecordBatch:
    """Three valid span rows with one column replaced."""
    rows = plain(SPANS).rows
    return rows.set_column(rows.schema.get_field_index(name), name, array)


def test_a_missing_column_is_named() -> None:
    assert rejected(plain(SPANS).rows.drop_columns(["track"])) == "raw.test[3]@41: missing_column: track"


def test_even_a_nullable_column_must_be_there() -> None:
    assert rejected(plain(SPANS).rows.drop_columns(["flops"])) == "raw.test[3]@41: missing_column: flops"


def test_an_unknown_column_is_named_in_one_short_line() -> None:
    text = rejected(plain(SPANS).rows.append_column("new\nline" + "x" * 900, pa.array([1, 2, 3])))
    assert "unknown_column: 'new\\nline" in text
    assert len(text) < 120


def test_a_column_that_stands_twice_is_rejected() -> None:
    rows = plain(SPANS).rows
    assert "a column stands twice" in rejected(rows.append_column("track", rows.column("track")))


@pytest.mark.parametrize("array", [
    pa.array([1, 2, 3], pa.int32()), pa.array([1.0, 2.0, 3.0]), pa.array(["1", "2", "3"]),
    pa.array([1, 2, 3], pa.timestamp("ns")), pa.array([b"1", b"2", b"3"]), pa.array([1, 2, 3], pa.uint64()),
    pa.array([{"a": 1}] * 3), pa.nulls(3), pa.array([1, 2, 3]).dictionary_encode(),
], ids=lambda array: str(array.type).split("<")[0])
def test_an_integer_column_of_another_type_is_rejected(array: pa.Array) -> None:
    assert ": wrong_type: start_ticks is " in rejected(changed("start_ticks", array))


@pytest.mark.parametrize("array", [
    pa.array([1, 2, 3]), pa.array([b"a", b"b", b"c"]), pa.array(["a", "b", "c"], pa.large_string()),
    pa.array(["a", "b", "c"]).dictionary_encode().cast(pa.dictionary(pa.int8(), pa.string())),
], ids=lambda array: str(array.type).split(",")[0])
def test_a_symbol_column_of_another_type_is_rejected(array: pa.Array) -> None:
    assert ": wrong_type: track is " in rejected(changed("track", array))


def test_symbols_may_come_as_plain_text() -> None:
    rows = changed("track", pa.array(["driver", "pcie_h2d", "driver"]))
    encoded = message(stream_bytes(rows), GOOD)
    assert read(encoded).rows.column("track").to_pylist() == ["driver", "pcie_h2d", "driver"]


@pytest.mark.parametrize("name", [c.name for c in SPANS.columns if not c.nullable])
def test_a_null_in_a_column_that_must_not_be_null_is_rejected(name: str) -> None:
    column = plain(SPANS).rows.column(name)
    with_null = pa.array([*column.to_pylist()[:2], None], pa.string() if column.type != pa.int64() else pa.int64())
    if column.type != pa.int64():
        with_null = with_null.dictionary_encode()
    assert f": null: {name} is null in 1 rows" in rejected(changed(name, with_null))


def test_a_null_hidden_in_a_dictionary_is_rejected() -> None:
    hidden = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), pa.array(["driver", None]))
    assert "the dictionary of track has a null" in rejected(changed("track", hidden))


def test_an_index_outside_the_dictionary_is_corrupt() -> None:
    wild = pa.DictionaryArray.from_arrays(pa.array([0, 99, 0], pa.int32()), pa.array(["driver"]), safe=False)
    assert ": corrupt: " in rejected(changed("track", wild))


def test_text_that_is_not_utf8_is_corrupt() -> None:
    raw = pa.array([b"\xff\xfe", b"b", b"c"]).view(pa.string())
    assert ": corrupt: " in rejected(changed("track", raw))
    words = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2], pa.int32()), raw)
    assert ": corrupt: " in rejected(changed("track", words))


@pytest.mark.parametrize(("name", "value"), [("duration_ticks", -1), ("bytes", -5), ("flops", -(1 << 63))])
def test_a_negative_amount_is_rejected_with_its_row(name: str, value: int) -> None:
    text = rejected(changed(name, pa.array([1, value, 1])))
    assert f": negative: {name} is {value} in row 1, at least 0" in text


@pytest.mark.parametrize(("name", "value"), [
    ("start_ticks", MAX_TIME + 1), ("start_ticks", -MAX_TIME - 1), ("start_ticks", (1 << 63) - 1),
    ("start_ticks", -(1 << 63)), ("duration_ticks", MAX_DURATION + 1), ("duration_ticks", (1 << 63) - 1),
])
def test_absurd_times_are_rejected(name: str, value: int) -> None:
    assert f": absurd_time: {name} from " in rejected(changed(name, pa.array([1, 1, value])))


@pytest.mark.parametrize(("contract", "name", "value"), [
    (ALIGNED_SPANS, "start_ns", MAX_FLEET_NS + 1), (ALIGNED_SPANS, "start_ns", -1),
    (ALIGNED_SPANS, "duration_ns", MAX_DURATION + 1), (ALIGNED_SPANS, "duration_ticks", MAX_DURATION + 1),
    (ALIGNED_SPANS, "start_ticks", MAX_TIME + 1), (WINDOWS, "window_start_ns", MAX_FLEET_NS + 1),
])
def test_absurd_times_of_derived_rows_are_rejected(contract: Contract, name: str, value: int) -> None:
    rows = plain(contract).rows
    rows = rows.set_column(rows.schema.get_field_index(name), rows.schema.field(name), pa.array([1, 1, value]))
    with pytest.raises(RejectedError) as caught:
        read(encode(Batch(header(contract, 3), rows)))
    assert caught.value.code == "absurd_time"
    assert name in caught.value.reason


def test_no_accepted_span_ends_past_int64() -> None:
    extreme = {"track": "driver", "name": "n", "start_ticks": MAX_TIME, "duration_ticks": MAX_DURATION}
    back = read(encode(Batch(header(SPANS, 1), from_rows(SPANS, [extreme])))).rows.to_pylist()[0]
    assert back["start_ticks"] + back["duration_ticks"] < 1 << 63
    assert MAX_FLEET_NS + MAX_DURATION < 1 << 63


@pytest.mark.parametrize("name", ["contract", "version", "host", "producer", "epoch", "sequence", "rows"])
def test_a_missing_header_is_named(name: str) -> None:
    with pytest.raises(RejectedError, match=f"missing_header: no header {name}"):
        read(with_header(GOOD, f"fs-{name}", None))


@pytest.mark.parametrize(("name", "value", "code"), [
    ("rows", b"many", "bad_header"), ("rows", b"-1", "bad_header"), ("rows", b"", "bad_header"),
    ("rows", b"1_0", "bad_header"), ("rows", b" 3", "bad_header"), ("rows", "٣".encode(), "bad_header"),
    ("rows", b"9" * 400, "bad_header"), ("sequence", b"9223372036854775808", "bad_header"),
    ("epoch", b"\xff", "bad_header"), ("epoch", b"1.0", "bad_header"), ("row0", b"-1", "bad_header"),
    ("dropped-rows", b"-1", "bad_header"), ("producer", b"", "bad_header"), ("producer", b"p" * 513, "bad_header"),
    ("producer", b"two\nlines", "bad_header"), ("clock", b"\x00", "bad_header"),
    ("rows", b"65537", "too_large"), ("rows", b"4", "wrong_rows"), ("rows", b"0", "wrong_rows"),
    ("version", b"0", "unknown_version"), ("version", b"%d" % (SPANS.version + 1), "unknown_version"),
    ("version", b"-1", "unknown_version"),
    ("contract", b"spam", "unknown_contract"), ("contract", b"counters", "unknown_version"),
    ("host", b"host-2", "wrong_key"), ("min-time", b"999", "absurd_time"), ("max-time", b"0", "absurd_time"),
    ("min-time", b"1e3", "bad_header"), ("watermark-ns", b"x", "bad_header"),
])
def test_a_header_that_does_not_fit_is_rejected(name: str, value: bytes, code: str) -> None:
    with pytest.raises(RejectedError) as caught:
        read(with_header(GOOD, f"fs-{name}", value))
    assert caught.value.code == code
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_a_header_that_stands_twice_is_rejected() -> None:
    with pytest.raises(RejectedError, match="'fs-rows' stands twice"):
        decode(GOOD.key, GOOD.value, (*GOOD.headers, ("fs-rows", b"2")), ORIGIN)


def test_headers_of_others_are_left_alone() -> None:
    foreign = (("traceparent", b"\xff"), ("content-type", b""))
    assert len(decode(GOOD.key, GOOD.value, (*foreign, *GOOD.headers), ORIGIN)) == 3




def test_a_header_without_a_value_is_rejected() -> None:
    headers: Any = tuple((name, None if name == "fs-rows" else value) for name, value in GOOD.headers)
    with pytest.raises(RejectedError, match="'fs-rows' is not UTF-8 text"):
        decode(GOOD.key, GOOD.value, headers, ORIGIN)


def test_a_message_without_a_value_is_rejected() -> None:
    with pytest.raises(RejectedError, match="the message has no value"):
        decode(GOOD.key, None, GOOD.headers, ORIGIN)


def test_a_reader_may_accept_less_than_the_contract_allows() -> None:
    with pytest.raises(RejectedError, match="3 rows claimed, at most 2"):
        decode(GOOD.key, GOOD.value, GOOD.headers, ORIGIN, Limits(rows=2))


def test_a_wrong_time_range_in_an_empty_batch_harms_nobody() -> None:
    encoded = encode(Batch(header(COUNTERS, 0), from_rows(COUNTERS, [])))
    assert len(read(encoded)) == 0
