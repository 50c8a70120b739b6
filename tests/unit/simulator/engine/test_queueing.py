"""Waiting times of Poisson arrivals at one queue against the Pollaczek–Khinchine formula.

W = λ·E[S²] / (2·(1 − ρ)): ρ·S / (2·(1 − ρ)) for constant service (M/D/1), ρ·S / (1 − ρ) for exponential (M/M/1).
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from simulator.engine import Device, World, WorldSpec, program
from simulator.engine.program import COMPUTE, COPY_IN

SERVICE_NS = 10_000
OPS = 400_000


def waiting_ns(columns: dict[str, NDArray[np.float64]], queue: int, rho: float, device: Device) -> float:
    """Mean time from arrival to start of ops that Poisson arrivals give a queue, the first tenth left out."""
    rng = np.random.default_rng(7)
    world = World(WorldSpec((device,), (1.0,)))
    world.run(1)
    gaps = np.rint(rng.exponential(SERVICE_NS / rho, OPS)).astype(np.int64)
    world.load(0, program(OPS, gap_ns=gaps, queue=queue, name=0, **columns), 0, 0)
    while world.run(int(gaps.sum()) + 10**9):
        pass
    spans = world.take().device
    assert len(spans) == OPS
    arrivals = np.cumsum(gaps) + device.launch_latency_ns
    order = np.argsort(spans.correlation)
    return float((spans.start[order] - arrivals)[OPS // 10:].mean())


def constant() -> NDArray[np.float64]:
    return np.full(OPS, float(SERVICE_NS))


def exponential() -> NDArray[np.float64]:
    return np.random.default_rng(8).exponential(SERVICE_NS, OPS)


DEVICE = Device(copy_in=(0,), launch_latency_ns=500, queue_depth=2_048)


@pytest.mark.parametrize("rho", [0.5, 0.7])
def test_constant_service_waits_as_m_d_1(rho: float) -> None:
    expected = rho * SERVICE_NS / (2 * (1 - rho))
    assert waiting_ns({"matrix_ns": constant()}, COMPUTE, rho, DEVICE) == pytest.approx(expected, rel=0.05)
    assert waiting_ns({"link_bytes": constant()}, COPY_IN, rho, DEVICE) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("rho", [0.5, 0.7])
def test_exponential_service_waits_as_m_m_1(rho: float) -> None:
    expected = rho * SERVICE_NS / (1 - rho)
    assert waiting_ns({"matrix_ns": exponential()}, COMPUTE, rho, DEVICE) == pytest.approx(expected, rel=0.05)
    assert waiting_ns({"link_bytes": exponential()}, COPY_IN, rho, DEVICE) == pytest.approx(expected, rel=0.05)
