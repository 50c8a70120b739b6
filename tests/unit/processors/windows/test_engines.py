"""At what rate engines can do their kernels' arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

from processors.windows.engines import engine_rates
from tests.unit.processors.windows.test_exchanges import Row, rows

MATRIX, VECTOR = 5, 6


def kernel(start: int, length: int, flops: int, engine: int = MATRIX):  # type: ignore[no-untyped-def]
    return Row(start, length, 0, 0, flops, engine)


def rates(*given: Row, stated: dict[int, float] = {}, occupied: dict[int, float] = {}):  # type: ignore[no-untyped-def]  # noqa: B006
    made = rows(*given)
    made.flops[:] = made.bytes
    return engine_rates(made, (0, 1_000), stated, 1e9, occupied)


def test_without_own_peaks_and_counters_the_devices_peak_stands() -> None:
    assert rates(kernel(0, 100, 10)) is None


def test_engines_have_their_own_peaks() -> None:
    found = rates(kernel(0, 100, 10), kernel(0, 100, 10, VECTOR), stated={VECTOR: 5e8})
    assert np.isnan(found[0])
    assert found[1] == 5e8


def test_a_pipe_that_was_occupied_longer_than_its_operations_take_is_slower() -> None:
    # 60 operations at 1e9/s take 60 ns; the pipe was occupied for 120 ns
    found = rates(kernel(0, 100, 40), kernel(200, 100, 20), occupied={MATRIX: 120.0})
    assert found.tolist() == pytest.approx([5e8, 5e8])


def test_what_lies_outside_the_window_does_not_count() -> None:
    found = rates(kernel(-100, 200, 80), occupied={MATRIX: 80.0})
    assert found.tolist() == pytest.approx([5e8])  # half of it, 40 operations


def test_noise_of_the_counter_and_idle_pipes_change_nothing() -> None:
    assert rates(kernel(0, 100, 100), occupied={MATRIX: 104.0}).tolist() == [1e9]
    assert rates(kernel(0, 100, 100), occupied={MATRIX: 20.0}).tolist() == [1e9]
