"""Bytes to batches and back; the only place where what came from outside is validated.

The value of a message is one zstd frame around one Arrow IPC stream with one record batch. The frame states its
content size, so that a batch which claims 10 GB is refused before a byte of it is decompressed. Columns that are null
throughout travel as Arrow's null type. Symbol columns are dictionaries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from fleetscope.contracts import CONTRACTS, Column, Contract
from fleetscope.contracts.batch import Batch, Header
from fleetscope.errors import Origin, RejectedError

Headers = tuple[tuple[str, bytes], ...]

MAX_ROWS: Final = 65_536
MAX_MESSAGE_BYTES: Final = 900 * 1024
MAX_CONTENT_BYTES: Final = 64 * 1024 * 1024
MAX_NAME_CHARS: Final = 512
MIN_TIME: Final = -(1 << 62)
MAX_TIME: Final = 1 << 62
MAX_FLEET_NS: Final = 7_258_118_400_000_000_000
"""2200-01-01: aligned times after it are absurd (and near the end of DateTime64(9))."""

_TEXT_HEADERS: Final = ("contract", "host", "producer", "clock")
_REQUIRED: Final = ("contract", "version", "host", "producer", "epoch", "sequence", "rows")
_PREFIX: Final = "fs-"


@dataclass(frozen=True, slots=True)
class Encoded:
    """A message ready to be sent; ``key`` is the host."""

    key: bytes
    value: bytes
    headers: Headers


@dataclass(frozen=True, slots=True)
class Limits:
    """What a reader accepts."""

    message_bytes: int = 1024 * 1024
    content_bytes: int = MAX_CONTENT_BYTES
    rows: int = MAX_ROWS


_compressor = zstandard.ZstdCompressor(level=1, write_content_size=True, write_checksum=False)
_WRITE = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=False, unify_dictionaries=False)


def encode(batch: Batch) -> Encoded:
    """The message of a batch. Raises ValueError where the rows are not of the contract or too many."""
    contract = CONTRACTS[batch.header.contract]
    if not batch.rows.schema.equals(contract.schema(batch.header.version)):
        raise ValueError(f"{contract.name}: rows do not have the contract's schema")
    if batch.rows.num_rows > MAX_ROWS:
        raise ValueError(f"{contract.name}: {batch.rows.num_rows} rows in one batch, at most {MAX_ROWS}")
    header = replace(with_time_range(batch.header, contract, batch.rows), rows=batch.rows.num_rows)
    sink = pa.BufferOutputStream()
    slim = _without_null_columns(batch.rows)
    with pa.ipc.new_stream(sink, slim.schema, options=_WRITE) as writer:
        writer.write_batch(slim)
    value = _compressor.compress(memoryview(sink.getvalue()))
    return Encoded(header.host.encode(), value, encode_header(header))


def encode_within(batch: Batch, limit: int = MAX_MESSAGE_BYTES) -> list[Batch]:
    """The batch itself, or halves of it where its message would pass ``limit`` bytes. Halves need own sequences."""
    if len(batch) <= MAX_ROWS and len(encode(batch).value) <= limit:
        return [batch]
    if len(batch) < 2:
        raise ValueError(f"one row of {batch.header.contract} is larger than {limit} bytes")
    half = len(batch) // 2
    return [*encode_within(batch.slice(0, half), limit), *encode_within(batch.slice(half, len(batch) - half), limit)]


def with_time_range(header: Header, contract: Contract, rows: pa.RecordBatch) -> Header:
    """The header with min and max of the contract's time column."""
    if contract.time_column is None or rows.num_rows == 0:
        return replace(header, min_time=None, max_time=None)
    bounds = pc.min_max(rows.column(contract.time_column))
    return replace(header, min_time=bounds["min"].as_py(), max_time=bounds["max"].as_py())


def _without_null_columns(rows: pa.RecordBatch) -> pa.RecordBatch:
    count = rows.num_rows
    arrays, fields = [], []
    for field, array in zip(rows.schema, rows.columns, strict=True):
        if count and field.nullable and array.null_count == count:
            arrays.append(pa.nulls(count))
            fields.append(pa.field(field.name, pa.null()))
        else:
            arrays.append(array)
            fields.append(field)
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def encode_header(header: Header) -> Headers:
    """Headers as Kafka carries them: text, one entry a field, absent where None."""
    fields = ((name, getattr(header, name)) for name in Header.__dataclass_fields__)
    return tuple((_PREFIX + name.replace("_", "-"), str(value).encode()) for name, value in fields if value is not None)


def decode_header(headers: Iterable[tuple[str, bytes]], origin: Origin | None = None) -> Header:
    """The header of a message; raises RejectedError naming what is missing or malformed."""
    raw: dict[str, str] = {}
    for key, value in headers:
        if key.startswith(_PREFIX):
            try:
                raw[key[len(_PREFIX):].replace("-", "_")] = value.decode()
            except (UnicodeDecodeError, AttributeError) as error:
                raise RejectedError("bad_header", f"{key} is not UTF-8 text", origin) from error
    missing = [name for name in _REQUIRED if name not in raw]
    if missing:
        raise RejectedError("missing_header", f"no header {missing[0]}", origin)
    return _typed_header(raw, origin)


def _typed_header(raw: Mapping[str, str], origin: Origin | None) -> Header:
    values: dict[str, object] = {}
    for name in Header.__dataclass_fields__:
        text = raw.get(name)
        if text is None:
            continue
        if name in _TEXT_HEADERS:
            if len(text) > MAX_NAME_CHARS or (not text and name != "clock"):
                raise RejectedError("bad_header", f"{name} has {len(text)} characters", origin)
            values[name] = text
        else:
            values[name] = _integer(name, text, origin)
    header = Header(**values)  # type: ignore[arg-type]
    for name in ("epoch", "sequence", "rows", "row0", "dropped_rows"):
        if getattr(header, name) < 0:
            raise RejectedError("bad_header", f"{name} is negative", origin)
    return header


def _integer(name: str, text: str, origin: Origin | None) -> int:
    try:
        value = int(text) if len(text) <= 20 else None
    except ValueError:
        value = None
    if value is None or not -(1 << 63) <= value < (1 << 63):
        raise RejectedError("bad_header", f"{name} is no 64-bit integer: {text[:40]!r}", origin)
    return value


def decode(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes]], origin: Origin | None = None,
           limits: Limits = Limits()) -> Batch:  # noqa: B008 - frozen
    """A validated batch in the current version's schema. Raises RejectedError with a stable code.

    Codes: too_large, missing_header, bad_header, unknown_contract, unknown_version, wrong_key, corrupt,
    wrong_rows, missing_column, unknown_column, wrong_type, null, negative, absurd_time.
    """
    if value is None:
        raise RejectedError("corrupt", "the message has no value", origin)
    if len(value) > limits.message_bytes:
        raise RejectedError("too_large", f"{len(value)} bytes, at most {limits.message_bytes}", origin)
    header = decode_header(headers, origin)
    contract = CONTRACTS.get(header.contract)
    if contract is None:
        raise RejectedError("unknown_contract", header.contract, origin)
    if not contract.version - 1 <= header.version <= contract.version or header.version < 1:
        raise RejectedError("unknown_version", f"{contract.name} version {header.version}, this code reads "
                            f"{max(contract.version - 1, 1)} to {contract.version}", origin)
    if key is not None and key != header.host.encode():
        raise RejectedError("wrong_key", f"the key is not the host {header.host}", origin)
    if header.rows > limits.rows:
        raise RejectedError("too_large", f"{header.rows} rows claimed, at most {limits.rows}", origin)
    rows = conform(_open(value, header, limits, origin), contract, header, origin)
    return Batch(replace(header, version=contract.version), rows, origin)


def _open(value: bytes, header: Header, limits: Limits, origin: Origin | None) -> pa.RecordBatch:
    try:
        size = zstandard.frame_content_size(value)
    except zstandard.ZstdError as error:
        raise RejectedError("corrupt", f"no zstd frame: {error}", origin) from error
    if size < 0:
        raise RejectedError("corrupt", "the frame does not state its size", origin)
    if size > limits.content_bytes:
        raise RejectedError("too_large", f"the frame claims {size} bytes, at most {limits.content_bytes}", origin)
    try:
        content = zstandard.ZstdDecompressor().decompress(value, max_output_size=limits.content_bytes)
        with pa.ipc.open_stream(pa.py_buffer(content)) as reader:
            batch = reader.read_next_batch()
            extra = next(iter(reader), None)
        batch.validate(full=True)
    except (zstandard.ZstdError, pa.ArrowException, StopIteration, OSError, MemoryError) as error:
        raise RejectedError("corrupt", f"{type(error).__name__}: {error}"[:300], origin) from error
    if extra is not None:
        raise RejectedError("corrupt", "more than one record batch", origin)
    if batch.num_rows != header.rows:
        raise RejectedError("wrong_rows", f"{batch.num_rows} rows, the header says {header.rows}", origin)
    return batch


def conform(rows: pa.RecordBatch, contract: Contract, header: Header, origin: Origin | None = None) -> pa.RecordBatch:
    """Rows checked against the version of the header and brought to the current schema."""
    columns = {c.name: c for c in contract.at(header.version)}
    names = rows.schema.names
    if len(set(names)) != len(names):
        raise RejectedError("unknown_column", "a column stands twice", origin)
    for name in names:
        if name not in columns:
            raise RejectedError("unknown_column", name, origin)
    arrays = []
    for column in contract.columns:
        if column.name not in columns:
            arrays.append(pa.nulls(rows.num_rows, column.type))
            continue
        index = rows.schema.get_field_index(column.name)
        if index < 0:
            raise RejectedError("missing_column", column.name, origin)
        arrays.append(_checked(rows.column(index), column, rows.num_rows, origin))
    result = pa.RecordBatch.from_arrays(arrays, schema=contract.schema())
    _check_times(result, contract, header, origin)
    return result


def _checked(array: pa.Array, column: Column, rows: int, origin: Origin | None) -> pa.Array:
    name, wanted, nullable = column.name, column.type, column.nullable
    if array.type != wanted:
        if pa.types.is_null(array.type) and nullable:
            return pa.nulls(rows, wanted)
        if pa.types.is_dictionary(wanted) and pa.types.is_string(array.type):
            array = array.dictionary_encode()
        elif not (pa.types.is_null(array.type) and rows == 0):
            raise RejectedError("wrong_type", f"{name} is {array.type}, not {wanted}", origin)
        else:
            return pa.nulls(0, wanted)
    if pa.types.is_dictionary(wanted) and array.dictionary.null_count:
        raise RejectedError("null", f"the dictionary of {name} has a null", origin)
    if array.null_count and not nullable:
        raise RejectedError("null", f"{name} is null in {array.null_count} rows", origin)
    minimum = column.minimum
    if minimum is not None and rows and array.null_count < rows:
        low = pc.min(array).as_py()
        if low < minimum:
            row = pc.index(array, pa.scalar(low, array.type)).as_py()
            raise RejectedError("negative", f"{name} is {low} in row {row}, at least {minimum}", origin)
    return array


def _check_times(rows: pa.RecordBatch, contract: Contract, header: Header, origin: Origin | None) -> None:
    if contract.time_column is None or rows.num_rows == 0:
        return
    bounds = pc.min_max(rows.column(contract.time_column))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    fleet = contract.time_column.endswith("_ns")
    if low < (0 if fleet else MIN_TIME) or high > (MAX_FLEET_NS if fleet else MAX_TIME):
        raise RejectedError("absurd_time", f"{contract.time_column} from {low} to {high}", origin)
    if contract.duration_column is not None:
        longest = pc.max(rows.column(contract.duration_column)).as_py()
        if longest > MAX_TIME:
            raise RejectedError("absurd_time", f"{contract.duration_column} up to {longest}", origin)
    if (header.min_time, header.max_time) != (low, high) and header.min_time is not None:
        raise RejectedError("absurd_time", f"times run from {low} to {high}, the header says {header.min_time} to "
                            f"{header.max_time}", origin)
