"""Messages that hold rows of several batches: each row keeps its own identity."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, Part
from fleetscope.contracts.codec import MAX_NAME_CHARS, encode, encode_pieces
from fleetscope.contracts.parts import parts_of, parts_text
from fleetscope.contracts.raw import SPANS
from fleetscope.errors import RejectedError
from tests.support.contract_batches import header, plain, read, with_header

ALIGNED = CONTRACTS["aligned_spans"]
NUMBERS = st.integers(0, (1 << 62) - 1)
PARTS = st.builds(lambda producer, epoch, clock, sequence, row0, rows, more: Part(
    producer, epoch, clock, sequence, row0, rows, None if more is None else row0 + rows + more),
    st.sampled_from(["a/agent", "b"]), NUMBERS, st.sampled_from(["", "dev0", "monotonic_raw"]), NUMBERS,
    st.integers(0, 1 << 40), st.integers(0, 1 << 20), st.none() | st.integers(0, 9))


def made(*counts: int) -> Batch:
    parts = tuple(Part(f"p{i}", 7, f"c{i % 2}", 10 + i, 5 * i, n, 5 * i + n + 1) for i, n in enumerate(counts))
    return Batch(header(ALIGNED, sum(counts), parts=parts), plain(ALIGNED, sum(counts)).rows)


def identities(batch: Batch) -> list[tuple[object, ...]]:
    return [(p.producer, p.epoch, p.clock, p.sequence, p.row0 + i, p.total) for p in batch.parts for i in range(p.rows)]


@given(st.lists(PARTS, min_size=1, max_size=9).map(tuple))
def test_the_text_gives_the_parts_back(parts: tuple[Part, ...]) -> None:
    assert parts_of(parts_text(parts).decode(), MAX_NAME_CHARS) == parts


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.data())
def test_a_slice_keeps_each_rows_identity(counts: list[int], data: st.DataObject) -> None:
    batch = made(*counts)
    start = data.draw(st.integers(0, len(batch)))
    length = data.draw(st.integers(0, len(batch) - start))
    cut = batch.slice(start, length)
    if length:
        assert identities(cut) == identities(batch)[start:start + length]
        assert cut.rows.equals(batch.rows.slice(start, length))


def test_a_message_is_read_back_with_its_parts() -> None:
    batch = made(2, 0, 3)
    back = read(encode(batch))
    assert back.parts == batch.parts
    assert back.header.version == ALIGNED.version


def test_a_batch_of_one_producer_is_one_part() -> None:
    batch = plain(SPANS, 3)
    assert batch.parts == (Part("host-1/agent", 7, "monotonic_raw", 0, 0, 3, None),)


def test_the_version_before_has_one_part_and_may_not_claim_several() -> None:
    contract = CONTRACTS["aligned_counters"]
    old = encode(Batch(header(contract, 3, version=1, sequence=4, row0=9), plain(contract).rows))
    assert read(old).parts == (Part("host-1/agent", 7, "monotonic_raw", 4, 9, 3, None),)
    with pytest.raises(RejectedError, match="bad_header: parts in aligned_counters version 1"):
        read(with_header(old, "fs-parts", parts_text((Part("p", 0, "", 0, 0, 3, 3),))))


def test_raw_batches_have_no_parts() -> None:
    with pytest.raises(RejectedError, match="bad_header: parts in spans"):
        read(with_header(encode(plain(SPANS)), "fs-parts", parts_text((Part("p", 0, "", 0, 0, 3, 3),))))


def test_parts_that_do_not_add_up_are_refused_on_both_sides() -> None:
    good = encode(made(1, 2))
    with pytest.raises(RejectedError, match="bad_header: 3 rows, but not in the parts"):
        read(with_header(good, "fs-parts", parts_text((Part("p", 0, "", 0, 0, 2, 3),))))
    with pytest.raises(ValueError, match="3 rows, but not in the parts"):
        encode(Batch(header(ALIGNED, 3, parts=(Part("p", 0, "", 0, 0, 2, 3),)), plain(ALIGNED).rows))


BAD = [
    "", "{", "5", "[]", "[[],[],[]]", '["p",["c"],[[0,0,0,0,0,3,3]]]', '[["p"],["c"],[[0,0,0,0,0,3]]]',
    '[["p"],["c"],[[1,0,0,0,0,3,3]]]', '[["p"],["c"],[[0,0,-1,0,0,3,3]]]', '[["p"],["c"],[[0,0,0,0,0,3,2]]]',
    '[["p"],["c"],[[0,0,0,0,0,3.0,3]]]', '[["p"],["c"],[[0,true,0,0,0,3,3]]]', '[[""],["c"],[[0,0,0,0,0,3,3]]]',
    '[["p\\u0007"],["c"],[[0,0,0,0,0,3,3]]]', '[[3],["c"],[[0,0,0,0,0,3,3]]]', "[" * 90_000,
    json.dumps([["p" * 600], ["c"], [[0, 0, 0, 0, 0, 3, 3]]]),
    json.dumps([["p"], [""], [[0, 0, 0, 0, 0, 0, 3]] * 5_000]),
    f'[["p"],["c"],[[0,{1 << 63},0,0,0,3,3]]]',
]


@pytest.mark.parametrize("text", BAD)
def test_damaged_parts_are_a_rejection_with_a_reason(text: str) -> None:
    with pytest.raises(RejectedError, match="bad_header"):
        read(with_header(encode(made(1, 2)), "fs-parts", text.encode()))


def test_a_message_that_would_be_too_large_becomes_several_with_the_same_rows() -> None:
    batch = made(300, 1, 200)
    batch = replace(batch, header=replace(batch.header, watermark_ns=77))
    whole = encode(batch)
    pieces = [read(message) for message in encode_pieces(batch, len(whole.value) // 2)]
    assert len(pieces) > 2
    assert [piece.header.watermark_ns for piece in pieces] == [None] * (len(pieces) - 1) + [77]
    assert [one for piece in pieces for one in identities(piece)] == identities(batch)
    assert pa.Table.from_batches([p.rows for p in pieces]).to_pylist() == batch.rows.to_pylist()
    with pytest.raises(ValueError, match="one row of aligned_spans is larger than 10 bytes"):
        encode_pieces(batch, 10)
