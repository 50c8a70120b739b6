from __future__ import annotations

import numpy as np
import pytest

from simulator.clocks import NS, REALTIME_MAX_NS, WANDER_PPM_PER_S, Clock, host_clocks

START_NS = 1_767_225_600_123_456_789
TICKS = (1_000_000_000, 100_000_000, 19_200_000)
GRID = np.arange(0, 3_600 * NS, 37_000_003, dtype=np.int64)


def clocks(seed: int = 3) -> list[Clock]:
    host = host_clocks(seed, 1, 3, START_NS, TICKS)
    return [host.raw, host.realtime, *host.devices]


@pytest.mark.parametrize("index", range(5))
def test_readings_never_go_backwards_even_from_one_nanosecond_to_the_next(index: int) -> None:
    dense = np.arange(1_234 * NS, 1_234 * NS + 200_000, dtype=np.int64)
    for times in (GRID, dense):
        assert (np.diff(clocks()[index].read(times)) >= 0).all()


@pytest.mark.parametrize(("index", "ppm"), [(0, 20.0), (2, 30.0), (3, 30.0), (4, 30.0)])
def test_free_running_clocks_stay_within_their_rate_limit(index: int, ppm: float) -> None:
    for seed in range(20):
        clock = clocks(seed)[index]
        times = np.arange(0, 3_600 * NS, 10 * NS, dtype=np.int64)
        rates = np.diff(clock.deviation_ns(times)) / np.diff(times) * 1e6
        assert np.abs(rates).max() <= ppm


def test_the_rate_of_free_running_clocks_wanders_but_slower_than_its_bound() -> None:
    times = np.arange(0, 2_000 * NS, NS, dtype=np.int64)
    for clock in clocks()[:1] + clocks()[2:]:
        bend_ppm_per_s = np.abs(np.diff(clock.deviation_ns(times), 2)) * 1e-9 * 1e6  # second difference over 1 s
        assert 0.002 < bend_ppm_per_s.max() <= WANDER_PPM_PER_S


def test_realtime_keeps_within_two_milliseconds_of_utc_and_five_ppm_of_its_rate() -> None:
    for seed in range(20):
        realtime = clocks(seed)[1]
        error = realtime.read(GRID) - (START_NS + GRID)
        assert np.abs(error).max() <= REALTIME_MAX_NS
        assert np.abs(np.diff(error) / np.diff(GRID)).max() * 1e6 <= 5.1


@pytest.mark.parametrize("hz", TICKS)
def test_ticks_are_the_floor_of_exact_integer_time(hz: int) -> None:
    clock = Clock("c", hz, 864_000 * NS + 987_654_321)
    times = GRID[::1_000]
    expected = [(int(t) + clock.offset_ns) * hz // NS for t in times]
    assert clock.read(times).tolist() == expected


def test_the_same_configuration_gives_the_same_clocks_and_another_seed_others() -> None:
    assert clocks(7) == clocks(7)
    assert clocks(7) != clocks(8)
