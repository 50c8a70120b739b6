"""Accounting against a slow literal version that looks at every single nanosecond."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetscope.contracts.derived import STATE_NAMES
from processors.windows.account import account
from processors.windows.intervals import Union, apportion, union
from processors.windows.works import COLLECTIVE, D2H, H2D, KERNEL, NONE, Account, Peaks, Works

W0, W1 = 100, 160


@dataclass(frozen=True)
class Item:
    start: int
    length: int
    kind: int = KERNEL
    bytes: int = -1
    flops: int = -1
    placed: bool = True
    submitted: int | None = None
    awaited: int | None = None
    err: int = 0

    @property
    def stop(self) -> int:
        return self.start + self.length


def works(items: list[Item]) -> Works:
    def ints(values: list[int]) -> np.ndarray:
        return np.array(values, np.int64)

    def times(values: list[int | None]) -> np.ndarray:
        return ints([NONE if v is None else v for v in values])

    return Works(ints([i.start for i in items]), ints([i.stop for i in items]), ints([i.kind for i in items]),
                 ints([i.bytes for i in items]), ints([i.flops for i in items]),
                 np.array([i.placed for i in items], bool), times([i.submitted for i in items]),
                 times([i.awaited for i in items]), ints([i.err for i in items]))


def spans(pairs: list[tuple[int, int]]) -> Union:
    return union(np.array([a for a, _ in pairs], np.int64), np.array([b for _, b in pairs], np.int64))


def run(items: list[Item], demand: list[tuple[int, int]] = [], pending: int | None = None,  # noqa: B006
        peaks: Peaks = Peaks(), known: tuple[int, int] | None = None) -> Account:
    return account(W0, W1, works(items), spans(demand), pending, peaks, known)


def literal(items: list[Item], demand: list[tuple[int, int]], pending: int | None, peaks: Peaks,
            known: tuple[int, int]) -> dict[str, Fraction]:
    """Fractions of nanoseconds, one nanosecond after the other."""
    total = {name: Fraction(0) for name in STATE_NAMES}
    placed = [i for i in items if i.placed]
    peak = {H2D: peaks.h2d_bytes_per_s, D2H: peaks.d2h_bytes_per_s}

    def bound(work: int, rate: float | None, item: Item) -> Fraction | None:
        return None if rate is None or work < 0 else Fraction(work) * 10**9 / Fraction(rate) / item.length

    for at in range(W0, W1):
        if not known[0] <= at < known[1]:
            total["unknown"] += 1
            continue
        ruling = [[i for i in placed if i.start <= at < i.stop and i.kind in kinds]
                  for kinds in ((KERNEL,), (COLLECTIVE,), (H2D, D2H))]
        on = next((group for group in ruling if group), [])
        for item in on:
            each = Fraction(1, len(on))
            if item.kind == KERNEL:
                compute, memory = bound(item.flops, peaks.flops_per_s, item), bound(item.bytes,
                                                                                    peaks.memory_bytes_per_s, item)
                top = min(max(compute or Fraction(0), memory or Fraction(0)), Fraction(1))
                total["compute" if (compute or 0) >= (memory or 0) else "memory_bandwidth"] += each * top
                rest = "kernel_unattributed" if compute is None or memory is None else "latency"
                total[rest] += each * (1 - top)
            elif item.kind == COLLECTIVE:
                top = min(bound(item.bytes, peaks.bus_bytes_per_s, item) or Fraction(0), Fraction(1))
                total["collective_network"] += each * top
                total["collective_wait"] += each * (1 - top)
            else:
                given_bound = bound(item.bytes, peak[item.kind], item)
                top = Fraction(1) if given_bound is None else min(given_bound, Fraction(1))
                total["pcie_h2d" if item.kind == H2D else "pcie_d2h"] += each * top
                total["pcie_small"] += each * (1 - top)
        if on:
            continue
        if any(i.start <= at < i.stop for i in items):
            total["unknown"] += 1
            continue
        total[_idle_state(at, items, demand, pending, known)] += 1
    return total


def _idle_state(at: int, items: list[Item], demand: list[tuple[int, int]], pending: int | None,
                known: tuple[int, int]) -> str:
    def busy(t: int) -> bool:
        return any(i.start <= t < i.stop for i in items) or not max(W0, known[0]) <= t < min(W1, known[1])

    start, stop = at, at + 1
    while not busy(start - 1):
        start -= 1
    while not busy(stop):
        stop += 1
    following = [i for i in items if i.placed and i.start == stop and i.length and stop < min(W1, known[1])]
    following.sort(key=lambda i: i.submitted if i.submitted is not None else 10**9)
    item = following[0] if following else None
    submitted, awaited, err = (item.submitted, item.awaited, item.err) if item else (None, None, 0)
    if item is None and stop == min(W1, known[1]):
        submitted = pending
    wanted = any(a <= at < b for a, b in demand)
    if submitted is None:
        return "host" if wanted else "no_demand"
    queued = min(max(submitted, start), stop)
    near_start, near_stop = abs(submitted - start) < err, abs(submitted - stop) < err
    if (near_start and (near_stop or at < submitted + err)) or (near_stop and at >= submitted - err):
        return "unresolved"
    if at < queued:
        return "host" if wanted else "no_demand"
    return "dependency" if awaited is not None and at < awaited else "launch_overhead"


maybe_time = st.none() | st.integers(W0 - 20, W1 + 20)
item_strategy = st.builds(
    Item, start=st.integers(W0 - 20, W1 - 1), length=st.integers(0, 30), kind=st.integers(0, 3),
    bytes=st.integers(-1, 40), flops=st.integers(-1, 40), placed=st.sampled_from([True, True, True, False]),
    submitted=maybe_time, awaited=maybe_time, err=st.integers(0, 5))
items_strategy = st.lists(item_strategy, max_size=7, unique_by=lambda i: i.start)
demand_strategy = st.lists(st.tuples(st.integers(W0 - 10, W1 + 10), st.integers(W0 - 10, W1 + 10)), max_size=4)
rate = st.none() | st.sampled_from([5e8, 1e9, 2e9])
peaks_strategy = st.builds(Peaks, rate, rate, rate, rate, rate)
known_strategy = st.tuples(st.integers(W0 - 5, W0 + 10), st.integers(W1 - 10, W1 + 5))


def _inside(items: list[Item], known: tuple[int, int]) -> list[Item]:
    """What lies outside the known time cannot have been seen."""
    return [i for i in items if i.start >= known[0] and i.stop <= known[1]] if known != (W0, W1) else items


@settings(max_examples=400, deadline=None)
@given(items_strategy, demand_strategy, maybe_time, peaks_strategy, known_strategy | st.just((W0, W1)))
def test_every_state_agrees_with_a_nanosecond_by_nanosecond_account(
        items: list[Item], demand: list[tuple[int, int]], pending: int | None, peaks: Peaks,
        known: tuple[int, int]) -> None:
    items = _inside(items, known)
    states = run(items, demand, pending, peaks, known).states
    expected = literal(items, demand, pending, peaks, known)
    assert sum(states.values()) == W1 - W0
    for name in STATE_NAMES:
        assert abs(states[name] - expected[name]) < 1 + 1e-6, name
    for name in ("host", "no_demand", "launch_overhead", "dependency", "unresolved", "unknown"):
        assert states[name] == expected[name], name


@settings(max_examples=150, deadline=None)
@given(st.lists(item_strategy, max_size=7), demand_strategy, maybe_time, peaks_strategy, st.randoms(),
       st.integers(0, 2**60))
def test_the_order_of_rows_and_the_origin_of_time_do_not_matter(
        items: list[Item], demand: list[tuple[int, int]], pending: int | None, peaks: Peaks, random: Random,
        shift: int) -> None:
    shuffled = list(items)
    random.shuffle(shuffled)
    plain, other = run(items, demand, pending, peaks), run(shuffled, demand, pending, peaks)
    assert plain == other

    def moved(value: int | None) -> int | None:
        return None if value is None else value + shift

    later = [Item(i.start + shift, i.length, i.kind, i.bytes, i.flops, i.placed, moved(i.submitted), moved(i.awaited),
                  i.err) for i in items]
    shifted = account(W0 + shift, W1 + shift, works(later), spans([(a + shift, b + shift) for a, b in demand]),
                      moved(pending), peaks)
    assert shifted == plain


@settings(max_examples=150, deadline=None)
@given(items_strategy, peaks_strategy)
def test_quantities_of_neighbouring_windows_add_up_to_the_work_itself(items: list[Item], peaks: Peaks) -> None:
    known = [i for i in items if i.kind == KERNEL and i.flops >= 0]
    parts = [account(a, a + 20, works([i for i in items if i.start < a + 20]), spans([]), None, peaks).flops
             for a in range(W0 - 20, W1 + 60, 20)]
    counted = [p for p in parts if p is not None]
    assert sum(counted) == sum(i.flops for i in known)


def test_an_empty_window_without_demand_is_no_demand() -> None:
    assert run([]).states["no_demand"] == W1 - W0


def test_a_window_nobody_observed_is_unknown() -> None:
    assert run([], known=(W1, W1)).states["unknown"] == W1 - W0


def test_a_kernel_at_half_of_peak_is_half_compute_and_half_latency() -> None:
    states = run([Item(110, 20, flops=10, bytes=1)], peaks=Peaks(1e9, 1e9)).states
    assert (states["compute"], states["latency"]) == (10, 10)


def test_a_kernel_whose_counters_claim_more_than_its_time_is_a_counter_error_and_stays_inside_it() -> None:
    result = run([Item(110, 20, flops=70, bytes=1)], peaks=Peaks(1e9, 1e9))
    assert result.counter_errors == 1
    assert result.states["compute"] == 20


def test_two_kernels_at_once_share_their_time_and_the_rest_of_each_is_its_own() -> None:
    states = run([Item(100, 40, flops=40, bytes=0), Item(120, 40, flops=0, bytes=40)], peaks=Peaks(1e9, 1e9)).states
    assert (states["compute"], states["memory_bandwidth"]) == (30, 30)


def test_a_transfer_hidden_by_a_kernel_is_not_exposed() -> None:
    states = run([Item(100, 60), Item(110, 20, H2D, bytes=20)], peaks=Peaks(h2d_bytes_per_s=1e9)).states
    assert states["pcie_h2d"] == 0


def test_transfers_far_below_the_ceiling_are_small_transfers() -> None:
    states = run([Item(100, 60, D2H, bytes=6)], peaks=Peaks(d2h_bytes_per_s=1e9)).states
    assert (states["pcie_d2h"], states["pcie_small"]) == (6, 54)


@pytest.mark.parametrize(("submitted", "host", "unresolved", "launch"), [
    (127, 17, 0, 3),   # no bound reaches an end
    (129, 17, 3, 0),   # 129 ± 2 may be the start of the kernel, or as early as 127
    (131, 19, 1, 0),   # after its kernel by less than the bound: from 129 on
    (111, 0, 3, 17),   # may have been there before the gap, or as late as 113
    (109, 0, 1, 19),
    (108, 0, 0, 20),   # before the gap by the bound: certain
])
def test_what_a_submission_near_an_end_of_a_gap_leaves_open_is_unresolved(submitted: int, host: int, unresolved: int,
                                                                          launch: int) -> None:
    states = run([Item(100, 10), Item(130, 30, submitted=submitted, err=2)], demand=[(0, 200)]).states
    assert (states["host"], states["unresolved"], states["launch_overhead"]) == (host, unresolved, launch)


def test_a_gap_that_is_shorter_than_the_bound_is_unresolved() -> None:
    states = run([Item(100, 10), Item(111, 49, submitted=110, err=2)], demand=[(0, 200)]).states
    assert (states["host"], states["unresolved"], states["launch_overhead"]) == (0, 1, 0)


def test_a_gap_between_kernels_queued_long_before_is_launch_overhead_to_the_tick_whatever_the_bound() -> None:
    states = run([Item(100, 30), Item(132, 28, submitted=80, err=50)]).states
    assert (states["launch_overhead"], states["unresolved"]) == (2, 0)


def test_the_wait_for_a_copy_elsewhere_is_a_dependency_until_it_ends() -> None:
    states = run([Item(100, 10), Item(140, 20, submitted=105, awaited=135)]).states
    assert (states["dependency"], states["launch_overhead"]) == (25, 5)


@given(st.integers(0, 10**12), st.lists(st.floats(0, 1e12), min_size=1, max_size=6))
def test_apportioned_parts_add_up_exactly_and_stay_within_one(total: int, parts: list[float]) -> None:
    given_parts = np.array(parts)
    result = apportion(total, given_parts)
    assert sum(result) == total
    assert min(result) >= 0
    if given_parts.sum() > 0:
        exact = given_parts / given_parts.sum() * total
        assert np.all(np.abs(np.array(result) - exact) <= 1 + 1e-3)


@pytest.mark.parametrize("count", [0, 1])
def test_amounts_past_int64_are_clipped_not_wrapped(count: int) -> None:
    result = run([Item(110, 5, flops=2**62, bytes=0)] * 3 if count else [])
    assert result.flops == (2**63 - 1 if count else None)
