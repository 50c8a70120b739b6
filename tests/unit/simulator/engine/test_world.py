"""What a world does in cases small enough to work out by hand."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from fleetscope.errors import UsageError
from simulator.causes import NAMES
from simulator.engine import Change, Device, Group, HostSlow, Records, World, WorldSpec
from simulator.engine.layout import SERIES
from simulator.engine.program import (
    BLOCKING,
    COLLECTIVE,
    COMPUTE,
    COPY_IN,
    COPY_OUT,
    REMOTE_NUMA,
    SYNC,
    VECTOR,
    WAIT,
    WORK,
)
from tests.unit.simulator.engine.worlds import columns

NOW = Device(launch_latency_ns=0)


def finished(spec: WorldSpec, *programs: list[dict[str, float]], until_ns: int = 100_000_001) -> Records:
    """Records of a world in which every rank runs one program from time 0."""
    world = World(spec)
    world.run(1)
    for rank, calls in enumerate(programs):
        world.load(rank, columns(calls), 0, 0)
    while world.run(until_ns):
        pass
    return world.take()


def total(records: Records, device: int = 0) -> dict[str, int]:
    """Cause → ns of a device over all closed slots, without zeros."""
    ns = records.slots.ns[records.slots.device == device].sum(axis=0)
    return {NAMES[cause]: int(ns[cause]) for cause in np.flatnonzero(ns)}


def spans(records: Records) -> list[tuple[int, int, int]]:
    """(device, start, end) in the order of device and start."""
    d = records.device
    return sorted(zip(d.rank.tolist(), d.start.tolist(), d.end.tolist(), strict=True))


def kernel(**more: float) -> dict[str, float]:
    return {"queue": COMPUTE, **more}


def test_a_launch_leaves_a_call_a_submission_and_after_the_latency_a_kernel() -> None:
    records = finished(WorldSpec((Device(launch_latency_ns=700),)), [
        kernel(gap_ns=100, call_ns=300, driver_ns=120, api=4, name=9, fixed_ns=50, matrix_ns=1_000, request=7)])
    host, device = records.host, records.device
    assert list(zip(host.start, host.end, host.track, host.name, host.correlation, strict=True)) \
        == [(280, 400, 1, -1, 0), (100, 400, 0, 4, 0)]
    assert (device.start[0], device.end[0], device.name[0], device.request[0]) == (1_100, 2_150, 9, 7)
    assert total(records) == {"host_launch": 400, "launch_overhead": 700, "latency": 50, "compute_matrix": 1_000,
                              "no_demand": 100_000_000 - 2_150}


def test_resources_of_a_kernel_overlap_as_the_fourth_root_of_the_sum_of_fourth_powers() -> None:
    records = finished(WorldSpec((NOW,)), [kernel(matrix_ns=1_000, hbm_ns=1_000)])
    assert spans(records) == [(0, 0, 1_190)]  # 1,000 · 2^¼ = 1,189.2
    assert total(records)["compute_matrix"] == 1_000 or total(records)["compute_matrix"] == 1_001


def test_two_transfers_share_an_uplink_fairly_and_the_rest_is_queueing() -> None:
    devices = tuple(Device(copy_in=(rank, 2), launch_latency_ns=0) for rank in range(2))
    copy = {"queue": COPY_IN, "link_bytes": 1_000}
    records = finished(WorldSpec(devices, (10.0, 10.0, 10.0)), [copy], [{**copy, "gap_ns": 100}])
    # 100 ns alone at 10 bytes/ns would do; each has 5 while both move.
    assert spans(records) == [(0, 0, 100), (1, 100, 200)]
    records = finished(WorldSpec(devices, (10.0, 10.0, 10.0)), [copy], [{**copy, "gap_ns": 50}])
    assert spans(records) == [(0, 0, 150), (1, 50, 200)]
    assert total(records)["pcie_h2d_bandwidth"] == 100
    assert total(records)["pcie_queueing"] == 50


def test_three_links_are_shared_max_min_fairly() -> None:
    # The example of Bertsekas and Gallager's kind: a narrow link bounds two flows, a third takes what they leave.
    devices = (Device(copy_in=(0, 1), launch_latency_ns=0), Device(copy_in=(0,), launch_latency_ns=0),
               Device(copy_in=(1, 2), launch_latency_ns=0))
    calls = [[{"queue": COPY_IN, "link_bytes": size}] for size in (2_000, 2_000, 8_000)]
    records = finished(WorldSpec(devices, (4.0, 10.0, 9.0)), *calls)
    assert spans(records) == [(0, 0, 1_000), (1, 0, 1_000), (2, 0, 1_000)]  # 2, 2 and 8 bytes/ns


def test_a_transfer_keeps_to_its_cap_and_what_the_cap_takes_is_small_transfer_cost() -> None:
    spec = WorldSpec((Device(copy_out=(0,), copy_out_cap=4.0, launch_latency_ns=0),), (10.0,))
    records = finished(spec, [{"queue": COPY_OUT, "link_bytes": 2_000, "fixed_ns": 30}])
    assert spans(records) == [(0, 0, 530)]
    causes = total(records)
    assert (causes["pcie_d2h_bandwidth"], causes["pcie_small"]) == (200, 330)


def test_remote_numa_copies_take_the_other_path() -> None:
    device = Device(copy_in=(0,), copy_in_remote=(0, 1), launch_latency_ns=0)
    copy = {"queue": COPY_IN, "link_bytes": 100}
    records = finished(WorldSpec((device,), (10.0, 2.0)), [copy, {**copy, "flags": REMOTE_NUMA}])
    assert spans(records) == [(0, 0, 10), (0, 10, 60)]


def test_a_copy_slows_a_memory_bound_kernel_by_what_it_takes_of_device_memory() -> None:
    spec = WorldSpec((Device(copy_in=(0,), hbm_bytes_per_ns=100.0, launch_latency_ns=0),), (20.0,))
    records = finished(spec, [{"queue": COPY_IN, "link_bytes": 100_000}, kernel(hbm_ns=1_000)])
    assert spans(records) == [(0, 0, 1_250), (0, 0, 5_000)]  # 20 of 100 bytes/ns: 1,000 / 0.8
    assert total(records)["memory_bandwidth"] == 1_000
    assert total(records)["dma_stall"] == 250


def test_conflicts_and_spills_are_charged_with_what_their_absence_saves() -> None:
    spec = WorldSpec((NOW,))
    assert total(finished(spec, [kernel(sram_ns=1_000, conflict=1.5)]))["bank_conflict"] == 500
    assert total(finished(spec, [kernel(hbm_ns=1_000, spill_ns=250)]))["spill"] == 250


def test_a_capped_clock_stretches_engines_and_leaves_memory_alone() -> None:
    spec = WorldSpec((NOW,), changes=(Change(0, "clock_cap", 0, 500.0),))
    records = finished(spec, [kernel(matrix_ns=1_000), kernel(hbm_ns=1_000)])
    assert spans(records) == [(0, 0, 2_000), (0, 2_000, 3_000)]
    assert total(records)["throttled"] == 1_000
    assert records.readings.values[0, SERIES.index("clock_mhz")] == 500.0


def test_a_straggler_is_slow_without_a_lower_clock() -> None:
    records = finished(WorldSpec((NOW,), changes=(Change(500, "slowness", 0, 2.0),)), [kernel(matrix_ns=1_000)])
    assert spans(records) == [(0, 0, 1_500)]


def test_a_link_that_retrains_stands_still_and_comes_back() -> None:
    spec = WorldSpec((Device(copy_in=(0,), launch_latency_ns=0),), (10.0,),
                     changes=(Change(50, "link", 0, 0.0), Change(80, "link", 0, 5.0)))
    assert spans(finished(spec, [{"queue": COPY_IN, "link_bytes": 1_000}])) == [(0, 0, 180)]


def test_a_full_queue_holds_the_call_until_it_has_room() -> None:
    device = Device(queue_depth=2, launch_latency_ns=0)
    call = kernel(call_ns=10, driver_ns=4, api=1, matrix_ns=1_000)
    records = finished(WorldSpec((device,)), [call] * 4)
    calls = records.host.track == 0
    # The third and fourth wait for the ends at 1,010 and 2,010; the driver's 4 ns follow.
    assert records.host.end[calls].tolist() == [10, 20, 1_014, 2_014]
    assert records.host.start[records.host.track == 1].tolist() == [6, 16, 1_010, 2_010]
    assert spans(records) == [(0, 10, 1_010), (0, 1_010, 2_010), (0, 2_010, 3_010), (0, 3_010, 4_010)]


def test_blocking_calls_waits_and_synchronisation_return_at_the_ends_they_wait_for() -> None:
    records = finished(WorldSpec((NOW,)), [
        kernel(call_ns=10, api=1, matrix_ns=100, flags=BLOCKING), kernel(call_ns=10, api=2, matrix_ns=100),
        {"queue": VECTOR, "call_ns": 10, "api": 3, "vector_ns": 500},
        {"kind": WAIT, "wait": 1, "api": 4, "call_ns": 10}, {"kind": SYNC, "api": 5, "call_ns": 10},
        {"kind": WORK, "api": 6, "call_ns": 10}])
    assert dict(zip(records.host.name.tolist(), records.host.end.tolist(), strict=True)) \
        == {1: 110, 2: 120, 3: 130, 4: 220, 5: 630, 6: 640}
    assert records.host.track.tolist() == [0, 0, 0, 0, 0, 2]


def test_an_op_waits_for_another_queue_and_says_for_which() -> None:
    spec = WorldSpec((Device(copy_in=(0,), launch_latency_ns=0),), (1.0,))
    records = finished(spec, [{"queue": COPY_IN, "link_bytes": 300}, kernel(matrix_ns=50, wait=0)])
    assert spans(records) == [(0, 0, 300), (0, 300, 350)]
    assert records.device.wait.tolist() == [-1, records.device.correlation[0]]


def test_a_collective_begins_on_each_device_as_it_arrives_and_moves_when_the_last_has() -> None:
    spec = WorldSpec((NOW,) * 3, (10.0,), (Group((0, 1, 2), (0,)),))
    call = {"queue": COLLECTIVE, "communicator": 0, "sequence": 0, "link_bytes": 1_000, "fixed_ns": 20}
    calls = [[{**call, "gap_ns": gap}] for gap in (0, 300, 500)]
    records = finished(spec, *calls)
    assert spans(records) == [(0, 0, 620), (1, 300, 620), (2, 500, 620)]
    assert (total(records)["collective_wait"], total(records)["collective_network"]) == (500, 120)
    assert "collective_wait" not in total(records, 2)


def test_kernels_hide_collectives_and_copies_and_of_two_kernels_the_first_is_charged() -> None:
    spec = WorldSpec((Device(copy_in=(0,), launch_latency_ns=0),), (1.0,))
    records = finished(spec, [{"queue": COPY_IN, "link_bytes": 300}, kernel(gap_ns=100, matrix_ns=100),
                              {"queue": VECTOR, "gap_ns": 50, "vector_ns": 100}])
    assert total(records) == {"pcie_h2d_bandwidth": 100 + 50, "compute_matrix": 100, "compute_vector": 50,
                              "no_demand": 100_000_000 - 300}


def test_a_slow_host_stretches_its_calls_and_the_extra_is_contention() -> None:
    spec = WorldSpec((NOW,), host_slow=(HostSlow(0, 100, 400, 3.0),))
    records = finished(spec, [{"kind": WORK, "call_ns": 300, "api": 1}, kernel(matrix_ns=10)])
    assert records.host.end.tolist() == [500]  # 100 before, 100 in 300, 100 after
    assert total(records)["host_contention"] == 200
    assert total(records)["host_launch"] == 300


def test_idle_is_no_demand_until_there_is_some_and_then_the_host() -> None:
    world = World(WorldSpec((NOW,)))
    assert world.run(1) == [(0, 0)]
    assert world.run(1) == []
    world.load(0, columns([kernel(matrix_ns=10)]), 5_000, 0, demand_ns=4_000, step_name=8)
    assert world.run(100_000_001) == [(0, 5_000)]
    assert world.run(100_000_001) == []
    records = world.take()
    assert total(records) == {"no_demand": 100_000_000 - 1_010, "host_launch": 1_000, "compute_matrix": 10}
    assert records.host.name.tolist() == [8]


def test_no_later_span_begins_before_the_promise() -> None:
    world = World(WorldSpec((Device(launch_latency_ns=50),)))
    world.run(1)
    world.load(0, columns([kernel(call_ns=10, api=1, matrix_ns=900), {"kind": SYNC, "gap_ns": 30, "api": 2}]), 100, 0)
    world.run(500)
    records = world.take()
    assert (records.host_promise[0], records.device_promise[0]) == (140, 160)
    world.run(2_000)
    later = world.take()
    assert (later.host.start[0], later.device.start[0]) == (140, 160)


def test_readings_hold_busy_times_bytes_and_energy() -> None:
    device = Device(copy_in=(0,), idle_w=50.0, matrix_w=100.0, launch_latency_ns=0)
    records = finished(WorldSpec((device,), (10.0,)),
                       [{"queue": COPY_IN, "link_bytes": 1_003}, kernel(matrix_ns=10_000_000, bytes=77, flops=5)])
    values = dict(zip(SERIES, records.readings.values[0].tolist(), strict=True))
    assert values["in_bytes"] == pytest.approx(1_003, abs=1e-6)
    assert values["compute_busy_ns"] == 10_000_000
    assert values["flops"] == pytest.approx(5)
    assert values["hbm_bytes"] == pytest.approx(77)
    assert values["energy_j"] == pytest.approx(0.1 * 50 + 0.01 * 100)
    assert values["power_w"] == pytest.approx(60.0)


def test_a_call_that_cannot_be_executed_is_named() -> None:
    for call in ({"queue": 7}, {"queue": COMPUTE, "wait": 1}, {"queue": COMPUTE, "gap_ns": -1},
                 {"queue": COLLECTIVE, "communicator": 3}, {"kind": WAIT}, {"queue": COMPUTE, "driver_ns": 5}):
        with pytest.raises(ValueError, match="rank 0, step 0: call 1 cannot be executed"):
            finished(WorldSpec((NOW,)), [kernel(matrix_ns=5), call])


def test_members_that_disagree_on_a_sequence_are_refused() -> None:
    spec = WorldSpec((NOW, NOW), groups=(Group((0, 1)),))
    calls = [[{"queue": COLLECTIVE, "communicator": 0, "sequence": number, "link_bytes": 1}] for number in (0, 1)]
    with pytest.raises(ValueError, match="group 0: its members meet with different sequence numbers"):
        finished(spec, *calls)


def test_a_rank_takes_one_program_at_a_time() -> None:
    world = World(WorldSpec((NOW,)))
    world.load(0, columns([kernel()]), 0, 0)
    with pytest.raises(ValueError, match="rank 0 still runs a program"):
        world.load(0, columns([kernel()]), 0, 0)


@pytest.mark.parametrize(("spec", "reason"), [
    (lambda: WorldSpec(()), "no device"),
    (lambda: WorldSpec((Device(copy_in=(1,)),), (1.0,)), "no such link"),
    (lambda: WorldSpec((Device(),), (-1.0,)), "≥ 0 bytes/ns"),
    (lambda: WorldSpec((Device(queue_depth=0),)), "queue_depth: 0 must be > 0"),
    (lambda: WorldSpec((Device(idle_w=9.0, max_w=9.0),)), "max_w: 9.0 W is not above"),
    (lambda: WorldSpec((Device(),), groups=(Group((0, 0)),)), "a rank stands twice"),
    (lambda: WorldSpec((Device(),), changes=(Change(5, "slowness", 0, 0.5),)), "value 0.5 must be ≥ 1.0"),
    (lambda: WorldSpec((Device(),), host_slow=(HostSlow(0, 0, 9, 2.0), HostSlow(0, 5, 12, 2.0))), "overlaps"),
    (lambda: WorldSpec((Device(),), reading_ns=15_000_000), "multiple of tick_ns"),
])
def test_impossible_worlds_are_refused(spec: object, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        spec()  # type: ignore[operator]


def test_memory_stays_flat_however_long_the_run() -> None:
    world = World(WorldSpec((Device(copy_in=(0,)),), (10.0,)))
    calls = columns([kernel(call_ns=50, driver_ns=20, api=1, matrix_ns=300), {"queue": COPY_IN, "link_bytes": 1_000},
                     {"kind": SYNC, "api": 2}] * 200)
    shapes = set()
    for chunk in range(1, 30):
        while idle := world.run(chunk * 1_000_000):
            for rank, at_ns in idle:
                world.load(rank, calls, at_ns, chunk)
        assert len(world.take().device) > 100
        shapes.add(tuple(array.nbytes for array in world._state))
    assert len(shapes) == 1


def test_more_records_than_room_are_all_kept() -> None:
    world = World(WorldSpec((Device(queue_depth=4),)))
    world.run(1)
    world.load(0, columns([kernel(call_ns=5, driver_ns=2, api=1, matrix_ns=10)] * 40_000), 0, 0)
    while world.run(10**9):
        pass
    records = world.take()
    assert (len(records.host), len(records.device)) == (80_000, 40_000)
    assert len(set(records.device.correlation.tolist())) == 40_000


def test_importing_the_core_compiles_nothing() -> None:
    code = ("import simulator.engine, simulator.engine.core as c\n"
            "assert not c.dispatch.overloads and c.core.cache_info().currsize == 0")
    subprocess.run([sys.executable, "-c", code], check=True)
