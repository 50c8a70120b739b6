from __future__ import annotations

import pandas as pd
import pyarrow as pa

from fleetscope.store.block import one_block, to_frame


def symbols(codes: list[int | None], words: list[str]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32()), pa.array(words, pa.string()))


def test_chunks_with_different_dictionaries_become_one() -> None:
    chunks = [symbols([0, 1], ["a", "b"]), symbols([0, None, 1], ["b", "c"]), symbols([], [])]
    block = one_block(pa.table({"s": pa.chunked_array(chunks)}))
    assert block["s"].num_chunks == 1
    assert block["s"].to_pylist() == ["a", "b", "b", None, "c"]
    assert len(block.to_batches()) == 1


def test_a_word_that_stands_twice_in_a_dictionary_is_said_once() -> None:
    block = one_block(pa.table({"s": symbols([0, 1, 2, None, 1], ["a", "a", "b"]), "n": [1, 2, 3, 4, 5]}))
    assert block["s"].chunk(0).dictionary.to_pylist() == ["a", "b"]
    assert block["s"].to_pylist() == ["a", "a", "b", None, "a"]


def test_repeated_words_over_several_chunks_are_said_once() -> None:
    chunks = [symbols([0, 1], ["a", "a"]), symbols([1, 0], ["b", "a"])]
    block = one_block(pa.table({"s": pa.chunked_array(chunks)}))
    words = block["s"].chunk(0).dictionary.to_pylist()
    assert sorted(words) == sorted(set(words))
    assert block["s"].to_pylist() == ["a", "a", "a", "b"]


def test_integers_over_2_to_53_stay_exact_beside_missing_ones() -> None:
    schema = pa.schema([pa.field("n", pa.int64()), pa.field("full", pa.int64(), nullable=False),
                        pa.field("flag", pa.bool_())])
    frame = to_frame(pa.table({"n": [2**53 + 1, None, -(2**62) - 1], "full": [2**62 + 1, 0, -1],
                               "flag": [True, None, False]}, schema=schema))
    assert frame["n"].dtype == pd.Int64Dtype()
    assert frame["n"].tolist() == [2**53 + 1, pd.NA, -(2**62) - 1]
    assert frame["full"].dtype == "int64"
    assert frame["full"].tolist() == [2**62 + 1, 0, -1]
    assert frame["flag"].tolist() == [True, pd.NA, False]


def test_an_empty_result_keeps_its_columns() -> None:
    frame = to_frame(pa.table({"a": pa.array([], pa.int64()), "b": pa.array([], pa.string())}))
    assert list(frame.columns) == ["a", "b"]
    assert len(frame) == 0
