from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.physics.sram import GATHER, conflict, gather_conflict


@given(st.integers(0, 300), st.sampled_from([8, 16, 24, 32, 64]))
def test_conflicts_of_a_stride_are_those_of_counted_lanes(stride: int, banks: int) -> None:
    words = {lane * stride for lane in range(banks)}  # lanes that read one word share it
    fullest = np.bincount([word % banks for word in words]).max()
    assert conflict(np.array([stride], np.float64), banks)[0] == fullest


@pytest.mark.parametrize("banks", [2, 8, 32])
def test_conflicts_of_unrelated_addresses_are_those_of_drawn_lanes(banks: int) -> None:
    rng = np.random.default_rng(banks)
    fullest = [np.bincount(rng.integers(0, banks, banks)).max() for _ in range(20_000)]
    assert gather_conflict(banks) == pytest.approx(np.mean(fullest), abs=0.03)
    assert conflict(np.array([GATHER], np.float64), banks)[0] == gather_conflict(banks)


def test_two_banks_conflict_every_other_time() -> None:
    assert gather_conflict(2) == 1.5
    assert gather_conflict(1) == 1.0
