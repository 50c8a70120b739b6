"""Power limits and inlet air that change while the world runs."""

from __future__ import annotations

import numpy as np

from simulator.engine.layout import CLOCK_MHZ, TEMPERATURE_C
from simulator.engine.program import COMPUTE, LAUNCH, program
from simulator.engine.spec import Change, Device, WorldSpec
from simulator.engine.world import World

DEVICE = Device(full_mhz=1_000, min_mhz=400, idle_w=10.0, max_w=100.0, matrix_w=80.0, thermal_c_per_w=0.1,
                thermal_s=0.2, inlet_c=25.0, throttle_c=60.0)


def series(*changes: Change) -> np.ndarray:
    """Clock and temperature every 100 ms of 2 s of one kernel without end."""
    world = World(WorldSpec((DEVICE,), changes=changes))
    world.load(0, program(1, kind=LAUNCH, queue=COMPUTE, name=1, matrix_ns=4e9), 0, 0)
    while world.run(2_000_000_000):
        pass  # the thread has given its kernel and has nothing else to do
    values = world.take().readings.values
    return values[:, [CLOCK_MHZ, TEMPERATURE_C]]


def test_a_lower_power_limit_lowers_the_clock_while_it_holds() -> None:
    clock = series(Change(500_000_000, "power_limit", 0, 50.0), Change(1_000_000_000, "power_limit", 0, 100.0))[:, 0]
    assert (clock[:4] == 1_000).all()
    assert 770 <= clock[7] <= 810  # 10 W + 80 W · φ³ = 50 W: φ = 0.79
    assert clock[-1] == 1_000


def test_hot_air_heats_the_device_until_it_gives_up_clock() -> None:
    clock, celsius = series(Change(500_000_000, "inlet", 0, 70.0)).T
    assert celsius[3] < 34
    assert celsius[-1] > 60
    assert clock[-1] < 1_000
