"""What a window says of each device: joins, demand, inventory, bounds."""

from __future__ import annotations

from typing import Any

import pytest

from fleetscope.contracts.derived import STATE_NAMES
from processors.windows.pcie import Link
from tests.unit.processors.windows.hosts import Feed, counter, fact, span
from tests.unit.processors.windows.test_closing import STEP, kernel, rows_of, run


def first(feed: Feed, device: str = "dev0", start: int = 0) -> dict[str, Any]:
    feed.mark(start + 1000)
    return next(r for r in run(feed) if (r["device"], r["window_start_ns"]) == (device, start))


def driver(start: int, duration: int, correlation: int, **more: Any) -> dict[str, Any]:
    return span("driver", start, duration, None, correlation_id=correlation, **more)


def step_span(start: int, duration: int, **more: Any) -> dict[str, Any]:
    return span("cpu_thread", start, duration, None, step=1, **more)


def test_states_add_up_to_the_window_for_every_device() -> None:
    feed = Feed()
    feed.spans(kernel(100, 333, flops=7, bytes=9), span("pcie_h2d", 500, 99, "dev1", bytes=5), driver(0, 7, 1))
    feed.mark(1000)
    for row in run(feed):
        assert sum(row[f"{name}_ns"] for name in STATE_NAMES) == row["window_ns"]


def test_devices_come_from_the_inventory_as_well_as_from_spans() -> None:
    feed = Feed()
    feed.send("aligned_inventory", [fact("device", "dev7", "kind")])
    feed.spans(kernel(100))
    feed.mark(1000)
    assert [r["device"] for r in run(feed)] == ["dev0", "dev7"]


def test_a_gap_is_split_at_the_submission_of_the_next_kernel() -> None:
    feed = Feed()
    feed.spans(step_span(0, 1000), driver(280, 20, 5), kernel(0, 100), kernel(400, 600, correlation_id=5))
    row = first(feed)
    assert (row["host_ns"], row["launch_overhead_ns"], row["launch_latency_p50_ns"]) == (200, 100, 100)


def test_a_submission_of_the_window_before_still_finds_its_kernel() -> None:
    feed = Feed()
    feed.spans(step_span(0, 2000), kernel(0, 10), driver(900, 50, 5), kernel(1200, 10, correlation_id=5))
    row = first(feed, start=1000)
    assert (row["launch_overhead_ns"], row["orphans"]) == (200, 0)


def test_a_submission_older_than_the_lookback_is_not_taken_whatever_stands_beside_it() -> None:
    feed = Feed()
    feed.spans(driver(50, 50, 5), driver(0, 900, 6), kernel(0, 1500), kernel(1700, 10, correlation_id=5))
    assert first(feed, start=1000)["orphans"] == 1


def test_a_submission_that_was_served_in_the_window_before_does_not_wait() -> None:
    feed = Feed()
    feed.spans(driver(700, 50, 5), kernel(800, 10, correlation_id=5))
    assert first(feed, start=1000)["no_demand_ns"] == 1000


def test_which_ranks_mark_their_steps_is_remembered_over_a_restart() -> None:
    feed = Feed()
    feed.spans(step_span(0, 100, rank=0, job="a"), step_span(0, 100, rank=1, job="a"),
               kernel(0, 100, "dev0", rank=0, job="a"), kernel(0, 100, "dev1", rank=1, job="a"))
    feed.mark(1000)
    state = STEP.start()
    for _, batch in feed.messages:
        state, _out = STEP.on_batch(state, batch)
    state = STEP.restore(STEP.snapshot(state))
    feed.messages.clear()
    feed.spans(step_span(1000, 1000, rank=0, job="a"))
    feed.mark(2000)
    outputs = []
    for _, batch in feed.messages:
        state, out = STEP.on_batch(state, batch)
        outputs += out
    assert [(r["device"], r["host_ns"]) for r in rows_of(outputs)] == [("dev0", 1000), ("dev1", 0)]


def test_the_same_correlation_id_in_another_process_is_no_submission() -> None:
    feed = Feed()
    feed.spans(driver(280, 20, 5, process_id=8), kernel(400, 600, correlation_id=5))
    row = first(feed)
    assert (row["orphans"], row["launch_latency_p50_ns"]) == (1, None)


@pytest.mark.parametrize("correlation", [-5, 2**62])
def test_correlation_ids_of_any_size_are_joined(correlation: int) -> None:
    feed = Feed()
    feed.spans(driver(280, 20, correlation), kernel(400, 600, correlation_id=correlation), driver(0, 5, 1))
    assert first(feed)["orphans"] == 0


def test_a_submission_whose_kernel_has_not_started_explains_the_end_of_the_window() -> None:
    feed = Feed()
    feed.spans(step_span(0, 1000), kernel(0, 100), driver(300, 100, 5), kernel(1500, 10, correlation_id=5))
    row = first(feed)
    assert (row["host_ns"], row["launch_overhead_ns"]) == (300, 600)


def test_waiting_for_a_copy_on_another_device_is_a_dependency() -> None:
    feed = Feed()
    feed.spans(driver(80, 10, 5), kernel(0, 100), span("pcie_h2d", 100, 300, "dev1", correlation_id=4, bytes=1),
               kernel(450, 550, correlation_id=5, wait_ids=[4]))
    row = first(feed)
    assert (row["dependency_ns"], row["launch_overhead_ns"]) == (300, 50)


def test_open_steps_of_another_rank_are_no_demand_for_a_device() -> None:
    feed = Feed()
    feed.spans(step_span(0, 1000, rank=0, job="a"), step_span(0, 50, rank=1, job="a"),
               kernel(0, 100, "dev0", rank=0, job="a"), kernel(0, 100, "dev1", rank=1, job="a"))
    feed.mark(1000)
    assert [(r["host_ns"], r["no_demand_ns"]) for r in run(feed)] == [(900, 0), (0, 900)]


def test_steps_without_a_rank_speak_for_every_device() -> None:
    feed = Feed()
    feed.spans(step_span(0, 1000), kernel(0, 100, "dev0", rank=0, job="a"))
    assert first(feed)["host_ns"] == 900


def test_a_device_that_never_worked_has_no_demand_while_others_are_busy() -> None:
    feed = Feed()
    feed.send("aligned_inventory", [fact("device", "dev1", "kind")])
    feed.spans(step_span(0, 1000, rank=0, job="a"), kernel(0, 100, "dev0", rank=0, job="a"))
    assert first(feed, "dev1")["no_demand_ns"] == 1000


def test_an_idle_device_keeps_its_rank_across_windows() -> None:
    feed = Feed()
    feed.spans(kernel(0, 100, rank=0, job="a"))
    feed.spans(step_span(0, 1000, rank=0, job="a"), step_span(0, 1000, rank=1, job="a"))
    feed.spans(step_span(1000, 500, rank=0, job="a"), step_span(1000, 1000, rank=1, job="a"))
    row = first(feed, start=1000)
    assert (row["host_ns"], row["no_demand_ns"], row["job"]) == (500, 500, None)


def test_the_achievable_peak_wins_over_the_nominal_one() -> None:
    feed = Feed()
    feed.send("aligned_inventory", [fact("peak", "dev0", "flops_per_s", 2e9),
                                    fact("peak", "dev0", "memory_bytes_per_s", 1e9),
                                    fact("peak", "dev0", "achievable_flops_per_s", 1e9)])
    feed.spans(kernel(0, 1000, flops=500, bytes=0))
    row = first(feed)
    assert (row["compute_ns"], row["latency_ns"]) == (500, 500)


def test_transfer_time_at_the_ceiling_of_the_negotiated_link_is_pcie_and_the_rest_small_transfers() -> None:
    feed = Feed()
    feed.send("aligned_inventory", [fact("link", "dev0/pcie", "speed_gt_s", 16, parent="dev0"),
                                    fact("link", "dev0/pcie", "width_lanes", 4, parent="dev0")])
    ceiling = Link(16, 4).effective_bytes_per_s("h2d")
    feed.spans(span("pcie_h2d", 0, 1000, bytes=round(ceiling * 400e-9)))
    row = first(feed)
    assert row["pcie_h2d_ns"] == pytest.approx(400, abs=1)
    assert row["pcie_small_ns"] == 1000 - row["pcie_h2d_ns"]


def test_inventory_counts_from_its_own_time_on() -> None:
    feed = Feed()
    feed.send("aligned_inventory", [fact("peak", "dev0", "bus_bytes_per_s", 1e9, time=1500)])
    feed.spans(span("collective", 0, 1000, bytes=10), span("collective", 1500, 100, bytes=100))
    feed.mark(2000)
    rows = run(feed)
    assert rows[0]["collective_network_ns"] == 1000  # nothing says that it waited
    assert rows[1]["collective_network_ns"] == 100


def test_a_row_without_a_bound_takes_the_bound_of_its_window_away_and_its_time_is_unknown() -> None:
    feed = Feed()
    feed.spans(kernel(0, 100, err_ns=4), kernel(500, 200, err_ns=None))
    row = first(feed)
    assert (row["err_ns"], row["unknown_ns"], row["kernels"]) == (None, 200, 2)


def test_the_bound_of_a_window_is_the_largest_of_its_rows() -> None:
    feed = Feed()
    feed.spans(kernel(0, 100, err_ns=4), driver(0, 5, 1, err_ns=9))
    assert first(feed)["err_ns"] == 9


def test_the_job_is_the_one_with_most_device_time() -> None:
    feed = Feed()
    feed.spans(kernel(0, 100, job="b"), kernel(200, 300, job="a"), kernel(600, 100))
    assert first(feed)["job"] == "a"


def test_a_kernel_across_an_edge_gives_each_window_its_share_of_the_work() -> None:
    feed = Feed()
    feed.spans(kernel(700, 400, flops=1001))
    feed.mark(2000)
    assert [r["flops"] for r in run(feed)] == [750, 251]
    assert [r["kernels"] for r in run(feed)] == [1, 0]


def test_a_span_of_absurd_length_is_cut_and_does_not_hold_its_message_for_ever() -> None:
    feed = Feed()
    feed.spans(kernel(100, 2**61))
    feed.mark(1000)
    assert run(feed)[0]["kernel_unattributed_ns"] == 900


def test_readings_that_are_no_numbers_are_counted_for_their_device_and_window() -> None:
    feed = Feed()
    feed.spans(kernel(100), span("engine:matrix", 200, 10, "dev1"))
    feed.send("aligned_counters", [
        *(counter(300 + n, device="dev0", status=status) for n, status in enumerate(
            ("ok", "wrapped", "missing", "sentinel", "saturated", "stuck", "reset", "jitter"))),
        counter(400, device=None, status="sentinel"), counter(1_200, device="dev1", status="stuck")])
    feed.spans(kernel(2_100))
    feed.mark(3_000)
    found = {(row["device"], row["window_start_ns"]): row["counter_errors"] for row in run(feed)}
    assert {key: errors for key, errors in found.items() if errors} == {("dev0", 0): 6, ("dev1", 1_000): 1}
    assert len(found) == 6


def test_a_late_reading_that_is_no_number_is_left_to_the_window_that_is_asked_for_again() -> None:
    feed = Feed()
    feed.spans(kernel(100), kernel(1_100))
    feed.mark(1_000)
    feed.send("aligned_counters", [counter(300, device="dev0", status="sentinel")])
    feed.mark(2_000)
    assert [row["counter_errors"] for row in run(feed)] == [0, 0]
