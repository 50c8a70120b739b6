"""Messages that were cut, bent or made to explode: always a rejection or a valid batch, at bounded cost."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetscope.contracts import codec
from fleetscope.contracts.batch import Batch, from_rows
from fleetscope.contracts.codec import MAX_CONTENT_BYTES, MAX_MESSAGE_BYTES, Encoded, encode
from fleetscope.contracts.ipc import MAX_DICTIONARIES
from fleetscope.contracts.raw import CLOCK_SAMPLES, COUNTERS
from fleetscope.errors import RejectedError
from tests.support.contract_batches import content_of, header, message, outcome, plain, read, stream_bytes

SMALL = encode(plain(COUNTERS))
CONTENT = content_of(SMALL)


def reason(encoded: Encoded) -> str:
    """Code and reason of the rejection."""
    with pytest.raises(RejectedError) as caught:
        read(encoded)
    return f"{caught.value.code}: {caught.value.reason}"


def with_value(value: bytes) -> Encoded:
    """The small message with another value."""
    return Encoded(SMALL.key, value, SMALL.headers)


def claiming(size: int) -> bytes:
    """A valid zstd frame whose header claims ``size`` bytes of content (8-byte field, single segment)."""
    return b"\x28\xb5\x2f\xfd" + bytes([0b11100000]) + struct.pack("<Q", size) + SMALL.value[-40:]


def test_a_message_cut_at_any_byte_is_rejected() -> None:
    assert {outcome(with_value(SMALL.value[:end]), COUNTERS) for end in range(len(SMALL.value))} == {"corrupt"}


def test_a_stream_cut_at_any_byte_never_gives_other_rows() -> None:
    rows = read(SMALL).rows
    for end in range(len(CONTENT)):
        cut = message(CONTENT[:end], SMALL)
        if outcome(cut, COUNTERS) == "ok":
            assert end >= len(CONTENT) - 8, "more than the end mark is missing"
            assert read(cut).rows.equals(rows)


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_in_the_frame_is_rejected_or_leaves_a_valid_batch(mask: int) -> None:
    outcomes = [outcome(with_value(_flipped(SMALL.value, at, mask)), COUNTERS) for at in range(len(SMALL.value))]
    assert outcomes.count("corrupt") > len(outcomes) // 4


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_a_flipped_byte_in_the_stream_is_rejected_or_leaves_a_valid_batch(mask: int) -> None:
    outcomes = [outcome(message(_flipped(CONTENT, at, mask), SMALL), COUNTERS) for at in range(len(CONTENT))]
    assert outcomes.count("corrupt") > len(outcomes) // 20


def _flipped(data: bytes, at: int, mask: int) -> bytes:
    return data[:at] + bytes([data[at] ^ mask]) + data[at + 1:]


@given(st.binary(max_size=300))
@settings(deadline=None)
def test_noise_is_rejected(noise: bytes) -> None:
    assert outcome(with_value(noise), COUNTERS) == "corrupt"
    assert outcome(message(noise, SMALL), COUNTERS) == "corrupt"


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_overwritten_words_are_rejected_or_leave_a_valid_batch(data: st.DataObject) -> None:
    content = bytearray(content_of(encode(plain(CLOCK_SAMPLES))))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) // 4 - 1)) * 4
        word = data.draw(st.sampled_from([0, 1, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]) | st.integers(0, 0xFFFFFFFF))
        content[at:at + 4] = struct.pack("<I", word)
    outcome(message(bytes(content), encode(plain(CLOCK_SAMPLES))), CLOCK_SAMPLES)


@pytest.mark.parametrize("size", [MAX_CONTENT_BYTES + 1, 10 * 1024**3, 1 << 62, (1 << 63) - 1])
def test_a_frame_that_claims_gigabytes_is_refused_before_it_is_opened(
    size: int, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(codec.zstandard, "ZstdDecompressor")
    assert reason(with_value(claiming(size))).startswith(f"too_large: the frame claims {size} bytes")


def test_a_frame_that_claims_less_than_it_holds_is_corrupt() -> None:
    assert reason(with_value(claiming(10))).startswith("corrupt: ")


def test_a_frame_that_does_not_state_its_size_is_refused() -> None:
    silent = zstandard.ZstdCompressor(write_content_size=False).compress(CONTENT)
    assert reason(with_value(silent)) == "corrupt: the frame does not state its size"


def test_bytes_after_the_frame_are_refused() -> None:
    assert reason(with_value(SMALL.value + b"\x00")).startswith("corrupt: ")
    assert reason(with_value(SMALL.value * 2)).startswith("corrupt: ")


def test_an_empty_or_skippable_frame_is_corrupt() -> None:
    assert reason(with_value(b"")).startswith("corrupt: ")
    assert reason(with_value(zstandard.compress(b""))).startswith("corrupt: ")
    assert reason(with_value(b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd")).startswith("corrupt: ")


def test_a_message_over_the_limit_is_refused_unread() -> None:
    assert reason(with_value(bytes(1024 * 1024 + 1))) == "too_large: 1048577 bytes, at most 1048576"
    assert MAX_MESSAGE_BYTES < 1024 * 1024


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_a_body_compressed_inside_the_frame_is_refused_before_it_grows(compression: str) -> None:
    zeros = pa.array(np.zeros(50_000_000 // 8, dtype=np.int64))
    bomb = message(stream_bytes(pa.record_batch({"time_ticks": zeros}), compression=compression), SMALL)
    assert len(bomb.value) < 50_000
    before = pa.default_memory_pool().max_memory()
    assert reason(bomb) == "corrupt: ValueError: a body is compressed inside the frame"
    assert pa.default_memory_pool().max_memory() == before


def test_a_compressed_body_that_claims_ten_gigabytes_is_refused() -> None:
    content = bytearray(stream_bytes(plain(COUNTERS, 1_000).rows, compression="zstd"))
    sizes = struct.pack("<q", 8_000)
    assert sizes in content
    claims = bytes(content).replace(sizes, struct.pack("<q", 10 * 1024**3))
    assert reason(message(claims, SMALL)) == "corrupt: ValueError: a body is compressed inside the frame"


def test_a_dictionary_compressed_inside_the_frame_is_refused() -> None:
    words = pa.array([f"{i % 7}" * 400 for i in range(2_000)]).dictionary_encode()
    content = stream_bytes(pa.record_batch({"counter": words}), compression="lz4")
    assert "compressed inside" in reason(message(content, SMALL))


def test_two_record_batches_in_one_message_are_refused() -> None:
    rows = plain(COUNTERS).rows
    assert reason(message(stream_bytes(rows, rows), SMALL)) == "corrupt: ValueError: more than one record batch"


def test_a_stream_without_a_record_batch_is_refused() -> None:
    sink = pa.BufferOutputStream()
    pa.ipc.new_stream(sink, COUNTERS.schema()).close()
    assert reason(message(sink.getvalue().to_pybytes(), SMALL)).startswith("corrupt: ")


def test_a_column_of_a_type_that_grows_without_bytes_is_refused_by_its_schema() -> None:
    huge = pa.RunEndEncodedArray.from_arrays(pa.array([2**31 - 1], pa.int32()), pa.array([1]))
    assert reason(message(stream_bytes(pa.record_batch({"raw": huge})), SMALL)).startswith("wrong_type: raw is ")


def test_rows_that_cost_no_bytes_are_counted_before_they_are_made() -> None:
    names = COUNTERS.schema().names
    content = stream_bytes(pa.record_batch([pa.nulls(77_777)] * len(names), names=names))
    claims = content.replace(struct.pack("<q", 77_777), struct.pack("<q", 1 << 40))
    assert claims != content
    empty = Encoded(SMALL.key, SMALL.value, encode(Batch(header(COUNTERS, 0), from_rows(COUNTERS, []))).headers)
    assert reason(message(claims, empty)) == f"wrong_rows: {1 << 40} rows, the header says 0"


def test_a_flood_of_dictionary_batches_is_not_read_to_its_end() -> None:
    rows = pa.record_batch([pa.array(["word"]).dictionary_encode()], names=["counter"])
    content = stream_bytes(rows)
    reader = pa.ipc.MessageReader.open_stream(content)
    schema, dictionary, batch = (bytes(m.serialize()) for m in reader)
    flood = schema + dictionary * (MAX_DICTIONARIES + 1) + batch
    assert reason(message(flood, SMALL)) == "corrupt: ValueError: more than 256 dictionary batches"
