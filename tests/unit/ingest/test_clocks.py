"""Cross readings of clocks and the bound they give."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.clocks import (
    BOOTTIME,
    BURST,
    MONOTONIC,
    REALTIME,
    TAI,
    Exchange,
    LinuxClocks,
    burst,
    names,
    narrowest,
    quickest,
)
from tests.unit.ingest.hosts import BOOT_NS, HandClocks, timex


def test_a_burst_keeps_every_exchange_in_order() -> None:
    found = burst(HandClocks(), REALTIME)
    assert len(found) == BURST
    stamps = [stamp for e in found for stamp in (e.before, e.other - BOOT_NS, e.after)]
    assert stamps == sorted(stamps)


def test_an_unknown_clock_is_refused() -> None:
    with pytest.raises(KeyError):
        burst(HandClocks(), "sundial")


@given(st.integers(-(1 << 62), 1 << 62), st.lists(st.tuples(st.integers(0, 10**15), st.integers(0, 10**6),
                                                            st.integers(0, 10**6)), min_size=1, max_size=8))
def test_the_true_offset_is_always_within_the_bound(offset: int, gaps: list[tuple[int, int, int]]) -> None:
    exchanges = [Exchange(start, start + there + offset, start + there + back) for start, there, back in gaps]
    found = narrowest(exchanges)
    assert abs(found.offset_ns - offset) <= found.bound_ns
    assert found.bound_ns <= min(there + back for _, there, back in gaps) // 2 + 2


def test_the_quickest_exchanges_are_kept_in_order_and_those_without_order_never() -> None:
    found = [Exchange(0, 1, 90), Exchange(100, 1, 130), Exchange(200, 1, 190), Exchange(300, 1, 300),
             Exchange(400, 1, 420), Exchange(500, 1, 530)]
    assert quickest(found, 3) == [found[1], found[4], found[5]]
    assert quickest(found[2:4]) == []


def test_tai_counts_only_where_its_offset_was_set() -> None:
    assert names(None) == names(timex()) == ("realtime", "boottime", "monotonic")
    assert names(timex(tai_s=37))[-1] == "tai"


def test_this_machine_reads_its_clocks_within_a_millisecond() -> None:
    clocks = LinuxClocks()
    for other in (REALTIME, BOOTTIME, MONOTONIC, TAI):
        first, second = narrowest(burst(clocks, other)), narrowest(burst(clocks, other))
        assert 0 < first.bound_ns < 1_000_000
        assert abs(first.offset_ns - second.offset_ns) < 10_000_000
