"""What planned faults do to clocks, and what the truth says of it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from simulator.clocks import NS, Clock, HostClocks, Lag, host_clocks
from simulator.faults.plan import HostPlan, host_plan
from simulator.faults.settings import Clocks, Collection
from tests.unit.simulator.faults.runs import faulty, rows, simulated

START_NS = 1_767_225_600_000_000_000
TICKS = (1_000_000_000, 100_000_000, 19_200_000)
SECONDS = 20.0
GRID = np.arange(0, 20 * NS, 12_345_678, dtype=np.int64)


def made(clocks: dict[str, Any] | None = None, *, host: int = 0, seed: int = 3, devices: int = 3) -> HostClocks:
    section = Clocks.model_validate(clocks or {})
    plan = host_plan(section, Collection(), host, devices, SECONDS, seed)
    return host_clocks(seed, host, devices, START_NS, TICKS, section, plan)


def event(kind: str, **values: Any) -> dict[str, Any]:
    return {"events": [{"kind": kind, "at_s": 8.0, **values}]}


def local_ns(clock: Clock, tau: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(clock.read(tau) * (NS / clock.hz))


def drift_ns(clock: Clock, other: Clock) -> np.ndarray[Any, Any]:
    """How far ``clock`` is ahead of the same clock without faults."""
    return clock.read(GRID) - other.read(GRID)


PLAIN = made()
BEFORE, AFTER = GRID < 8 * NS, GRID >= 8 * NS


def test_a_plan_without_events_changes_no_clock() -> None:
    assert host_clocks(3, 0, 3, START_NS, TICKS, Clocks(), HostPlan()) == PLAIN == host_clocks(3, 0, 3, START_NS, TICKS)


@pytest.mark.parametrize("ms", [80.0, -250.0])
def test_an_ntp_step_moves_realtime_alone(ms: float) -> None:
    clocks = made(event("realtime_step", ms=ms))
    drift = drift_ns(clocks.realtime, PLAIN.realtime)
    assert (drift[BEFORE] == 0).all()
    assert (drift[AFTER] == ms * 1e6).all()
    assert (clocks.raw, clocks.devices) == (PLAIN.raw, PLAIN.devices)
    (step,) = clocks.realtime.steps
    assert (step.at_ns, step.size_ns, step.cause) == (8 * NS, ms * 1e6, "ntp_step")


def test_a_slew_takes_as_long_as_its_rate_needs_and_is_no_step() -> None:
    clocks = made(event("realtime_slew", ms=-2.0, ppm=500.0))
    drift = drift_ns(clocks.realtime, PLAIN.realtime)
    middle = np.searchsorted(GRID, 10 * NS)
    assert drift[middle] == pytest.approx(-1e6, rel=0.01)
    assert (drift[GRID >= 12 * NS] == -2_000_000).all()
    assert (np.diff(clocks.realtime.read(GRID)) > 0).all()
    assert clocks.realtime.steps == ()


def test_an_inserted_leap_second_comes_twice_and_a_smeared_one_is_11_6_ppm() -> None:
    stepped = made(event("leap")).realtime
    assert drift_ns(stepped, PLAIN.realtime)[-1] == -NS
    assert stepped.at(8 * NS + NS // 2) < stepped.at(8 * NS - 1) < stepped.at(9 * NS + 1)
    smeared = made(event("leap", smear_s=86_400.0)).realtime
    assert drift_ns(smeared, PLAIN.realtime)[-1] == pytest.approx(-11.574e-6 * (GRID[-1] - 8 * NS), rel=1e-3)
    assert smeared.steps == ()


def test_a_deleted_leap_second_is_left_out() -> None:
    assert drift_ns(made(event("leap", insert=False)).realtime, PLAIN.realtime)[-1] == NS


def test_asleep_the_monotonic_clock_stands_and_boottime_realtime_and_devices_go_on() -> None:
    clocks = made(event("suspend", for_s=2.0))
    asleep = (GRID >= 8 * NS) & (GRID < 10 * NS)
    assert len(np.unique(clocks.raw.read(GRID[asleep]))) == 1
    assert drift_ns(clocks.raw, PLAIN.raw)[-1] == pytest.approx(-2 * NS, abs=100_000)
    assert (np.diff(clocks.raw.read(GRID)) >= 0).all()
    assert (drift_ns(clocks.boottime, PLAIN.boottime) == 0).all()
    assert (clocks.realtime, clocks.devices) == (PLAIN.realtime, PLAIN.devices)
    assert [(step.at_ns, step.size_ns, step.cause) for step in clocks.raw.steps] == [(8 * NS, -2 * NS, "suspend")]


def test_a_reset_counter_restarts_below_a_second_and_runs_at_its_own_rate() -> None:
    clocks = made(event("device_reset", device=1))
    reset = clocks.devices[1]
    assert 0 < reset.at(8 * NS) < reset.hz
    assert (reset.at(9 * NS) - reset.at(8 * NS)) / reset.hz == pytest.approx(1, abs=50e-6)
    assert (clocks.devices[0], clocks.raw) == (PLAIN.devices[0], PLAIN.raw)
    assert reset.steps[0].size_ns == pytest.approx(-PLAIN.devices[1].at(8 * NS) * 10, rel=1e-3)  # 100 MHz


def test_a_reboot_restarts_every_clock_but_realtime() -> None:
    clocks = made(event("reboot", for_s=2.0))
    for clock in (clocks.raw, clocks.boottime, *clocks.devices):
        assert 0 < clock.at(10 * NS) / clock.hz < 20
    assert clocks.realtime == PLAIN.realtime
    assert clocks.raw.dark == ((8 * NS, 10 * NS),)


@pytest.mark.parametrize("clock", ["device", "realtime", "monotonic_raw"])
def test_a_stuck_clock_stands_still_and_is_behind_from_then_on(clock: str) -> None:
    clocks = made(event("stuck", clock=clock, device=0, for_s=1.5))
    hit, plain = {"device": (clocks.devices[0], PLAIN.devices[0]), "realtime": (clocks.realtime, PLAIN.realtime),
                  "monotonic_raw": (clocks.raw, PLAIN.raw)}[clock]
    stands = hit.read(GRID[(GRID >= 8 * NS) & (GRID < 9 * NS + NS // 2)])
    assert len(np.unique(stands)) == 1
    assert drift_ns(hit, plain)[-1] == pytest.approx(-1.5e9, abs=100_000)


def test_core_clocks_follow_their_levels_exactly() -> None:
    clock = made({"dvfs": {"low": 0.5, "levels": 2, "dwell_s": 0.5}, "device_ppm": 0.0, "wander_ppm_per_s": 0.0},
                 devices=1).devices[0]
    assert clock.pieces is not None
    changes = [(0, clock.pieces.ppb[0]), *clock.pieces.rates()]
    assert {ppb for _, ppb in changes} == {NS // 2, NS}
    for (at, ppb), (end, _) in pairwise(changes[:20]):
        assert clock.at(end) - clock.at(at) == pytest.approx((end - at) * ppb // NS, abs=1)
    assert clock.steps == ()


@given(st.integers(0, 40 * NS), st.integers(0, 4 * NS))
@settings(max_examples=50)
def test_a_32_bit_counter_shows_the_low_bits_and_lengths_survive_a_wrap(start: int, length: int) -> None:
    narrow, wide = made({"device_bits": 32}, devices=1).devices[0], PLAIN.devices[0]
    times = np.array([start, start + length], dtype=np.int64)
    assert narrow.read(times).tolist() == [tick % (1 << 32) for tick in wide.read(times).tolist()]
    first, last = narrow.read(times)
    assert narrow.passed(first, last) == np.diff(wide.read(times))[0]


def test_a_1_ghz_counter_of_32_bits_wraps_every_4_3_s() -> None:
    ticks = made({"device_bits": 32}).devices[0].read(GRID)
    assert np.count_nonzero(np.diff(ticks) < 0) in (4, 5)


def test_a_coarse_counter_advances_by_its_grain() -> None:
    coarse = made({"device_grain_ticks": 1_000}).devices[0].read(GRID)
    assert (coarse % 1_000 == 0).all()
    assert ((PLAIN.devices[0].read(GRID) - coarse) < 1_000).all()


def test_devices_of_one_epoch_show_nearly_the_same() -> None:
    clocks = made({"same_epoch": True})
    readings = [local_ns(clock, GRID[-1:])[0] for clock in clocks.devices]
    assert max(readings) - min(readings) < 30e-6 * 2 * GRID[-1] + 100
    assert len({clock.ppm for clock in clocks.devices}) == 3


def test_a_host_in_the_future_is_there_in_realtime_alone() -> None:
    clocks = made({"ahead": [{"host": 0, "seconds": 94_608_000.0}]})
    assert (drift_ns(clocks.realtime, PLAIN.realtime) == 94_608_000 * NS).all()
    assert made({"ahead": [{"host": 1, "seconds": 5.0}]}) == PLAIN
    assert clocks.raw == PLAIN.raw


def test_warming_up_a_clock_settles_exponentially() -> None:
    lag = Lag(10e9, (0,), (0.0,), 8.0)
    rate = np.diff(lag.deviation_ns(np.array([0.0, 1e6, 10e9, 10e9 + 1e6, 100e9, 100e9 + 1e6])))[::2] / 1e6 * 1e6
    assert rate == pytest.approx([8.0, 8.0 / np.e, 8.0 * np.exp(-10)], rel=1e-3)
    total = lag.deviation_ns(np.array([1000e9]))[0]
    assert total == pytest.approx(8e-6 * 10e9)  # the integral of the exponential


def test_temperature_lags_its_load_and_the_rate_never_jumps() -> None:
    lag = Lag(10e9, (0, 5 * NS, 15 * NS), (0.0, 4.0, 0.0), 0.0)
    times = np.arange(0, 40e9, 1e8)
    rate = np.diff(lag.deviation_ns(times)) / 1e8 * 1e6
    assert (rate[times[:-1] < 5e9] == 0).all()
    assert rate.max() == pytest.approx(4 * (1 - np.exp(-1)), rel=0.01)
    assert np.abs(np.diff(rate)).max() <= 4.0 / 100 * 1.01  # target over lag, a tenth of a second


@pytest.mark.parametrize("section", [{"warm_up": {"ppm": 8.0, "tau_s": 120.0}}, {"thermal": {"period_s": 5.0}}])
def test_warm_and_loaded_clocks_never_go_back_and_differ_from_cold_ones(section: dict[str, Any]) -> None:
    clocks = made(section)
    for clock, plain in ((clocks.raw, PLAIN.raw), (clocks.devices[0], PLAIN.devices[0])):
        assert (np.diff(clock.read(GRID)) >= 0).all()
        assert 100 < np.abs(drift_ns(clock, plain)).max() < 8e-6 * GRID[-1]


def test_the_truth_of_a_fleet_names_every_step_and_incident() -> None:
    section = {"events": [{"kind": "realtime_step", "host": 0, "at_s": 0.5, "ms": 3.0},
                          {"kind": "device_reset", "host": 1, "device": 0, "at_share": 0.5}]}
    publications, tallies, notes = simulated(faulty(section))
    assert notes.steps[0] == ("sim00", "realtime", NS // 2, 3_000_000, "ntp_step")
    host, clock, at, size, kind = notes.steps[1]
    assert (host, clock, at, kind) == ("sim01", "dev0", NS, "device_reset")
    assert size < -NS
    assert [(kind, host, device) for kind, host, device, _, _ in notes.incidents] == [
        ("clock_step", "sim00", None), ("clock_step", "sim01", "dev0")]
    assert notes.missing.get("unrecorded", 0) == tallies["spans"].unrecorded <= 4
    starts = [row["start_ticks"] for row in rows(publications, "spans", "sim01") if row["device"] == "dev0"]
    assert min(starts) < 2 * NS < max(starts)  # both counts of one counter


def test_narrow_counters_say_so_in_the_inventory_and_spans_carry_what_they_show() -> None:
    publications, _, _ = simulated(faulty({"device_bits": 32}, seconds=5.0))
    stated = {row["number"] for row in rows(publications, "inventory") if row["attribute"] == "bits"}
    assert stated == {32.0}
    spans = [row for row in rows(publications, "spans") if row["device"] == "dev0"]
    assert max(row["start_ticks"] for row in spans) < 1 << 32
    assert max(row["duration_ticks"] for row in spans) < NS


def test_published_levels_come_as_samples_of_kind_rate() -> None:
    settings_ = faulty({"dvfs": {"dwell_s": 0.3, "published": True}})
    publications, _, _ = simulated(settings_)
    clock = settings_.clocks(0).devices[0]
    assert clock.pieces is not None
    told = [(row["remote_first_ticks"], row["rate_ppb"]) for row in rows(publications, "clock_samples", "sim00")
            if row["kind"] == "rate"]
    due = [(clock.at(at), ppb - NS) for at, ppb in clock.pieces.rates() if at < 3 * NS]
    assert told == due
    assert len(told) > 3
