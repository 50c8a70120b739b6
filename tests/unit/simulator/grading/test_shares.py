"""True shares of windows whose edges fall on slots, and of those whose edges cut them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given as examples
from hypothesis import strategies as st

from fleetscope.contracts.derived import STATE_NAMES
from simulator.clocks import NS
from simulator.grading.shares import BIN_NS, row_counts, true_windows
from simulator.truth import SpanStarts, Truth, TruthSink
from tests.unit.simulator.grading.cases import START_NS, all_rows, host_time, slots


def share(values: np.ndarray[tuple[int], np.dtype[np.float64]], state: str) -> float:
    return float(values[STATE_NAMES.index(state)])


def test_windows_on_slot_edges_have_exactly_the_shares_of_their_slots() -> None:
    causes = slots({"compute_matrix": 0.5, "compute_vector": 0.25}, {"pcie_small": 0.3, "pcie_queueing": 0.1})
    true = true_windows(causes, host_time(), START_NS + np.array([0, NS]), NS)
    assert share(true.share[0], "compute") == pytest.approx(0.75)
    assert share(true.share[0], "no_demand") == pytest.approx(0.25)
    assert share(true.share[1], "pcie_small") == pytest.approx(0.3)
    assert share(true.share[1], "pcie_queueing") == pytest.approx(0.1)
    assert true.known.tolist() == pytest.approx([1.0, 1.0])
    assert true.cut.tolist() == pytest.approx([0.0, 0.0], abs=1e-9)


def test_a_cut_slot_counts_by_its_overlap_and_says_how_far_that_may_be_off() -> None:
    causes = slots({"compute_matrix": 1.0}, {"host_launch": 1.0})
    late = 30_000_000  # fleet time is 30 ms behind: the window takes the last 30 ms of the first second's slots
    true = true_windows(causes, host_time(-late), np.array([START_NS]), NS)
    assert share(true.share[0], "compute") == pytest.approx(0.97)
    assert share(true.share[0], "host") == pytest.approx(0.03)
    assert true.cut[0] == pytest.approx(0.06)  # 30 ms at each edge


def test_time_beyond_the_truth_is_not_known() -> None:
    true = true_windows(slots({"compute_matrix": 1.0}), host_time(),
                        START_NS + np.array([-NS, -NS // 2, 0, NS // 4, NS]), NS)
    assert true.known.tolist() == pytest.approx([0.0, 0.5, 1.0, 0.75, 0.0])
    assert share(true.share[1], "compute") == pytest.approx(1.0)


@examples(offset=st.integers(-NS, 3 * NS), width=st.integers(NS // 100, NS))
def test_shares_sum_to_one_wherever_something_is_known(offset: int, width: int) -> None:
    causes = slots({"compute_matrix": 0.5, "host_input": 0.2}, {"throttled": 0.9}, {})
    true = true_windows(causes, host_time(), np.array([START_NS + offset]), width)
    assert 0.0 <= true.known[0] <= 1.0
    if true.known[0] > 0.01:
        assert true.share[0].sum() == pytest.approx(1.0)


def test_a_host_without_a_bounded_map_is_taken_at_its_own_offset() -> None:
    tau = np.array([0, NS], dtype=np.int64)
    assert host_time(err_ns=None).at(tau).tolist() == [START_NS, START_NS + NS]
    assert host_time(5_000, seconds=1).at(np.array([0, NS // 2, 2 * NS])).tolist() == [
        START_NS + 5_000, START_NS + NS // 2 + 5_000, START_NS + 2 * NS + 5_000]


def test_row_coverage_is_what_could_be_decoded_of_what_was_made() -> None:
    missed = np.zeros(2 * NS // BIN_NS + 1, dtype=np.int64)
    missed[:50] = 20
    rows = all_rows(2, missed)
    low = np.array([0.0, 0.25, 0.5, 1.0]) * NS
    assert rows.coverage(low, low + NS / 2).tolist() == pytest.approx([0.8, 0.9, 1.0, 1.0])


def test_rows_are_counted_once_whatever_became_of_them(tmp_path: Path) -> None:
    sink = TruthSink(tmp_path)
    starts = np.arange(10, dtype=np.int64) * BIN_NS
    sink.starts(SpanStarts("a", "p", 1, 0, "dev0", starts))
    sink.starts(SpanStarts("a", "p", 1, 1, "dev0", starts))
    sink.missed("a", "lost", starts)  # the second batch
    sink.missed("a", "dropped", starts[:5])
    sink.finish({}, {})
    counts = row_counts(Truth.load(tmp_path), ["a", "b"], NS)
    assert counts["a"].made[:10].tolist() == [3] * 5 + [2] * 5
    assert counts["a"].missed[:10].tolist() == [2] * 5 + [1] * 5
    assert counts["b"].made.sum() == 0
    assert counts["b"].coverage(np.array([0.0]), np.array([1e9])).tolist() == [1.0]
