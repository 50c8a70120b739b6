"""The ledger against a literal set of identities."""

from __future__ import annotations

import json
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetscope.contracts.batch import StreamKey
from fleetscope.ledger import Ledger, contains, insert

A = StreamKey("h1/agent", 7, "spans")
B = StreamKey("h1/agent", 7, "counters")
TOTAL = 6
Piece = tuple[StreamKey, int, int, int, bool]

pieces = st.lists(
    st.tuples(st.sampled_from([A, B]), st.integers(0, 8), st.integers(0, TOTAL), st.integers(0, TOTAL), st.booleans())
    .map(lambda p: (p[0], p[1], p[2], min(p[3], TOTAL - p[2]), p[4])), max_size=60)


def _rows(ranges: list[tuple[int, int]]) -> list[int]:
    return [row for low, high in ranges for row in range(low, high)]


@given(pieces)
def test_new_rows_are_exactly_those_a_literal_set_had_not_seen(given_pieces: list[Piece]) -> None:
    ledger, literal = Ledger(), set()
    for stream, sequence, row0, rows, total_known in given_pieces:
        new = _rows(ledger.add(stream, sequence, row0, rows, TOTAL if total_known else None))
        expected = [r for r in range(row0, row0 + rows) if (stream, sequence, r) not in literal]
        assert new == expected
        literal.update((stream, sequence, r) for r in expected)


@given(pieces)
def test_missing_sequences_are_exactly_the_holes_under_the_highest(
        given_pieces: list[Piece]) -> None:
    ledger = Ledger()
    for stream, sequence, row0, rows, total_known in given_pieces:
        ledger.add(stream, sequence, row0, rows, TOTAL if total_known else None)
    for stream in (A, B):
        present = {p[1] for p in given_pieces if p[0] == stream}
        holes = [s for s in range(max(present, default=0)) if s not in present]
        assert _rows(ledger.missing(stream)) == holes
        assert ledger.max_sequence(stream) == max(present, default=None)


@given(pieces, pieces)
def test_a_ledger_goes_on_the_same_after_a_way_through_json(
        before: list[Piece], after: list[Piece]) -> None:
    ledger = Ledger()
    for stream, sequence, row0, rows, known in before:
        ledger.add(stream, sequence, row0, rows, TOTAL if known else None)
    copy = Ledger.from_plain(json.loads(json.dumps(ledger.to_plain())))
    assert copy.to_plain() == ledger.to_plain()
    for stream, sequence, row0, rows, known in after:
        total = TOTAL if known else None
        assert copy.add(stream, sequence, row0, rows, total) == ledger.add(stream, sequence, row0, rows, total)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=30))
def test_ranges_stay_sorted_disjoint_and_apart(given_ranges: list[tuple[int, int]]) -> None:
    ranges: list[tuple[int, int]] = []
    literal: set[int] = set()
    for start, length in given_ranges:
        assert _rows(insert(ranges, start, start + length)) == sorted(set(range(start, start + length)) - literal)
        literal |= set(range(start, start + length))
    assert _rows(ranges) == sorted(literal)
    assert all(a[1] < b[0] for a, b in pairwise(ranges))
    assert [contains(ranges, v) for v in range(45)] == [v in literal for v in range(45)]


def test_a_stream_in_order_costs_one_run_however_long() -> None:
    ledger = Ledger()
    for sequence in range(5000):
        assert ledger.add(A, sequence, 0, 10, 10) == [(0, 10)]
    assert ledger.to_plain()["streams"] == [[*A, 0, 5000, [[0, 5000]], []]]


def test_an_order_of_halves_becomes_whole_and_leaves_no_partial_rows() -> None:
    ledger = Ledger()
    ledger.add(A, 0, 5, 5, 10)
    assert ledger.partial(A) == {0: [(5, 10)]}
    assert ledger.add(A, 0, 0, 10, 10) == [(0, 5)]
    assert ledger.partial(A) == {}


def test_a_lost_batch_shows_as_missing_until_it_comes() -> None:
    ledger = Ledger()
    ledger.add(A, 0, 0, 3, 3)
    ledger.add(A, 4, 0, 3, 3)
    assert ledger.missing(A) == [(1, 4)]
    ledger.add(A, 2, 0, 0, 0)
    assert ledger.missing(A) == [(1, 2), (3, 4)]


def test_forgotten_sequences_are_neither_missing_nor_recognised() -> None:
    ledger = Ledger()
    for sequence in (0, 2, 5, 7):
        ledger.add(A, sequence, 0, 3, None)
    ledger.forget(A, 5)
    assert ledger.missing(A) == [(6, 7)]
    assert ledger.add(A, 0, 0, 3, None) == [(0, 3)]
    assert ledger.add(A, 0, 0, 3, None) == [(0, 3)]
    assert ledger.add(A, 5, 0, 4, None) == [(3, 4)]


def test_rows_past_the_total_are_refused() -> None:
    with pytest.raises(ValueError, match="of sequence 0 with 4 rows"):
        Ledger().add(A, 0, 2, 3, 4)


def test_plain_data_of_another_version_is_refused() -> None:
    with pytest.raises(ValueError, match="no ledger"):
        Ledger.from_plain({"version": 99, "streams": []})
