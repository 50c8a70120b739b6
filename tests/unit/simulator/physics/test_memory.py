"""Formulas of device memory against a slow channel that keeps open rows, access by access."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.machine import Machine, load_machine
from simulator.physics.lower import lower, work
from simulator.physics.memory import Pattern, rows_opened, stride_skew, traffic


def memory(**changes: object) -> Machine:
    return load_machine("infer-24").model_copy(update={"hbm_channels": 4, **changes})


def pattern(run_bytes: float = 0, align_bytes: float = 0, streams: float = 1, skew: float = 1) -> Pattern:
    return Pattern(*(np.array([value], np.float64) for value in (run_bytes, align_bytes, streams, skew)))


def one(value: float) -> np.ndarray:
    return np.array([value], np.float64)


def simulate(machine: Machine, runs: list[tuple[int, int]], streams: int, rng: np.random.Generator) -> tuple[int, int]:
    """(granules, row misses) of runs (start, length B): ``streams`` at once take turns piece by piece on each channel.

    Every row lies in a bank drawn at random; a bank keeps the row of its last access open.
    """
    granule, piece, channels = machine.hbm_granule_bytes, machine.hbm_interleave_bytes, machine.hbm_channels
    row_pieces = machine.hbm_row_bytes // piece
    waiting: list[list[list[tuple[int, int]]]] = [[] for _ in range(channels)]  # channel, run, visit: row, granules
    for start, length in runs:
        visits: list[list[tuple[int, int]]] = [[] for _ in range(channels)]
        at = start // granule * granule
        while at < start + length:
            end = min((at // piece + 1) * piece, -(-(start + length) // granule) * granule)
            index = at // piece
            visits[index % channels].append((index // channels // row_pieces, (end - at) // granule))
            at = end
        for channel in range(channels):
            if visits[channel]:
                waiting[channel].append(visits[channel])
    granules = misses = 0
    banks: dict[tuple[int, int], int] = {}
    for channel in range(channels):
        opened: dict[int, int] = {}
        active: list[list[tuple[int, int]]] = [[] for _ in range(streams)]
        while waiting[channel] or any(active):
            for slot in range(streams):
                if not active[slot]:
                    if not waiting[channel]:
                        continue
                    active[slot] = list(waiting[channel].pop(0))
                row, count = active[slot].pop(0)
                bank = banks.setdefault((channel, row), int(rng.integers(machine.hbm_banks)))
                granules, misses = granules + count, misses + (opened.get(bank) != row)
                opened[bank] = row
    return granules, misses


@pytest.mark.parametrize(("run_bytes", "align", "streams"), [
    (64, 32, 1), (64, 4, 1), (192, 64, 1), (256, 32, 1), (1_000, 8, 1), (4_096, 64, 1), (16_384, 32, 1),
    (65_536, 256, 1), (4_096, 64, 4), (16_384, 32, 8), (65_536, 256, 16)])
def test_row_misses_and_granules_agree_with_the_simulated_channels(run_bytes: int, align: int, streams: int) -> None:
    machine, rng = memory(), np.random.default_rng([run_bytes, align, streams])
    count = max(400, 400_000 // run_bytes)
    places = rng.integers(0, 2**34 // align, count) * align
    granules, misses = simulate(machine, [(int(at), run_bytes) for at in places], streams, rng)
    useful = one(float(count * run_bytes))
    result = traffic(useful, one(0), pattern(run_bytes, align, streams), machine)
    assert (result.row_hits + result.row_misses)[0] == pytest.approx(granules, rel=0.02)
    assert result.read_bytes[0] == pytest.approx(granules * 32, rel=0.02)
    assert result.row_misses[0] == pytest.approx(misses, rel=0.05)


@given(st.integers(1, 64), st.integers(0, 4), st.integers(0, 3))
def test_over_fetch_is_the_mean_over_all_places_a_run_can_start_at(units: int, align_power: int, granule_power: int,
                                                                  ) -> None:
    align, granule = 2**align_power, 16 * 2**granule_power
    length = units * align
    starts = range(0, granule, align)
    literal = np.mean([-(-(start + length) // granule) - start // granule for start in starts])
    machine = memory(hbm_granule_bytes=granule)
    moved = traffic(one(1_000 * length), one(0), pattern(length, align), machine).read_bytes[0]
    assert moved / 1_000 == pytest.approx(literal * granule)


@given(st.integers(1, 8), st.integers(1, 8), st.integers(1, 60))
@settings(max_examples=60)
def test_rows_opened_is_the_mean_over_all_phases_where_pieces_go_round_evenly(channels: int, row: int, rounds: int,
                                                                            ) -> None:
    pieces = rounds * channels
    literal = np.mean([len({(i % channels, i // channels // row) for i in range(phase, phase + pieces)})
                       for phase in range(channels * row)])
    assert rows_opened(one(pieces), channels, row)[0] == pytest.approx(literal)


def burst_ns(machine: Machine) -> float:
    return machine.hbm_granule_bytes / (machine.hbm_bytes_per_s * machine.hbm_achievable / machine.hbm_channels) * 1e9


def simulate_time(machine: Machine, banks: list[int], granules_a_visit: int) -> float:
    """ns of one channel whose visits all miss their row; the controller takes the first that can start of 32 in sight.

    A miss starts once its bank has served its last visit and one of ``hbm_miss_overlap`` places is free; data follow
    one another on the bus.
    """
    free, places = [0.0] * machine.hbm_banks, [0.0] * machine.hbm_miss_overlap
    bus, coming = 0.0, banks[::-1]
    sight: list[tuple[float, int]] = []
    while sight or coming:
        while coming and len(sight) < 32:
            sight.append((bus, coming.pop()))
        place = min(places)
        start, chosen = min((max(seen, free[bank], place), index) for index, (seen, bank) in enumerate(sight))
        _, bank = sight.pop(chosen)
        opened = start + machine.hbm_row_miss_ns
        places[places.index(place)] = opened
        bus = free[bank] = max(bus, opened) + granules_a_visit * burst_ns(machine)
    return bus


@pytest.mark.parametrize("granules", [1, 2, 4, 8, 16, 64])
@pytest.mark.parametrize("overlap", [2, 4, 8])
def test_time_of_scattered_reads_agrees_with_the_simulated_channel_within_4_percent(granules: int,
                                                                                 overlap: int) -> None:
    machine = memory(hbm_channels=1, hbm_bytes_per_s=25e9, hbm_interleave_bytes=2_048, hbm_miss_overlap=overlap)
    visits, run = 4_000 // granules, 32 * granules
    banks = np.random.default_rng(granules).integers(0, 16, visits).tolist()
    formula = traffic(one(visits * run), one(0), pattern(run, run), machine).ns[0]
    assert formula == pytest.approx(simulate_time(machine, banks, granules), rel=0.04)


@pytest.mark.parametrize("write_share", [0.1, 0.5, 0.8])
def test_turnarounds_agree_with_a_channel_that_collects_the_rarer_direction(write_share: float) -> None:
    machine, total = memory(hbm_channels=1, hbm_bytes_per_s=25e9), 64_000
    left = {True: round(total * write_share), False: total - round(total * write_share)}
    rare = left[True] <= left[False]
    each = left[not rare] / (left[rare] / machine.hbm_write_batch)  # of the other direction between two batches
    elapsed, changes, owed = 0.0, 0, 0.0
    while left[rare] > 0:
        owed += each
        count = round(owed)
        owed -= count
        elapsed += (count + min(left[rare], 32)) * burst_ns(machine) + 2 * machine.hbm_turnaround_ns
        changes, left[rare] = changes + 2, left[rare] - 32
    writes = round(total * write_share)
    result = traffic(one((total - writes) * 32), one(writes * 32), pattern(), machine)
    assert result.turnarounds[0] == pytest.approx(changes, rel=0.01)
    assert result.ns[0] == pytest.approx(elapsed, rel=0.01)


def test_long_sequential_reads_reach_exactly_the_achievable_bandwidth() -> None:
    machine = load_machine("h100-like")
    assert traffic(one(3.015e9), one(0), pattern(), machine).ns[0] == pytest.approx(1e6, rel=1e-9)


def test_a_skewed_channel_takes_max_over_mean_times_as_long() -> None:
    machine = memory()
    even, skewed = (traffic(one(1e9), one(0), pattern(skew=skew), machine) for skew in (1.0, 1.6))
    assert skewed.ns[0] == pytest.approx(1.6 * even.ns[0])
    assert skewed.peak_channel_bytes[0] == pytest.approx(1.6 * 1e9 / 4)


@given(st.integers(1, 64), st.sampled_from([4, 12, 16, 80]))
def test_the_skew_of_a_stride_is_that_of_counted_accesses(pieces: int, channels: int) -> None:
    machine = memory(hbm_channels=channels)
    loads = np.bincount(np.arange(0, channels * 200) * pieces % channels, minlength=channels)
    assert stride_skew(pieces * machine.hbm_interleave_bytes, machine) == pytest.approx(loads.max() / loads.mean())


def test_spills_move_twice_what_does_not_fit_and_show_in_bytes_and_stalls() -> None:
    machine = load_machine("edge-8")  # 8 MB, 0.9 of it usable
    fits, over = (lower(work(1, read_bytes=1e6, working_set_bytes=size), machine) for size in (7.2e6, 10.2e6))
    assert fits.spill_bytes[0] == 0
    assert fits.spill_ns[0] == 0
    assert over.spill_bytes[0] == 6_000_000
    assert over.bytes[0] - fits.bytes[0] == 6_000_000
    assert over.spill_stall_ns[0] == pytest.approx(over.spill_ns[0], rel=0.01)
    assert over.spill_ns[0] >= 6e6 / (51.2 * 0.78)
