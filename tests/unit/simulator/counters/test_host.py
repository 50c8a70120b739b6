from __future__ import annotations

import numpy as np
import pytest

from fleetscope.contracts.raw import COUNTERS
from simulator.clocks import Clock
from simulator.counters.descriptors import PERIOD_NS
from simulator.counters.host import Demand, RunWait, demand_readings
from simulator.counters.readings import Readings, counter_batch


def test_demand_is_read_as_of_the_last_change() -> None:
    demand = Demand(np.array([0, PERIOD_NS, PERIOD_NS + 1]), np.array([1, 2, 3]), np.array([0, 5, 0]))
    readings = demand_readings(demand, 7, 0, 2 * PERIOD_NS)
    assert list(zip(readings.counter, readings.instance, readings.value, strict=True)) == [
        ("requests_running", "7", 2.0), ("requests_waiting", "7", 5.0),
        ("requests_running", "7", 3.0), ("requests_waiting", "7", 0.0)]


def test_demand_before_it_is_known_is_refused() -> None:
    with pytest.raises(ValueError, match="rank 0: demand is not known before"):
        demand_readings(Demand(np.array([PERIOD_NS + 1]), np.array([1]), np.array([1])), 0, 0, PERIOD_NS)


def test_waits_for_a_processor_add_up_when_they_end() -> None:
    wait = RunWait(3)
    first = wait.read(np.array([150_000_000, 50_000_000]), np.array([7_500, 2_000_999]), 0, 2 * PERIOD_NS)
    later = wait.read(np.array([250_000_000]), np.array([1_000]), 2 * PERIOD_NS, 3 * PERIOD_NS)
    assert first.raw == [2_000, 2_008]
    assert later.raw == [2_009]
    assert later.instance == ["3"]


def test_readings_make_a_batch_of_their_contract() -> None:
    readings = Readings()
    readings.add(1_000, "pcie_rx_bytes", raw=5)
    readings.add(2_000, "power_w", value=17.5, status="ok")
    clock = Clock("dev0", 1_000_000_000, 10)
    batch = counter_batch(readings, clock, "dev0")
    assert batch.num_rows == 2
    assert batch.schema.names == [column.name for column in COUNTERS.columns]
    assert batch.column("time_ticks").to_pylist() == [1_010, 2_010]
    assert batch.column("raw").to_pylist() == [5, None]
    assert batch.column("value").to_pylist() == [None, 17.5]
