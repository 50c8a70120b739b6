from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.counters.descriptors import BY_NAME, DESCRIPTORS, PERIOD_NS, all_descriptors, device_descriptors
from simulator.counters.device import JITTER_NS, DeviceCounters, LinkEvents, Series, no_events
from simulator.counters.ops import COLUMN, COLUMNS, Ledger, Ops, no_ops, ops, totals_at
from simulator.counters.readings import Readings
from simulator.counters.registers import GROUPS, shown
from simulator.engine.program import COLLECTIVE, COMPUTE, COPY_IN, COPY_OUT, MATRIX_TRACK, VECTOR
from simulator.machine import load_machine
from simulator.physics.lower import QUANTITIES, lower, work
from simulator.physics.pcie import Link, link_of

MS = 1_000_000
NPU = load_machine("npu-128")  # it has every counter but those of a fabric
LINK = link_of(NPU)


def quiet(from_ns: int, to_ns: int, **values: float) -> Series:
    times = np.arange(from_ns // PERIOD_NS + 1, to_ns // PERIOD_NS + 1) * PERIOD_NS
    given = {"clock_mhz": 1_350.0, "power_w": 50.0, "temperature_c": 60.0, **values}
    return Series(times, *(np.full(len(times), given.get(field.name, 0.0)) for field in dataclasses.fields(Series)[1:]))


def counters(seed: int = 1, **changes: object) -> DeviceCounters:
    return DeviceCounters(NPU.model_copy(update=changes), LINK, np.random.default_rng(seed))


def made(count: int, span_ns: int, seed: int = 1, *, most: int = 1 << 36) -> Ops:
    """Random ops on all queues, none overlapping another of its queue."""
    rng = np.random.default_rng(seed)
    bounds = [np.sort(rng.choice(span_ns, 2 * count, replace=False)).reshape(count, 2) for _ in range(5)]
    start, end = np.concatenate(bounds).T
    quantities = rng.integers(0, most, (5 * count, len(QUANTITIES)))
    quantities[2 * count:] = 0
    flags = np.where(rng.random(5 * count) < 0.5, MATRIX_TRACK, 0)
    return ops(start, end, np.repeat(np.arange(5), count), flags, rng.integers(0, 1 << 32, 5 * count), quantities, LINK)


def rows(readings: Readings, counter: str, instance: str | None = None) -> list[tuple[int, float]]:
    return [(at, raw if raw is not None else value)  # type: ignore[misc]
            for name, which, at, raw, value in zip(readings.counter, readings.instance, readings.time_ns, readings.raw,
                                                   readings.value, strict=True) if (name, which) == (counter, instance)]


def values(readings: Readings, counter: str, instance: str | None = None) -> list[float]:
    return [value for _, value in rows(readings, counter, instance)]


def test_readings_come_once_a_period_and_early_by_the_jitter_at_most() -> None:
    times = [at for at, _ in rows(counters().read(no_ops(), quiet(0, 50 * PERIOD_NS), no_events(), 50 * PERIOD_NS),
                                  "power_w")]
    early = np.arange(1, 51) * PERIOD_NS - times
    assert len(times) == 50
    assert ((early >= 0) & (early < JITTER_NS)).all()
    assert len(set(early)) > 40


def test_exact_counters_are_the_bytes_of_what_ran_by_each_reading() -> None:
    ran = made(300, 3_000 * MS)
    readings = counters().read(ran, quiet(0, 4_000 * MS), no_events(), 4_000 * MS)
    for counter, instance, columns in (("hbm_read_bytes", None, ("read_bytes",)),
                                       ("pcie_rx_bytes", None, ("rx_bytes",)),
                                       ("hbm_bytes", None, ("read_bytes", "write_bytes")),
                                       ("pcie_tx_bytes", None, ("tx_bytes",)), ("spill_bytes", None, ("spill_bytes",)),
                                       ("hbm_channel_bytes", "max", ("peak_channel_bytes",))):
        for at, raw in rows(readings, counter, instance):
            literal = 0
            for start, end, amounts in zip(ran.start.tolist(), ran.end.tolist(), ran.amounts, strict=True):
                share = min(max(at - start, 0), end - start) / (end - start)
                literal += sum(int(np.floor(int(amounts[COLUMN[column]]) * share)) for column in columns)
            assert raw == literal & ((1 << min(BY_NAME[counter].width_bits, 63)) - 1)
    assert values(readings, "pcie_rx_bytes")[-1] == ran.amounts[:, COLUMN["rx_bytes"]].sum()


def test_narrow_registers_wrap_exactly_at_32_bits() -> None:
    ran = made(100, 3_000 * MS)
    readings = counters().read(ran, quiet(0, 3_000 * MS), no_events(), 3_000 * MS)
    wide, narrow = values(readings, "pcie_rx_bytes"), values(readings, "pcie_rx_bytes_32")
    assert narrow == [value % 4_294_967_296 for value in wide]
    assert wide[-1] > 10 * 2**32
    wire = totals_at(np.array([at for at, _ in rows(readings, "pcie_tx_wire_bytes_32")]), ran)
    assert values(readings, "pcie_tx_wire_bytes_32") == (wire[:, COLUMN["tx_wire_bytes"]] % 2**32).tolist()
    assert shown(2**32 - 1, BY_NAME["pcie_replays"]) == (4_294_967_295, False)
    assert shown(2**32, BY_NAME["pcie_replays"]) == (0, False)


@given(st.lists(st.integers(1, 7), min_size=1, max_size=8), st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_readings_do_not_depend_on_how_the_run_is_cut(cuts: list[int], seed: int) -> None:
    end = sum(cuts) * PERIOD_NS
    ran = made(40, end, seed)
    busy = {"in_bytes": 1e9, "hbm_ns": 3e7, "throttled_ns": 1.0}
    events = LinkEvents(*(np.sort(np.random.default_rng(seed).integers(0, end, 20)) for _ in range(3)))
    whole = counters(seed).read(ran, quiet(0, end, **busy), events, end)
    device, pieces, low = counters(seed), Readings(), 0
    for cut in cuts:
        high = low + cut * PERIOD_NS
        now = LinkEvents(*(times[(times > low) & (times <= high)] for times in events.kinds()))
        # ops are known a piece of work ahead, as those under way are
        known = ran.take((ran.start < high) & ((ran.start >= low) | (low == 0)))
        pieces.extend(device.read(known, quiet(low, high, **busy), now, high))
        low = high
    assert pieces == whole


def test_an_op_that_comes_after_it_ended_counts_from_then_on() -> None:
    device, late = counters(), made(1, 90 * MS)
    first = device.read(no_ops(), quiet(0, PERIOD_NS), no_events(), PERIOD_NS)
    second = device.read(late, quiet(PERIOD_NS, 2 * PERIOD_NS), no_events(), 2 * PERIOD_NS)
    assert values(first, "pcie_rx_bytes") == [0]
    assert values(second, "pcie_rx_bytes") == [late.amounts[:, COLUMN["rx_bytes"]].sum()]


def test_multiplexed_counters_are_unbiased_over_their_phases_and_noisy() -> None:
    ran, end = made(400, 2_000 * MS, most=1 << 28), 2_000 * MS  # too few to wrap
    truth = totals_at(np.array([end]), ran)[0]
    for counter, column in (("hbm_row_hits", "row_hits"), ("hbm_turnarounds", "turnarounds"),
                            ("sram_conflict_cycles", "conflict_cycles")):
        estimates = []
        for phase in range(GROUPS):
            device = counters()
            device._phase = phase
            device.read(ran, quiet(0, end), no_events(), end)
            later = device.read(no_ops(), quiet(end, end + PERIOD_NS), no_events(), end + PERIOD_NS)
            estimates.append(values(later, counter)[-1])
        assert np.mean(estimates) == truth[COLUMN[column]]
        assert np.std(estimates) > 0.001 * truth[COLUMN[column]]
        assert np.abs(np.array(estimates) / truth[COLUMN[column]] - 1).max() < 0.3


def test_phases_differ_among_devices() -> None:
    assert {counters(seed)._phase for seed in range(40)} == set(range(GROUPS))


def test_utilisation_is_the_covered_share_since_the_last_reading() -> None:
    starts = np.array([0, 150, 20]) * MS
    kernels = ops(starts, starts + np.array([50, 100, 10]) * MS, np.array([COMPUTE, COMPUTE, VECTOR]),
                  np.array([MATRIX_TRACK, MATRIX_TRACK, 0]), np.zeros(3, np.int64),
                  np.zeros((3, len(QUANTITIES)), np.int64), LINK)
    readings = counters().read(kernels, quiet(0, 300 * MS), no_events(), 300 * MS)
    (first, one), (second, two), (third, three) = rows(readings, "engine_active", "matrix")
    assert one == pytest.approx(50 * MS / first)
    assert two == pytest.approx((second - 150 * MS) / (second - first))
    assert three == pytest.approx((250 * MS - second) / (third - second))
    assert values(readings, "engine_active", "vector")[0] == pytest.approx(10 * MS / first)
    assert values(readings, "engine_active", "pcie_h2d") == [0, 0, 0]


def test_copies_and_collectives_count_on_their_side_of_the_device() -> None:
    queue = np.array([COPY_IN, COPY_OUT, COLLECTIVE])
    large = load_machine("h100-like")
    ran = ops(np.zeros(3, np.int64), np.full(3, 10 * MS), queue, np.zeros(3, np.int64), np.array([1_000, 500, 70]),
              np.zeros((3, len(QUANTITIES)), np.int64), Link(16.0, 8))
    readings = DeviceCounters(large, Link(16.0, 8), np.random.default_rng(1)).read(
        ran, quiet(0, PERIOD_NS), no_events(), PERIOD_NS)
    assert values(readings, "pcie_rx_bytes") == [1_000]
    assert values(readings, "pcie_tx_bytes") == [500]
    assert values(readings, "fabric_tx_bytes") == [70]
    assert values(readings, "pcie_rx_wire_bytes_32") == [1_000 + 4 * 20]
    assert values(readings, "pcie_tx_wire_bytes_32") == [500 + 2 * 24 + 2 * 24]


def test_a_reset_starts_all_counts_anew_and_gauges_go_on() -> None:
    ran = made(200, 2_000 * MS)
    device, plain = counters(), counters()
    before = device.read(ran, quiet(0, 1_000 * MS), no_events(), 1_000 * MS)
    device.reset()
    after = device.read(no_ops(), quiet(1_000 * MS, 2_100 * MS), no_events(), 2_100 * MS)
    straight = plain.read(ran, quiet(0, 2_100 * MS), no_events(), 2_100 * MS)
    lost = totals_at(np.array([1_000 * MS]), ran)[0, COLUMN["rx_bytes"]]
    assert values(after, "pcie_rx_bytes")[-1] == values(straight, "pcie_rx_bytes")[-1] - lost
    assert values(after, "pcie_rx_bytes")[0] < values(before, "pcie_rx_bytes")[-1]
    assert values(after, "hbm_row_hits")[-1] < values(straight, "hbm_row_hits")[-1]
    assert values(after, "power_w") == values(straight, "power_w")[10:]


def test_link_errors_count_and_a_narrow_saturating_register_says_so() -> None:
    events = LinkEvents(np.arange(1, 501) * MS, np.array([MS]), np.array([150 * MS]))
    readings = counters().read(no_ops(), quiet(0, 600 * MS), events, 600 * MS)
    assert [(min(at // MS, 500), raw) for at, raw in rows(readings, "pcie_replays")] == [
        (raw, raw) for raw in values(readings, "pcie_replays")]
    assert values(readings, "pcie_replays")[-1] == 500
    assert values(readings, "pci_aer_correctable", "BadTLP") == [1] * 6
    assert values(readings, "pci_aer_nonfatal", "CmpltTO") == [0, 1, 1, 1, 1, 1]
    narrow = dataclasses.replace(BY_NAME["pcie_replays"], width_bits=8, kind="saturating")
    assert shown(300, narrow) == (255, True)
    assert shown(254, narrow) == (254, False)


def test_an_idle_link_slows_down_only_on_machines_that_save_power_so() -> None:
    small = load_machine("infer-24")
    ran = ops(np.array([0]), np.array([50 * MS]), np.array([COMPUTE]), np.array([0]), np.array([0]),
              np.zeros((1, len(QUANTITIES)), np.int64), link_of(small))
    sleepy = DeviceCounters(small, link_of(small), np.random.default_rng(1)).read(
        ran, quiet(0, 200 * MS), no_events(), 200 * MS)
    awake = counters().read(ran, quiet(0, 200 * MS), no_events(), 200 * MS)
    assert values(sleepy, "pci_link_speed") == [16.0, 2.5]
    assert values(awake, "pci_link_speed") == [32.0, 32.0]
    assert values(awake, "pci_link_width") == [8.0, 8.0]


def test_gauges_follow_the_device_with_the_noise_of_their_sensors() -> None:
    readings = counters().read(no_ops(), quiet(0, 200 * PERIOD_NS), no_events(), 200 * PERIOD_NS)
    watts, celsius, mhz = (np.array(values(readings, name)[1:]) for name in ("power_w", "temperature_c", "clock_mhz"))
    assert watts.mean() == pytest.approx(50, rel=0.005)
    assert 0.3 < watts.std() < 0.7
    assert set(celsius) <= {58.0, 59.0, 60.0, 61.0, 62.0}
    assert mhz.mean() == pytest.approx(1_350, rel=0.001)


@pytest.mark.parametrize(("celsius", "throttled", "reasons"), [(60.0, 0.0, 0), (60.0, 5e6, 1), (94.0, 5e6, 2)])
def test_throttle_reasons_name_power_or_heat(celsius: float, throttled: float, reasons: int) -> None:
    series = quiet(0, 2 * PERIOD_NS, temperature_c=celsius, throttled_ns=throttled)
    readings = counters().read(no_ops(), series, no_events(), 2 * PERIOD_NS)
    assert values(readings, "throttle_reasons")[-1] == reasons


def test_stalls_by_dma_are_its_memory_time_in_which_kernels_use_the_memory() -> None:
    end = 4_000 * MS
    device = counters()
    # 16.384 MB a period at 163.84 GB/s: 100 µs, half of which meets a kernel; 40 periods: 2 ms = 2,700,000 cycles
    device.read(no_ops(), quiet(0, end, in_bytes=16.384e6, hbm_ns=5e7), no_events(), end)
    later = device.read(no_ops(), quiet(end, end + PERIOD_NS), no_events(), end + PERIOD_NS)
    assert values(later, "stall_cycles", "dma")[-1] == pytest.approx(2_700_000, rel=0.02)
    assert values(later, "stall_cycles", "spill")[-1] == 0


def test_quantities_of_lowered_work_come_back_in_the_order_of_each_queue() -> None:
    low = lower(work(4, read_bytes=np.array([1e6, 2e6, 3e6, 4e6]), matrix_flops=1e9), NPU).quantities()
    ledger = Ledger()
    ledger.give(np.array([COMPUTE, VECTOR, COMPUTE]), low[:3])
    ledger.give(np.array([COMPUTE]), low[3:])
    assert ledger.take(np.array([COMPUTE, COMPUTE]))[:, 0].tolist() == [1_000_000, 3_000_000]
    assert ledger.take(np.array([VECTOR, COMPUTE]))[:, 0].tolist() == [2_000_000, 4_000_000]
    with pytest.raises(ValueError, match="1 ops of queue 0 ended, 0 were given"):
        ledger.take(np.array([COMPUTE]))


def test_only_declared_counters_are_read_and_every_device_counter_is_some_machines() -> None:
    for kind in ("edge-8", "tpu-like", "npu-128"):
        machine = load_machine(kind)
        readings = DeviceCounters(machine, link_of(machine), np.random.default_rng(1)).read(
            no_ops(), quiet(0, PERIOD_NS), no_events(), PERIOD_NS)
        assert set(readings.counter) == {descriptor.name for descriptor in device_descriptors(machine)}
        for name, raw in zip(readings.counter, readings.raw, strict=True):
            assert (raw is None) == (BY_NAME[name].kind == "gauge")
    everything = all_descriptors(tuple(load_machine(kind) for kind in ("h100-like", "npu-128")))
    assert everything == DESCRIPTORS


def test_columns_of_amounts_are_named_once() -> None:
    assert len(set(COLUMNS)) == len(COLUMNS)
