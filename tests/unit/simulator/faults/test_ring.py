from __future__ import annotations

from simulator.faults.plan import FLUSH_NS
from simulator.faults.ring import RingBuffer
from simulator.faults.settings import Ring


def admitted(ring: RingBuffer, rows: list[int]) -> list[int]:
    return [ring.admit(count, (number + 1) * FLUSH_NS) for number, count in enumerate(rows)]


def test_a_ring_that_is_read_fast_enough_loses_nothing() -> None:
    assert admitted(RingBuffer(Ring(rows=100, drain_rows_per_s=1_000), []), [200, 200, 200]) == [200, 200, 200]


def test_what_is_beyond_capacity_and_reading_is_dropped_and_a_burst_leaves_the_ring_full() -> None:
    ring = RingBuffer(Ring(rows=100, drain_rows_per_s=1_000), [])
    assert admitted(ring, [350, 350, 0, 0, 250]) == [300, 200, 0, 0, 250]


def test_a_stalled_agent_reads_nothing_and_the_ring_takes_its_capacity_once() -> None:
    ring = RingBuffer(Ring(rows=100, drain_rows_per_s=1_000), [(FLUSH_NS, 3 * FLUSH_NS)])
    assert admitted(ring, [150, 150, 150, 150]) == [150, 100, 0, 150]
