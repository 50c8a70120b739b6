from __future__ import annotations

import numpy as np
import pytest

from simulator.history.settings import Season
from simulator.history.signals import Ar1, day_shape, demand_season, phi_of_window
from tests.unit.simulator.history.histories import QUIET, START_NS, made, small


def autocorrelation(values: np.ndarray, lag: int) -> float:
    centred = values - values.mean()
    return float((centred[:-lag] * centred[lag:]).mean() / centred.var())


@pytest.mark.parametrize(("window_s", "phi"), [(3_600, 0.6), (3_600, 0.0), (900, 0.8)])
def test_durations_correlate_over_an_hour_as_set(window_s: int, phi: float) -> None:
    noise = {**QUIET["noise"], "device": 0.02, "phi": phi}
    hours = 4_000
    found = made(small(hours=hours, window_s=window_s, hosts=1, devices=1, jobs=[{"max_batch": 1}],
                       season=QUIET["season"], noise=noise))
    # With one batch bucket and demand that does not vary, what a device is used for follows its durations.
    windows = found.windows.to_pandas()
    used = (windows.window_ns - windows.no_demand_ns).to_numpy().astype(np.float64)
    assert autocorrelation(used, 3_600 // window_s) == pytest.approx(phi, abs=4 / np.sqrt(hours))
    assert used.std() / used.mean() == pytest.approx(0.02, rel=0.15)


def test_ar1_has_its_variance_from_the_first_value_on_and_does_not_depend_on_its_cuts() -> None:
    first = [Ar1([seed], 2.0, 0.99).take(1)[0] for seed in range(3_000)]
    assert np.std(first) == pytest.approx(2.0, rel=0.06)
    cut, whole = Ar1([7], 2.0, 0.9), Ar1([7], 2.0, 0.9)
    assert np.array_equal(np.concatenate([cut.take(1), cut.take(500), cut.take(37)]), whole.take(538))


def test_correlation_of_a_window_is_that_over_the_lag_to_the_power_of_windows() -> None:
    assert phi_of_window(0.6, 3_600, 60) ** 60 == pytest.approx(0.6, abs=1e-6)
    assert phi_of_window(0.0, 3_600, 60) == 0.0


def test_demand_has_a_period_of_a_day_and_less_of_it_at_the_weekend() -> None:
    weeks = 4
    found = made(small(hours=24 * 7 * weeks, window_s=3_600, hosts=1, devices=1, jobs=[{"utilisation": 0.5}],
                       season={"daily": 0.3, "weekend": 0.0, "peak_hour": 9.0, "duration_daily": 0.0},
                       noise=QUIET["noise"]))
    windows = found.windows.to_pandas()
    tokens = windows.d2h_bytes.to_numpy().astype(np.float64)  # a word a sequence and step
    spectrum = np.abs(np.fft.rfft(tokens - tokens.mean()))
    assert np.argmax(spectrum) == 7 * weeks
    day = tokens[:24]
    assert np.argmax(day) == 9
    assert (day.max() - day.min()) / day.mean() == pytest.approx(0.6, rel=0.02)


def test_the_weekend_is_saturday_and_sunday_utc() -> None:
    seconds = START_NS // 10**9 + np.arange(7) * 86_400 + 3_600  # from a Thursday on
    factors = demand_season(seconds, day_shape(14.0), Season(daily=0.0, weekend=0.25))
    assert factors.tolist() == [1.0, 1.0, 0.75, 0.75, 1.0, 1.0, 1.0]
