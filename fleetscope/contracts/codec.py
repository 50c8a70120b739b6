"""Bytes to batches and back; the only place where what came from outside is validated.

The value of a message is one zstd frame around one Arrow IPC stream with one record batch. The frame states its
content size, so that a batch which claims 10 GB is refused before a byte of it is decompressed. Inside it nothing is
compressed again, and the schema is compared before any column is read. Columns that are null throughout travel as
Arrow's null type. Symbol columns are dictionaries.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import zstandard

from fleetscope.contracts import CONTRACTS, Column, Contract
from fleetscope.contracts.batch import Batch, Header, Part
from fleetscope.contracts.derived import ALIGNED
from fleetscope.contracts.ipc import check_stream
from fleetscope.contracts.parts import parts_of, parts_text
from fleetscope.errors import Origin, RejectedError

Headers = tuple[tuple[str, bytes], ...]

MAX_ROWS: Final = 65_536
MAX_MESSAGE_BYTES: Final = 900 * 1024
MAX_CONTENT_BYTES: Final = 64 * 1024 * 1024
MAX_NAME_CHARS: Final = 512
MAX_HOST_CHARS: Final = 253
"""As in the DNS; names of derived producers hold the host's."""
MIN_TIME: Final = -(1 << 62)
MAX_TIME: Final = 1 << 62
MAX_DURATION: Final = 1 << 60
"""36 years of nanoseconds. No accepted start plus an accepted length overflows int64."""
MAX_FLEET_NS: Final = 7_258_118_400_000_000_000
"""2200-01-01: aligned times after it are absurd (and near the end of DateTime64(9))."""

_TEXT_HEADERS: Final = ("contract", "host", "producer", "clock")
_REQUIRED: Final = ("contract", "version", "host", "producer", "epoch", "sequence", "rows")
_PREFIX: Final = "fs-"
_PARTS: Final = "parts"
_KEYS: Final = {name: _PREFIX + name.replace("_", "-") for name in Header.__dataclass_fields__}
_NAMES: Final = {key: name for name, key in _KEYS.items()}
_NULL, _DICTIONARY, _STRING, _DOUBLE = (pa.null().id, pa.dictionary(pa.int32(), pa.string()).id, pa.string().id,
                                        pa.float64().id)
_INTEGER: Final = re.compile(r"-?[0-9]{1,19}", re.ASCII)


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




class _Frames(threading.local):
    """zstd contexts are not safe between threads: each thread has its own."""

    def __init__(self) -> None:
        self.compressor = zstandard.ZstdCompressor(level=1, write_content_size=True, write_checksum=False)
        self.decompressor = zstandard.ZstdDecompressor()


_frames = _Frames()
_WRITE = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=False, unify_dictionaries=False)


def encode(batch: Batch) -> Encoded:
    """The message of a batch. Raises ValueError where the rows are not of the contract or too many."""
    contract = CONTRACTS[batch.header.contract]
    if not batch.rows.schema.equals(contract.schema(batch.header.version)):
        raise ValueError(f"{contract.name}: rows do not have the contract's schema")
    if batch.rows.num_rows > MAX_ROWS:
        raise ValueError(f"{contract.name}: {batch.rows.num_rows} rows in one batch, at most {MAX_ROWS}")
    if batch.header.parts and sum(part.rows for part in batch.header.parts) != batch.rows.num_rows:
        raise ValueError(f"{contract.name}: {batch.rows.num_rows} rows, but not in the parts")
    header = replace(with_time_range(batch.header, contract, batch.rows), rows=batch.rows.num_rows)
    sink = pa.BufferOutputStream()
    slim = _without_null_columns(batch.rows, contract, batch.header.version)
    with pa.ipc.new_stream(sink, slim.schema, options=_WRITE) as writer:
        writer.write_batch(slim)
    value = _frames.compressor.compress(memoryview(sink.getvalue()))
    return Encoded(header.host.encode(), value, encode_header(header))


def encode_within(batch: Batch, limit: int = MAX_MESSAGE_BYTES) -> list[Batch]:
    """The batch itself, or halves of it where its message would pass ``limit`` bytes. Halves need own sequences."""
    if len(batch) <= MAX_ROWS and len(encode(batch).value) <= limit:
        return [batch]
    if len(batch) < 2:
        raise ValueError(f"one row of {batch.header.contract} is larger than {limit} bytes")
    half = len(batch) // 2
    return [*encode_within(batch.slice(0, half), limit), *encode_within(batch.slice(half, len(batch) - half), limit)]


def encode_pieces(batch: Batch, limit: int = MAX_MESSAGE_BYTES) -> list[Encoded]:
    """Messages of at most ``limit`` bytes with the rows of a batch whose rows may travel apart: each knows its identity
    by sequence and row. Only the last one promises the watermark. Raises ValueError as `encode`, and for one row that
    is larger."""
    if len(batch) <= MAX_ROWS:
        message = encode(batch)
        if len(message.value) <= limit:
            return [message]
    if len(batch) < 2:
        raise ValueError(f"one row of {batch.header.contract} is larger than {limit} bytes")
    half = len(batch) // 2
    first = batch.slice(0, half)
    first = replace(first, header=replace(first.header, watermark_ns=None))
    return [*encode_pieces(first, limit), *encode_pieces(batch.slice(half, len(batch) - half), limit)]


def with_time_range(header: Header, contract: Contract, rows: pa.RecordBatch) -> Header:
    """The header with min and max of the contract's time column."""
    if contract.time_column is None or rows.num_rows == 0:
        return replace(header, min_time=None, max_time=None)
    bounds = pc.min_max(rows.column(contract.time_column))
    return replace(header, min_time=bounds["min"].as_py(), max_time=bounds["max"].as_py())


def _without_null_columns(rows: pa.RecordBatch, contract: Contract, version: int) -> pa.RecordBatch:
    count = rows.num_rows
    arrays = rows.columns
    empty = tuple(i for i, c in enumerate(contract.at(version)) if c.nullable and arrays[i].null_count == count) \
        if count else ()
    if not empty:
        return rows
    nothing = pa.nulls(count)
    for index in empty:
        arrays[index] = nothing
    return pa.RecordBatch.from_arrays(arrays, schema=_slim_schema(contract, version, empty))


@lru_cache(maxsize=4_096)
def _slim_schema(contract: Contract, version: int, empty: tuple[int, ...]) -> pa.Schema:
    schema = contract.schema(version)
    for index in empty:
        schema = schema.set(index, pa.field(schema.names[index], pa.null()))
    return schema


def encode_header(header: Header) -> Headers:
    """Headers as Kafka carries them: text, one entry a field, absent where None."""
    fields = ((key, getattr(header, name)) for name, key in _KEYS.items() if name != _PARTS)
    found = tuple((key, str(value).encode()) for key, value in fields if value is not None)
    return (*found, (_KEYS[_PARTS], parts_text(header.parts))) if header.parts else found


def decode_header(headers: Iterable[tuple[str, bytes]], origin: Origin | None = None) -> Header:
    """The header of a message; raises RejectedError naming what is missing or malformed."""
    raw: dict[str, str] = {}
    for key, value in headers:
        if (name := _NAMES.get(key)) is not None:
            if name in raw:
                raise RejectedError("bad_header", f"{_shown(key)} stands twice", origin)
            try:
                raw[name] = value.decode()
            except (UnicodeDecodeError, AttributeError) as error:
                raise RejectedError("bad_header", f"{_shown(key)} is not UTF-8 text", origin) from error
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
        if name == _PARTS:
            values[name] = _parts(text, origin)
        elif name in _TEXT_HEADERS:
            if len(text) > (MAX_HOST_CHARS if name == "host" else MAX_NAME_CHARS) or (not text and name != "clock"):
                raise RejectedError("bad_header", f"{name} has {len(text)} characters", origin)
            if not text.isprintable():
                raise RejectedError("bad_header", f"{name} has control characters: {_shown(text)}", origin)
            values[name] = text
        else:
            values[name] = _integer(name, text, origin)
    header = Header(**values)  # type: ignore[arg-type]
    for name in ("epoch", "sequence", "rows", "row0", "dropped_rows"):
        if getattr(header, name) < 0:
            raise RejectedError("bad_header", f"{name} is negative", origin)
    if header.parts and sum(part.rows for part in header.parts) != header.rows:
        raise RejectedError("bad_header", f"{header.rows} rows, but not in the parts", origin)
    return header


def _parts(text: str, origin: Origin | None) -> tuple[Part, ...]:
    try:
        return parts_of(text, MAX_NAME_CHARS)
    except ValueError as error:
        raise RejectedError("bad_header", f"parts: {error}", origin) from error


def _integer(name: str, text: str, origin: Origin | None) -> int:
    value = int(text) if _INTEGER.fullmatch(text) else None
    if value is None or not -(1 << 63) <= value < (1 << 63):
        raise RejectedError("bad_header", f"{name} is no 64-bit integer: {_shown(text)}", origin)
    return value


def _shown(text: str) -> str:
    """Foreign text fit for one line."""
    return repr(text if len(text) <= 60 else text[:60] + "…")


def decode(key: bytes | None, value: bytes | None, headers: Iterable[tuple[str, bytes]], origin: Origin | None = None,
           limits: Limits = Limits()) -> Batch:
    """A validated batch in the current version's schema. Raises RejectedError with a stable code.

    Codes: too_large, missing_header, bad_header, unknown_contract, unknown_version, wrong_key, corrupt,
    wrong_rows, missing_column, unknown_column, wrong_type, null, negative, absurd_value, not_finite, absurd_time.
    """
    if value is None:
        raise RejectedError("corrupt", "the message has no value", origin)
    if len(value) > limits.message_bytes:
        raise RejectedError("too_large", f"{len(value)} bytes, at most {limits.message_bytes}", origin)
    header = decode_header(headers, origin)
    contract = CONTRACTS.get(header.contract)
    if contract is None:
        raise RejectedError("unknown_contract", _shown(header.contract), origin)
    if not contract.version - 1 <= header.version <= contract.version or header.version < 1:
        raise RejectedError("unknown_version", f"{contract.name} version {header.version}, this code reads "
                            f"{max(contract.version - 1, 1)} to {contract.version}", origin)
    if key is not None and key != header.host.encode():
        raise RejectedError("wrong_key", f"the key is not the host {header.host}", origin)
    if header.parts and not (contract in ALIGNED and header.version >= 2):
        raise RejectedError("bad_header", f"parts in {contract.name} version {header.version}", origin)
    if header.rows > limits.rows:
        raise RejectedError("too_large", f"{header.rows} rows claimed, at most {limits.rows}", origin)
    rows = _conform(_open(value, contract, header, limits, origin), contract, header, origin)
    return Batch(replace(header, version=contract.version), rows, origin)


def _open(value: bytes, contract: Contract, header: Header, limits: Limits, origin: Origin | None) -> pa.RecordBatch:
    try:
        content = pa.py_buffer(_decompress(value, limits, origin))
        check_stream(content)
        with pa.ipc.open_stream(content) as reader:
            _check_schema(reader.schema, contract, header, origin)
            batch = reader.read_next_batch()
        if batch.num_rows == header.rows:
            batch.validate(full=True)
    except (zstandard.ZstdError, pa.ArrowException, StopIteration, OSError, MemoryError, ValueError) as error:
        raise RejectedError("corrupt", _one_line(error), origin) from error
    if batch.num_rows != header.rows:
        raise RejectedError("wrong_rows", f"{batch.num_rows} rows, the header says {header.rows}", origin)
    return batch


def _one_line(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())[:300]


def _decompress(value: bytes, limits: Limits, origin: Origin | None) -> bytes:
    size = zstandard.frame_content_size(value)
    if size < 0:
        raise RejectedError("corrupt", "the frame does not state its size", origin)
    if size > limits.content_bytes:
        raise RejectedError("too_large", f"the frame claims {size} bytes, at most {limits.content_bytes}", origin)
    return _frames.decompressor.decompress(value, max_output_size=limits.content_bytes, allow_extra_data=False)


def _check_schema(schema: pa.Schema, contract: Contract, header: Header, origin: Origin | None) -> None:
    """Names and types as the header's version of the contract has them; raises RejectedError."""
    columns = {c.name: c for c in contract.at(header.version)}
    names = schema.names
    if len(set(names)) != len(names):
        raise RejectedError("unknown_column", "a column stands twice", origin)
    for field in schema:
        column = columns.pop(field.name, None)
        if column is None:
            raise RejectedError("unknown_column", _shown(field.name), origin)
        if not _readable(field.type, column, header.rows):
            raise RejectedError("wrong_type", f"{field.name} is {str(field.type)[:80]}, not {column.type}", origin)
    if columns:
        raise RejectedError("missing_column", next(iter(columns)), origin)


def _readable(given: pa.DataType, column: Column, rows: int) -> bool:
    if given == column.type:
        return True
    if pa.types.is_null(given):
        return column.nullable or rows == 0
    return bool(pa.types.is_dictionary(column.type) and pa.types.is_string(given))


def _conform(rows: pa.RecordBatch, contract: Contract, header: Header, origin: Origin | None) -> pa.RecordBatch:
    """Rows of a checked schema brought to the current version, their values checked."""
    arrays = []
    for column in contract.columns:
        index = rows.schema.get_field_index(column.name)
        array = rows.column(index) if index >= 0 else pa.nulls(rows.num_rows)
        arrays.append(_checked(array, column, rows.num_rows, origin))
    result = pa.RecordBatch.from_arrays(arrays, schema=contract.schema())
    _check_times(result, contract, header, origin)
    return result


def _checked(array: pa.Array, column: Column, rows: int, origin: Origin | None) -> pa.Array:
    name, wanted = column.name, column.type
    kind = array.type.id
    if kind == _NULL:
        return pa.nulls(rows, wanted)
    if wanted.id == _DICTIONARY:
        if kind == _STRING:
            array = array.dictionary_encode()
        if array.dictionary.null_count:
            raise RejectedError("null", f"the dictionary of {name} has a null", origin)
    if not column.nullable and array.null_count:
        raise RejectedError("null", f"{name} is null in {array.null_count} rows", origin)
    if column.minimum is not None and array.null_count < rows:
        _check_minimum(array, column, column.minimum, origin)
    if column.maximum is not None and array.null_count < rows:
        _check_maximum(array, column, column.maximum, origin)
    if kind == _DOUBLE and rows and not pc.all(pc.is_finite(array)).as_py():
        row = pc.index(pc.is_finite(array), pa.scalar(False)).as_py()
        raise RejectedError("not_finite", f"{name} is {array[row].as_py()} in row {row}; null means missing", origin)
    return array


def _check_minimum(array: pa.Array, column: Column, minimum: int, origin: Origin | None) -> None:
    low = pc.min(array).as_py()
    if low < minimum:
        row = pc.index(array, pa.scalar(low, array.type)).as_py()
        raise RejectedError("negative", f"{column.name} is {low} in row {row}, at least {minimum}", origin)


def _check_maximum(array: pa.Array, column: Column, maximum: int, origin: Origin | None) -> None:
    high = pc.max(array).as_py()
    if high > maximum:
        row = pc.index(array, pa.scalar(high, array.type)).as_py()
        raise RejectedError("absurd_value", f"{column.name} is {high} in row {row}, at most {maximum}", origin)


def _check_times(rows: pa.RecordBatch, contract: Contract, header: Header, origin: Origin | None) -> None:
    if contract.time_column is None or rows.num_rows == 0:
        return
    fleet = contract.time_column.endswith("_ns")
    bounds = (0, MAX_FLEET_NS) if fleet else (MIN_TIME, MAX_TIME)
    low, high = _bounded(rows, contract.time_column, *bounds, origin)
    if fleet and "start_ticks" in rows.schema.names:  # an aligned row carries its source's times along
        _bounded(rows, "start_ticks", MIN_TIME, MAX_TIME, origin)
    for name in ("duration_ticks", "duration_ns"):
        if name in rows.schema.names:
            _bounded(rows, name, 0, MAX_DURATION, origin)
    if (header.min_time, header.max_time) not in ((low, high), (None, None)):
        raise RejectedError("absurd_time", f"times run from {low} to {high}, the header says {header.min_time} to "
                            f"{header.max_time}", origin)


def _bounded(rows: pa.RecordBatch, name: str, least: int, most: int, origin: Origin | None) -> tuple[int, int]:
    bounds = pc.min_max(rows.column(name))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    if low < least or high > most:
        raise RejectedError("absurd_time", f"{name} from {low} to {high}, allowed {least} to {most}", origin)
    return low, high
