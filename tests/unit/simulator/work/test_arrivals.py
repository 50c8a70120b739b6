"""Point processes and lengths against their known means and dispersion."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from fleetscope.errors import UsageError
from simulator.work.arrivals import NEVER, NS, ArrivalConfig, Lengths, arrivals


def times(config: ArrivalConfig, seconds: float, seed: int = 1) -> list[int]:
    process = arrivals(config, np.random.default_rng(seed))
    found = []
    while process.next_ns < seconds * NS:
        found.append(process.next_ns)
        process.take()
    return found


def counts(config: ArrivalConfig, seconds: int, bin_s: int) -> np.ndarray:
    return np.bincount(np.array(times(config, seconds)) // (bin_s * NS), minlength=seconds // bin_s)


def dispersion(values: np.ndarray) -> float:
    return float(values.var() / values.mean())


def test_poisson_counts_vary_as_much_as_their_mean() -> None:
    found = counts(ArrivalConfig(per_s=20), 2_000, 1)
    assert found.mean() == pytest.approx(20, rel=0.03)
    assert dispersion(found) == pytest.approx(1.0, abs=0.12)


def test_a_fixed_rate_does_not_vary() -> None:
    gaps = np.diff(times(ArrivalConfig("fixed", per_s=7), 100))
    assert set(gaps.tolist()) == {round(NS / 7)}


def test_bursts_vary_as_a_two_state_modulated_process() -> None:
    """Index of dispersion of counts in t (Fischer and Meier-Hellstern, 1993)."""
    config = ArrivalConfig("bursts", per_s=20, on_s=1, off_s=3, burst_factor=10)
    found = counts(config, 8_000, 10)
    low = 20 * 4 / (1 * 10 + 3)
    high, r1, r2, t = 10 * low, 1.0, 1 / 3, 10.0
    rest = 2 * (high - low) ** 2 * r1 * r2 / ((r1 + r2) ** 2 * (high * r2 + low * r1))
    expected = 1 + rest * (1 - (1 - math.exp(-(r1 + r2) * t)) / ((r1 + r2) * t))
    assert found.mean() == pytest.approx(200, rel=0.06)
    assert dispersion(found) == pytest.approx(expected, rel=0.15)


def test_the_day_swings_around_the_mean() -> None:
    config = ArrivalConfig("diurnal", per_s=50, period_s=100, swing=0.8)
    found = counts(config, 1_000, 50).reshape(-1, 2)
    high = 1 + 0.8 * 2 / math.pi  # mean of the sine's upper half
    assert found[:, 0].mean() / 2_500 == pytest.approx(high, rel=0.02)
    assert found[:, 1].mean() / 2_500 == pytest.approx(2 - high, rel=0.04)


def test_users_of_a_closed_loop_wait_for_their_answers() -> None:
    """One server of fixed time: throughput N/(think + response), never more than N asked."""
    process = arrivals(ArrivalConfig("closed", users=5, think_s=1.0), np.random.default_rng(1))
    asked, free_ns, served = [], 0, 0
    while free_ns < 2_000 * NS:
        asked.append(process.next_ns)
        process.take()
        free_ns = max(free_ns, asked[-1]) + NS // 100
        process.completed(free_ns)
        served += 1
    assert served / 2_000 == pytest.approx(5 / 1.01, rel=0.05)
    lonely = arrivals(ArrivalConfig("closed", users=2), np.random.default_rng(1))
    for _ in range(2):
        lonely.take()
    assert lonely.next_ns == NEVER


def test_no_rate_is_no_request() -> None:
    assert times(ArrivalConfig(per_s=0), 1e6) == []


@pytest.mark.parametrize("kind", ["poisson", "bursts", "diurnal", "closed"])
def test_the_same_seed_gives_the_same_times(kind: str) -> None:
    config = replace(ArrivalConfig(per_s=5, users=3), kind=kind)  # type: ignore[arg-type]
    assert times(config, 2) == times(config, 2)
    assert times(config, 2) != times(config, 2, seed=2)


@pytest.mark.parametrize(("kind", "spread"), [("lognormal", 0.8), ("gamma", 0.5), ("geometric", None)])
def test_lengths_have_their_mean_and_spread(kind: str, spread: float | None) -> None:
    lengths = Lengths(kind, 200, spread or 0.5)  # type: ignore[arg-type]
    rng = np.random.default_rng(1)
    drawn = np.array([lengths.draw(rng) for _ in range(20_000)])
    assert drawn.min() >= 1
    assert drawn.mean() == pytest.approx(200, rel=0.02)
    # a geometric length has variance (1 − p)/p²
    assert drawn.std() / drawn.mean() == pytest.approx(spread or math.sqrt(1 - 1 / 200), rel=0.03)


def test_lengths_stay_within_the_most() -> None:
    rng = np.random.default_rng(1)
    assert max(Lengths("lognormal", 500, 2.0, most=600).draw(rng) for _ in range(1_000)) == 600


@pytest.mark.parametrize(("key", "value"), [("per_s", -1.0), ("on_s", 0.0), ("burst_factor", 0.5), ("swing", 1.5),
                                            ("users", 0), ("think_s", -1.0), ("period_s", 0.0)])
def test_impossible_demand_is_refused_with_its_key(key: str, value: float) -> None:
    with pytest.raises(UsageError, match=key):
        ArrivalConfig(**{key: value})  # type: ignore[arg-type]


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(UsageError, match="closed"):
        arrivals(ArrivalConfig("weekly"), np.random.default_rng(1))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="spread"):
        Lengths(spread=0)
