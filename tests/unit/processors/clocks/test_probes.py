"""Rows of exchanges to constraints."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetscope.contracts.batch import from_rows
from fleetscope.contracts.raw import CLOCK_SAMPLES
from processors.clocks.hull import OPEN, Node
from processors.clocks.probes import (
    Exchange,
    arrivals,
    assumptions_for,
    exchanges,
    local_to_remote,
    remote_to_local,
    tick_ns,
)
from processors.clocks.state import Rate

NS = 1_000_000_000


def row(**changes: Any) -> dict[str, Any]:
    return {"kind": "exchange", "local_clock": "monotonic_raw", "remote_clock": "dev0", "local_before_ticks": 1_000,
            "remote_first_ticks": 70, "local_after_ticks": 3_000, "local_hz": NS, "remote_hz": 100_000_000, **changes}


def taken(*rows: dict[str, Any]) -> tuple[list[Exchange], int]:
    return exchanges(from_rows(CLOCK_SAMPLES, list(rows)))


@pytest.mark.parametrize("impossible", [
    {"remote_first_ticks": 0}, {"remote_first_ticks": None}, {"local_after_ticks": None}, {"local_after_ticks": 999},
    {"remote_last_ticks": 69},
], ids=lambda change: "{}={}".format(*next(iter(change.items()))))
def test_unset_and_impossible_stamps_are_refused_and_counted(impossible: dict[str, Any]) -> None:
    found, bad = taken(row(), row(**impossible), row(local_before_ticks=2_000))
    assert [e.before for e in found] == [1_000, 2_000]
    assert bad == 1


def test_rows_that_are_no_exchanges_are_neither_taken_nor_bad() -> None:
    assert taken(row(kind="rate", rate_ppb=5), row(kind="not_before")) == ([], 0)


def test_one_remote_stamp_stands_for_both() -> None:
    (found,), _ = taken(row())
    assert (found.first, found.last) == (70, 70)


@pytest.mark.parametrize("hz", [NS, 100_000_000, 19_200_000, 7])
def test_a_node_holds_the_truth_whatever_the_tick_and_the_latency(hz: int) -> None:
    rng = random.Random(hz)
    for _ in range(300):
        before = rng.randrange(1 << 61)
        asked, answered, after = sorted(before + rng.randrange(1, 50_000) for _ in range(3))
        shift = rng.randrange(1 << 40)
        stamps = [(t + shift) * hz // NS for t in (asked, answered)]
        exchange = Exchange("a", None, "b", before, *stamps, after, NS, hz)
        node = remote_to_local(exchange)
        # The remote clock reads node.x from the first of these moments to the second.
        shown = [-(-(tick * NS) // hz) - shift for tick in (node.x, node.x + 1)]
        assert node.lo <= shown[1]
        assert shown[0] <= node.hi
        assert node.local == after
        if hz == NS:
            back = local_to_remote(exchange)
            assert back.lo <= back.x + shift <= back.hi


def test_four_stamps_bound_better_than_two() -> None:
    whole = remote_to_local(Exchange("a", "h2", "b", 0, 500, 500, 10_000, NS, NS))
    cut = remote_to_local(Exchange("a", "h2", "b", 0, 500, 8_500, 10_000, NS, NS))
    assert cut.hi - cut.lo < whole.hi - whole.lo - 7_000


def test_disciplined_clocks_may_kink_and_free_ones_may_not() -> None:
    assert assumptions_for("realtime").curvature_per_s is None
    assert assumptions_for("ptp0").curvature_per_s is None
    assert assumptions_for("dev0").curvature_per_s is not None


def test_a_tick_is_rounded_up() -> None:
    assert [tick_ns(hz) for hz in (NS, 100_000_000, 19_200_000)] == [1, 10, 53]


@pytest.mark.parametrize("changes", [
    {"local_after_ticks": 20 * 10**9}, {"remote_last_ticks": 11 * 10**9}, {"remote_first_ticks": 0},
    {"remote_first_ticks": 1 << 62, "remote_hz": 1_000_000},
])
def test_an_exchange_that_cannot_be_is_counted_and_left(changes: dict[str, int]) -> None:
    row: dict[str, object] = {"kind": "exchange", "local_clock": "monotonic_raw", "remote_clock": "dev0",
                              "local_before_ticks": 1_000, "remote_first_ticks": 500, "local_after_ticks": 2_000,
                              "local_hz": 10**9, "remote_hz": 10**9}
    found, bad = exchanges(from_rows(CLOCK_SAMPLES, [row, {**row, **changes}]))
    assert (len(found), bad) == (1, 1)


def test_a_stamp_of_the_local_clock_after_the_batch_was_sent_is_left() -> None:
    row: dict[str, object] = {"kind": "exchange", "local_clock": "monotonic_raw", "remote_clock": "dev0",
                              "local_before_ticks": 5 * 10**9, "remote_first_ticks": 500,
                              "local_after_ticks": 5 * 10**9 + 100, "local_hz": 10**9, "remote_hz": 10**9}
    assert exchanges(from_rows(CLOCK_SAMPLES, [row]), sent=10**9) == ([], 1)
    assert exchanges(from_rows(CLOCK_SAMPLES, [row]), sent=6 * 10**9)[1] == 0


STAMPS = st.one_of(st.integers(1_000, 4_000), st.sampled_from([0, None, -1, 1 << 61, -(1 << 62), 20 * 10**9]))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.fixed_dictionaries({
    "kind": st.sampled_from(["exchange", "exchange", "exchange", "rate", "not_before", "not_after", "other"]),
    "remote_clock": st.sampled_from(["dev0", "dev1"]), "remote_host": st.sampled_from([None, "h2"]),
    "local_before_ticks": st.integers(900, 1_100), "remote_first_ticks": STAMPS, "remote_last_ticks": STAMPS,
    "local_after_ticks": STAMPS, "remote_hz": st.sampled_from([NS, 100_000_000, 19_200_000]),
    "rate_ppb": st.sampled_from([None, -5_000])}), max_size=12), st.sampled_from([None, 2_500]))
def test_compiled_conversion_makes_the_nodes_of_the_literal_one(
        changes: list[dict[str, Any]], sent: int | None) -> None:
    rows = from_rows(CLOCK_SAMPLES, [row(**change) for change in changes])
    literal, _ = exchanges(rows, sent)
    found, bad = arrivals(rows, sent)
    nodes = [(p.remote_clock, p.remote_host, p.remote_hz, n) for p, each in found.items() for n in each
             if isinstance(n, Node) and not n.is_half]
    assert Counter(nodes) == Counter(
        (e.remote_clock, e.remote_host, e.remote_hz, remote_to_local(e)) for e in literal)
    assert bad == len(changes) - sum(len(each) for each in found.values())


def test_rows_of_other_kinds_become_constraints_and_changes_of_rate() -> None:
    rows = from_rows(CLOCK_SAMPLES, [
        row(kind="not_before", local_after_ticks=None), row(kind="not_after"),
        row(kind="not_after", local_before_ticks=2_000, local_after_ticks=None),
        row(kind="rate", rate_ppb=-400_000_000, local_after_ticks=None), row(kind="rate"), row(kind="unheard of")])
    found, bad = arrivals(rows)
    assert bad == 2
    assert list(found.values()) == [[
        Node(70, 989, OPEN, 1_000), Rate(70, -400_000_000, 1_000), Node(70, -OPEN, 2_011, 2_000),
        Node(70, -OPEN, 3_011, 3_000)]]


def test_the_local_clock_has_to_count_ns() -> None:
    rows = from_rows(CLOCK_SAMPLES, [row(local_hz=1_000_000)])
    assert arrivals(rows) == ({}, 1)
