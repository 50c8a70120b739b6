"""Effective link bandwidth against published figures (GB/s, MPS 256)."""

from __future__ import annotations

import pytest

from processors.windows.pcie import Link


@pytest.mark.parametrize(("speed_gt_s", "lanes", "write", "read"), [
    (8, 16, 13.0, 13.2), (16, 8, 13.2, 13.4), (16, 16, 26.0, 26.4), (32, 8, 26.5, 26.9), (32, 16, 52.0, 52.7),
    (64, 16, 111.0, 113.0),
])
def test_effective_bandwidth_is_within_three_percent_of_the_table(speed_gt_s: float, lanes: float, write: float,
                                                                  read: float) -> None:
    link = Link(speed_gt_s, lanes)
    assert link.effective_bytes_per_s("d2h") / 1e9 == pytest.approx(write, rel=0.03)
    assert link.effective_bytes_per_s("h2d") / 1e9 == pytest.approx(read, rel=0.03)


def test_early_generations_lose_a_fifth_to_encoding() -> None:
    assert Link(5.0, 1).raw_bytes_per_s() == pytest.approx(0.5e9)


def test_larger_packets_reach_more() -> None:
    assert Link(16, 4, 512).effective_bytes_per_s("d2h") > Link(16, 4, 128).effective_bytes_per_s("d2h")
