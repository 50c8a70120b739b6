from __future__ import annotations

import numpy as np

from simulator.clocks import NS
from simulator.readings import PERIOD_NS, DeviceReadings, Row, demand_rows
from simulator.scenario import Device, load_scenario
from simulator.spans import TRACK, make
from simulator.workload import Replica


def values(rows: list[Row], counter: str, instance: str | None = None) -> list[float]:
    return [row[3] if row[3] is not None else row[4] for row in rows if row[:2] == (counter, instance)]  # type: ignore[misc]


def test_utilisation_is_the_covered_share_of_the_period() -> None:
    spans = make(2, start=np.array([0, 150]) * 1_000_000, end=np.array([50, 250]) * 1_000_000,
                 track=TRACK["engine:matrix"], bytes=1_000)
    rows = DeviceReadings(Device(), np.random.default_rng(1)).read(spans, 0, 2 * PERIOD_NS)
    assert values(rows, "engine_active", "matrix") == [0.5, 0.5]
    assert values(rows, "engine_active", "vector") == [0.0, 0.0]
    assert values(rows, "hbm_bytes") == [1_000, 1_500]


def test_monotonic_counters_rise_to_the_bytes_of_all_spans_over_many_chunks() -> None:
    replica = Replica(load_scenario("pcie-bound"), 3, 0, 0, 12 * NS)
    made = replica.advance(12 * NS).device
    readings = DeviceReadings(Device(), np.random.default_rng(1))
    rows: list[Row] = []
    for begin in range(0, 14 * NS, 200_000_000):
        window = made.take((made.end > begin) & (made.start < begin + 200_000_000))
        rows += readings.read(window, begin, begin + 200_000_000)
    for counter, tracks in (("hbm_bytes", ("engine:matrix", "engine:vector")), ("pcie_rx_bytes", ("pcie_h2d",)),
                            ("pcie_tx_bytes", ("pcie_d2h",))):
        series = values(rows, counter)
        assert series == sorted(series)
        assert series[-1] == made.bytes[np.isin(made.track, [TRACK[t] for t in tracks])].sum()
    narrow = values(rows, "pcie_rx_bytes_32")
    assert narrow == [value % (1 << 32) for value in values(rows, "pcie_rx_bytes")]
    assert min(np.diff(narrow)) < 0  # it wraps


def test_demand_is_read_as_of_the_last_change() -> None:
    rows = demand_rows([(0, 1, 0), (PERIOD_NS, 2, 5), (PERIOD_NS + 1, 3, 0)], 7, 0, 2 * PERIOD_NS)
    assert values(rows, "requests_running", "7") == [2.0, 3.0]
    assert values(rows, "requests_waiting", "7") == [5.0, 0.0]
