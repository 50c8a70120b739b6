"""How kernel time is split once counters say more than flops and bytes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.windows.kernels import STATES, split
from processors.windows.readings import Counted

share = st.floats(0.0, 1.0)
kernels = st.lists(st.tuples(st.floats(1.0, 1e6), share, share, st.booleans()), min_size=1, max_size=12)
amount = st.none() | st.floats(0.0, 5e6)


def ran(rows: list[tuple[float, float, float]], counted: Counted, *, judged: bool = True) -> dict[str, float]:
    """Of (time, share that arithmetic takes, share that bytes take)."""
    time, compute, memory = (np.array(column, float) for column in zip(*rows, strict=True))
    found = split(time, time * compute, time * memory, np.full(len(time), judged), counted)
    return {name: round(value, 6) for name, value in found.items() if value > 1e-6}


@given(kernels, st.builds(Counted, st.none() | st.floats(0.0, 5.0), amount, amount, st.none() | share, amount, amount,
                          amount))
def test_parts_are_never_negative_and_add_up_to_the_time(rows: list[tuple[float, float, float, bool]],
                                                         counted: Counted) -> None:
    time, compute, memory, judged = (np.array(column) for column in zip(*rows, strict=True))
    found = split(time, time * compute, time * memory, judged.astype(bool), counted)
    assert set(found) == set(STATES)
    assert min(found.values()) >= -1e-6
    assert sum(found.values()) == pytest.approx(float(time.sum()), rel=1e-9)


def test_without_counters_it_is_the_roofline() -> None:
    rows = [(100.0, 0.6, 0.3), (100.0, 0.1, 0.8)]
    assert ran(rows, Counted()) == {"compute": 60.0, "memory_bandwidth": 80.0, "latency": 60.0}
    assert ran([(100.0, 0.6, 0.0)], Counted(), judged=False) == {"compute": 60.0, "kernel_unattributed": 40.0}


def test_a_lowered_clock_stretches_arithmetic_but_not_memory() -> None:
    assert ran([(100.0, 0.5, 0.1)], Counted(stretch=0.8)) == {"compute": 50.0, "throttled": 40.0, "latency": 10.0}
    assert ran([(100.0, 0.2, 0.9)], Counted(stretch=0.8)) == {"memory_bandwidth": 90.0, "latency": 10.0}


def test_a_stretch_beyond_the_unexplained_time_takes_only_that() -> None:
    assert ran([(100.0, 0.5, 0.1)], Counted(stretch=3.0)) == {"compute": 50.0, "throttled": 50.0}


def test_conflicts_take_what_accesses_without_them_would_save() -> None:
    found = ran([(100.0, 0.02, 0.03)], Counted(on_chip_ns=30.0, conflict_ns=65.0))
    assert found == {"on_chip_memory": 30.0, "bank_conflict": 65.0, "latency": 5.0}


def test_on_chip_accesses_behind_arithmetic_bind_nothing() -> None:
    assert ran([(100.0, 0.9, 0.1)], Counted(on_chip_ns=80.0, conflict_ns=0.0)) == {"compute": 90.0, "latency": 10.0}


def test_on_chip_time_lies_in_the_kernels_that_nothing_else_explains() -> None:
    found = ran([(100.0, 0.9, 0.0), (100.0, 0.01, 0.01)], Counted(on_chip_ns=180.0))
    assert found == {"compute": 90.0, "on_chip_memory": 90.0, "latency": 20.0}


def test_spilled_bytes_are_taken_from_the_kernels_that_wait_for_memory() -> None:
    found = ran([(100.0, 0.3, 0.9), (100.0, 0.8, 0.1)], Counted(spill_share=0.5))
    assert found == {"compute": 80.0, "memory_bandwidth": 40.0, "spill": 50.0, "latency": 30.0}


def test_memory_that_gives_less_than_its_peak_is_still_memory() -> None:
    assert ran([(100.0, 0.1, 0.5)], Counted(memory_stall_ns=80.0)) == {"memory_bandwidth": 90.0, "latency": 10.0}
    # within the noise of counters that take turns
    assert ran([(100.0, 0.1, 0.5)], Counted(memory_stall_ns=42.0)) == {"memory_bandwidth": 50.0, "latency": 50.0}


def test_copies_in_the_way_take_no_more_than_is_unexplained() -> None:
    assert ran([(100.0, 0.1, 0.6)], Counted(dma_ns=25.0)) == {"memory_bandwidth": 60.0, "dma_stall": 25.0,
                                                              "latency": 15.0}
    assert ran([(100.0, 0.1, 0.6)], Counted(dma_ns=90.0)) == {"memory_bandwidth": 60.0, "dma_stall": 40.0}
