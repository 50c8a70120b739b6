"""Stamps of REALTIME carried to MONOTONIC_RAW: the truth is inside, or there is no answer."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from ingest.bridge import Bridge
from ingest.timex import Timex

START = 1_790_000_000_000_000_000


class SlewedClocks:
    """REALTIME = START + raw + offset; every reading takes ``cost`` ns; the offset slews at ``ppm``."""

    def __init__(self, ppm: float = 0.0, cost: int = 40) -> None:
        self.raw, self.offset, self.ppm, self.cost = 10_000_000_000, 0.0, ppm, cost

    def wait(self, ns: int) -> None:
        self.raw += ns
        self.offset += ns * self.ppm * 1e-6

    def monotonic_raw_ns(self) -> int:
        self.wait(self.cost)
        return self.raw

    def realtime_ns(self) -> int:
        self.wait(self.cost)
        return START + self.raw + int(self.offset)

    def reader(self, clock: str) -> Callable[[], int]:
        return {"realtime": self.realtime_ns}[clock]

    def discipline(self) -> Timex | None:
        return None


@given(st.floats(-900, 900), st.integers(2_000_000, 1_000_000_000), st.integers(0, 400_000_000),
       st.integers(20, 20_000))
def test_the_truth_is_inside_at_any_ordinary_slew(ppm: float, gap: int, age: int, cost: int) -> None:
    clocks = SlewedClocks(ppm, cost)
    bridge = Bridge(clocks)
    bridge.cross()
    clocks.wait(gap)
    stamp, truth = clocks.realtime_ns(), clocks.raw
    clocks.wait(age)
    bridge.cross()
    found = bridge.to_raw(stamp)
    assert found is not None
    assert found[0] <= truth <= found[1]
    seen = age + age // 1000 + 20 * cost  # the age as the slewed clock shows it
    assert found[1] - found[0] <= 2 * cost + seen // 500 + 20


def test_a_step_between_the_crossings_is_refused() -> None:
    for at_stamp in (False, True):
        clocks = SlewedClocks()
        bridge = Bridge(clocks)
        bridge.cross()
        clocks.wait(100_000_000)
        if not at_stamp:
            clocks.offset += 3_000_000
        stamp = clocks.realtime_ns()
        clocks.wait(30_000)
        if at_stamp:
            clocks.offset -= 3_000_000
        bridge.cross()
        assert bridge.to_raw(stamp) is None


def test_a_clock_slewed_faster_than_ordinary_is_refused() -> None:
    clocks = SlewedClocks(50_000)
    bridge = Bridge(clocks)
    bridge.cross()
    clocks.wait(100_000_000)
    stamp = clocks.realtime_ns()
    clocks.wait(50_000)
    bridge.cross()
    assert bridge.to_raw(stamp) is None


def test_a_stamp_that_no_crossing_stands_before_is_refused() -> None:
    clocks = SlewedClocks()
    bridge = Bridge(clocks)
    assert bridge.to_raw(START) is None
    stamp = clocks.realtime_ns()
    bridge.cross()
    assert bridge.to_raw(stamp) is None
    bridge.cross()
    assert bridge.to_raw(stamp) is None
    assert bridge.to_raw(clocks.realtime_ns() + 1_000) is None


def test_a_crossing_too_long_ago_vouches_for_nothing() -> None:
    clocks = SlewedClocks()
    bridge = Bridge(clocks)
    bridge.cross()
    clocks.wait(2_100_000_000)
    stamp = clocks.realtime_ns()
    bridge.cross()
    assert bridge.to_raw(stamp) is None
