from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fleetscope.errors import UsageError
from simulator.counters.descriptors import device_descriptors
from simulator.machine import MACHINES, load_machine, machine_names
from simulator.physics.power import power_w, steady_c, sustained_clock_share
from simulator.physics.roofline import limit_flops_per_s, ridge_flops_per_byte

# kind: matrix flop/s, achievable, device memory B/s, achievable, ridge point flop/B; worked out by hand.
ROOFLINES = {
    "infer-24": (84.7e12, 255e9, 332.157),  # 121e12·0.70 / (300e9·0.85)
    "h100-like": (712.08e12, 3.015e12, 236.179),  # 989e12·0.72 / (3.35e12·0.90)
    "tpu-like": (147.75e12, 720.72e9, 205.003),  # 197e12·0.75 / (819e9·0.88)
    "npu-128": (115.05e12, 163.84e9, 702.209),  # 177e12·0.65 / (204.8e9·0.80)
    "edge-8": (12e12, 39.936e9, 300.481),  # 20e12·0.60 / (51.2e9·0.78)
}
VECTOR_RIDGES = {"infer-24": 47.0588, "h100-like": 17.7778, "tpu-like": 7.19420, "npu-128": 25.1770, "edge-8": 18.7800}


def test_every_machine_of_the_package_is_checked_here() -> None:
    assert machine_names() == sorted(ROOFLINES)


@pytest.mark.parametrize("kind", ROOFLINES)
def test_rooflines_and_ridge_points_are_those_worked_out_by_hand(kind: str) -> None:
    machine, (peak, memory, ridge) = load_machine(kind), ROOFLINES[kind]
    assert ridge_flops_per_byte(machine) == pytest.approx(ridge, rel=1e-5)
    assert ridge_flops_per_byte(machine, "vector") == pytest.approx(VECTOR_RIDGES[kind], rel=1e-4)
    below, above = limit_flops_per_s(machine, np.array([ridge / 2, ridge * 3]))
    assert below == pytest.approx(memory * ridge / 2, rel=1e-5)
    assert above == pytest.approx(peak, rel=1e-9)


@pytest.mark.parametrize("kind", ROOFLINES)
def test_machines_state_sources_and_counters_that_exist(kind: str) -> None:
    machine = load_machine(kind)
    assert machine.source
    assert machine.kind == kind
    names = {descriptor.name for descriptor in device_descriptors(machine)}
    assert {"engine_active", "hbm_bytes", "pcie_rx_bytes", "power_w", "clock_mhz"} <= names
    assert ("fabric_tx_bytes" in names) == (machine.fabric_bytes_per_s > 0)


def test_only_the_custom_chip_keeps_its_peaks_to_itself() -> None:
    assert [kind for kind in machine_names() if not load_machine(kind).published_peaks] == ["npu-128"]


def test_full_load_is_held_at_the_power_limit_by_a_lower_clock() -> None:
    large, torus = load_machine("h100-like"), load_machine("tpu-like")
    # 75 + 745·(0.72·s³ + 0.28) = 700 W  →  s³ = 0.776286
    assert sustained_clock_share(large, 1, 1, 1) == pytest.approx(0.776286 ** (1 / 3), rel=1e-5)
    assert power_w(large, 1, 1, 1, 0.776286 ** (1 / 3)) == pytest.approx(700, abs=0.01)
    assert sustained_clock_share(torus, 1, 1, 1) == 1.0


@pytest.mark.parametrize("kind", ROOFLINES)
def test_machines_stay_below_their_heat_threshold_in_cool_air_at_the_power_limit(kind: str) -> None:
    machine = load_machine(kind)
    assert steady_c(machine, machine.max_w) < machine.throttle_c < steady_c(machine, machine.max_w, inlet_c=60)


@pytest.mark.parametrize(("old", "new", "key", "reason"), [
    ("pcie_lanes = 4 ", "pcie_lanes = 3 ", "pcie_lanes", "1, 2, 4, 8, 16, 32 lanes, not 3"),
    ("pcie_gt_s = 8.0", "pcie_gt_s = 7.0", "pcie_gt_s", "no PCIe generation runs at 7 GT/s"),
    ("clock_min_mhz = 200.0", "clock_min_mhz = 2_000.0", "clock_min_mhz", "above the full clock of 1000 MHz"),
    ("idle_w = 2.5", "idle_w = 25.0", "idle_w", "not below the limit of 15 W"),
    ("full_load_w = 15.0", "full_load_w = 2.0", "full_load_w", "not above 2.5 W when idle"),
    ("hbm_bytes = 8", "hbm_byte = 8", "hbm_byte", "not permitted"),
    ("matrix_flops_per_s = 20e12", "matrix_flops_per_s = 20", "matrix_flops_per_s", "greater than or equal to"),
    ("vector_flops_per_s = 1.0e12", "vector_flops_per_s = nan", "vector_flops_per_s", "finite"),
    ("clock_mhz = 1_000.0", "clock_mhz = '1000'", "clock_mhz", "valid number"),
    ("hbm_row_bytes = 2_048", "hbm_row_bytes = 3_000", "hbm_row_bytes", "no power of two"),
    ("hbm_row_bytes = 2_048", "hbm_row_bytes = 128", "hbm_row_bytes", "smaller than"),
    ("hbm_banks = 16", "hbm_banks = 2", "hbm_miss_overlap", "there are 2"),
    ("hbm_achievable = 0.78", "hbm_achievable = 1.2", "hbm_achievable", "less than or equal to 1"),
    ("tick_hz = [25_000_000]", "tick_hz = []", "tick_hz", "at least 1 item"),
])
def test_a_bad_figure_is_refused_with_file_line_key_and_reason(tmp_path: Path, old: str, new: str, key: str,
                                                               reason: str) -> None:
    source = (MACHINES / "edge-8.toml").read_text()
    path = tmp_path / "mine.toml"
    path.write_text(source.replace(old, new))
    line = next(number for number, text in enumerate(path.read_text().splitlines(), 1) if text.startswith(f"{key} ="))
    with pytest.raises(UsageError) as caught:
        load_machine(path)
    assert str(caught.value).startswith(f"machine {path}, line {line}: {key}: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_key_a_broken_file_and_an_unknown_kind_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("\n".join(line for line in (MACHINES / "edge-8.toml").read_text().splitlines()
                              if not line.startswith("hbm_channels")))
    with pytest.raises(UsageError, match=r"mine\.toml: hbm_channels: Field required$"):
        load_machine(path)
    path.write_text("kind = \n")
    with pytest.raises(UsageError, match=r"mine\.toml: .*line 1"):
        load_machine(path)
    with pytest.raises(UsageError, match="no machine 'abacus'; known are edge-8, h100-like"):
        load_machine("abacus")
    with pytest.raises(UsageError, match=r"none\.toml: No such file"):
        load_machine(tmp_path / "none.toml")


def test_hiding_a_counter_that_does_not_exist_is_refused() -> None:
    machine = load_machine("edge-8").model_copy(update={"hidden_counters": ("hbm_bites",)})
    with pytest.raises(UsageError, match="hidden_counters: there is no counter 'hbm_bites'"):
        device_descriptors(machine)
