"""Power limit, temperature and clock of a device under steady load."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from simulator.engine import Device, World, WorldSpec
from simulator.engine.layout import SERIES
from tests.unit.simulator.engine.worlds import columns

SECONDS = 6


def loaded(device: Device) -> dict[str, NDArray[np.float64]]:
    """Series of a device whose matrix engine is always busy for some seconds."""
    world = World(WorldSpec((device,)))
    world.run(1)
    world.load(0, columns([{"queue": 0, "matrix_ns": 1e6}] * 2_000 * SECONDS), 0, 0)
    world.run(SECONDS * 10**9 + 1)
    values = world.take().readings.values
    return {name: values[:, index] for index, name in enumerate(SERIES)}


def test_the_clock_falls_to_hold_the_power_limit_and_no_further_than_it_must() -> None:
    series = loaded(Device(launch_latency_ns=0, full_mhz=1_600, min_mhz=400, idle_w=50.0, matrix_w=300.0, max_w=200.0))
    steady = series["power_w"][10:]
    assert steady.max() <= 200.0 * 1.02
    assert steady.mean() >= 200.0 * 0.94
    # 150 W of 300 W: φ³ = ½, φ = 0.794
    assert series["clock_mhz"][10:].mean() == pytest.approx(1_600 * 0.5 ** (1 / 3), rel=0.03)


def test_without_a_limit_the_clock_stays_full() -> None:
    series = loaded(Device(launch_latency_ns=0, full_mhz=1_600, min_mhz=400, idle_w=50.0, matrix_w=300.0))
    assert (series["clock_mhz"] == 1_600).all()
    assert (series["throttled_ns"] == 0).all()
    assert series["power_w"] == pytest.approx(350.0)


def test_temperature_follows_power_with_its_time_constant_and_is_held_by_the_clock() -> None:
    warm = loaded(Device(launch_latency_ns=0, idle_w=50.0, matrix_w=250.0, thermal_c_per_w=0.2, thermal_s=1.0))
    after_s = np.arange(1, 10 * SECONDS + 1) / 10
    assert warm["temperature_c"] == pytest.approx(25.0 + 60.0 * (1 - np.exp(-after_s)), abs=0.5)
    held = loaded(Device(launch_latency_ns=0, idle_w=50.0, matrix_w=250.0, thermal_c_per_w=0.2, thermal_s=1.0,
                         throttle_c=70.0))
    assert held["temperature_c"].max() <= 70.5
    assert held["temperature_c"][20:].min() >= 66.0
    assert held["throttled_ns"].sum() > 0


def test_lower_clock_slows_kernels_by_as_much() -> None:
    device = Device(launch_latency_ns=0, full_mhz=1_600, min_mhz=400, idle_w=50.0, matrix_w=300.0, max_w=200.0)
    series = loaded(device)
    # Work done in a period, in ns at full clock, is busy time times the mean relative clock.
    assert (series["compute_busy_ns"][10:] == 1e8).all()
    assert series["matrix_ns"][10:] == pytest.approx(1e8, rel=1e-6)
