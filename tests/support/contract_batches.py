"""Batches of any contract, generated from its description, and messages damaged on purpose."""

from __future__ import annotations

import pyarrow as pa
import zstandard
from hypothesis import strategies as st

from fleetscope.contracts import Column, Contract
from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.codec import MAX_DURATION, MAX_FLEET_NS, MAX_TIME, MIN_TIME, Encoded, decode
from fleetscope.errors import Origin, RejectedError

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
WORDS = st.text(max_size=12)
ORIGIN = Origin("raw.test", 3, 41)


def header(contract: Contract, rows: int, **changes: object) -> Header:
    """A valid header for ``rows`` rows of ``contract``."""
    fields: dict[str, object] = {
        "contract": contract.name, "version": contract.version, "host": "host-1", "producer": "host-1/agent",
        "epoch": 7, "sequence": 0, "rows": rows, "clock": "monotonic_raw",
    }
    return Header(**(fields | changes))  # type: ignore[arg-type]


def values(column: Column, contract: Contract) -> st.SearchStrategy[object]:
    """Values that ``column`` must accept."""
    found = _present(column, contract)
    return st.none() | found if column.nullable else found


def _present(column: Column, contract: Contract) -> st.SearchStrategy[object]:
    kind = column.type
    if column.name.startswith("duration_") and pa.types.is_integer(kind):
        return st.integers(0, MAX_DURATION)
    if column.name in (contract.time_column, "start_ticks"):
        return st.integers(0, MAX_FLEET_NS) if column.name.endswith("_ns") else st.integers(MIN_TIME, MAX_TIME)
    if pa.types.is_integer(kind):
        low = -(1 << 63) if column.minimum is None else column.minimum
        return st.integers(low, (1 << 63) - 1 if column.maximum is None else column.maximum)
    if pa.types.is_floating(kind):
        return st.floats(allow_nan=False, allow_infinity=False)
    if pa.types.is_boolean(kind):
        return st.booleans()
    if pa.types.is_list(kind):
        return st.lists(INT64, max_size=3)
    if pa.types.is_map(kind):
        return st.lists(st.tuples(WORDS, WORDS), max_size=3)
    assert pa.types.is_string(kind) or pa.types.is_dictionary(kind), f"no values for {kind}"
    return WORDS


def batches(contract: Contract, max_rows: int = 8) -> st.SearchStrategy[Batch]:
    """Valid batches of ``contract``, empty ones among them."""
    row = st.fixed_dictionaries({c.name: values(c, contract) for c in contract.columns})
    return st.lists(row, max_size=max_rows).map(
        lambda rows: Batch(header(contract, len(rows)), from_rows(contract, rows)))


def plain(contract: Contract, rows: int = 3) -> Batch:
    """A small batch with every column filled, the same each time."""
    return Batch(header(contract, rows), from_rows(contract, [_plain_row(contract, i) for i in range(rows)]))


def _plain_row(contract: Contract, i: int) -> dict[str, object]:
    row: dict[str, object] = {}
    for column in contract.columns:
        kind = column.type
        if pa.types.is_integer(kind):
            row[column.name] = 1_000 + i
        elif pa.types.is_floating(kind):
            row[column.name] = 0.5 * i
        elif pa.types.is_boolean(kind):
            row[column.name] = i % 2 == 0
        elif pa.types.is_list(kind):
            row[column.name] = list(range(i))
        elif pa.types.is_map(kind):
            row[column.name] = [("key", f"value {i}")]
        else:
            row[column.name] = f"{column.name}-{i % 2}"
    return row


def stream_bytes(rows: pa.RecordBatch, *more: pa.RecordBatch, compression: str | None = None) -> bytes:
    """An Arrow IPC stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        for batch in (rows, *more):
            writer.write_batch(batch)
    return bytes(sink.getvalue().to_pybytes())


def message(content: bytes, like: Encoded) -> Encoded:
    """The message ``like`` with other content in its frame."""
    return Encoded(like.key, zstandard.ZstdCompressor(level=1).compress(content), like.headers)


def with_header(encoded: Encoded, name: str, value: bytes | None) -> Encoded:
    """The message with one header replaced, or left out for None."""
    kept = tuple((k, v) for k, v in encoded.headers if k != name)
    return Encoded(encoded.key, encoded.value, kept if value is None else (*kept, (name, value)))


def content_of(encoded: Encoded) -> bytes:
    """The Arrow IPC stream inside a message."""
    return bytes(zstandard.ZstdDecompressor().decompress(encoded.value))


def read(encoded: Encoded) -> Batch:
    """Decode as a reader of ``ORIGIN`` would."""
    return decode(encoded.key, encoded.value, encoded.headers, ORIGIN)


def outcome(encoded: Encoded, contract: Contract) -> str:
    """``ok`` or the code of the rejection; any other exception, or rows that break the contract, go through."""
    try:
        batch = read(encoded)
    except RejectedError as error:
        if error.origin != ORIGIN or "\n" in str(error):
            raise AssertionError(f"not one line that names the place: {error!r}") from error
        return error.code
    assert batch.rows.schema.equals(contract.schema())
    assert batch.rows.num_rows == batch.header.rows
    batch.rows.to_pylist()  # every value can be read
    return "ok"
