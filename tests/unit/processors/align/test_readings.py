"""Readings that cannot be are no numbers; all others stay what they are."""

from __future__ import annotations

from typing import Any

import pytest

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import from_rows
from processors.align.readings import judged


def read(*rows: tuple[str, int | None, float | None, str]) -> list[tuple[Any, ...]]:
    """(raw, value, status) of rows of (counter, raw, value, status)."""
    made = from_rows(CONTRACTS["counters"], [{"counter": name, "time_ticks": 1, "raw": raw, "value": value,
                                              "status": status} for name, raw, value, status in rows])
    columns = dict(zip(made.schema.names, made.columns, strict=True))
    columns |= judged(columns)
    return list(zip(*(columns[name].to_pylist() for name in ("raw", "value", "status")), strict=True))


@pytest.mark.parametrize(("name", "value"), [
    ("engine_active", 4294967295.0), ("power_w", 4294967295.0), ("engine_active", 1.5), ("engine_active", -1.0),
    ("power_w", -3.0), ("temperature_c", 255.0), ("gpu_busy", 140737488355330.0), ("anything", float("nan")),
    ("anything", float("inf")), ("anything", 18446744073709551615.0), ("pci_link_width", 63.0)])
def test_a_gauge_outside_what_its_unit_allows_is_no_number(name: str, value: float) -> None:
    assert read((name, None, value, "ok")) == [(None, None, "sentinel")]


@pytest.mark.parametrize(("name", "value"), [
    ("engine_active", 0.0), ("engine_active", 1.0), ("power_w", 700.0), ("temperature_c", -40.0),
    ("gpu_busy", 100.0), ("anything", -1e12), ("anything", 65535.0), ("clock_frequency", -12_000.0)])
def test_a_gauge_that_can_be_stays(name: str, value: float) -> None:
    assert read((name, None, value, "ok")) == [(None, value, "ok")]


@pytest.mark.parametrize("raw", [4294967295, 9223372036854775807, 0x7FFF_FFF2, -1])
def test_a_count_of_all_ones_or_a_blank_is_no_number(raw: int) -> None:
    assert read(("hbm_bytes", raw, None, "ok")) == [(None, None, "sentinel")]


def test_a_count_beyond_its_register_is_no_number() -> None:
    assert read(("ib_link_downed", 256, None, "ok"), ("ib_link_downed", 255, None, "ok")) == [
        (None, None, "sentinel"), (255, None, "ok")]


def test_what_the_source_says_of_a_reading_stays() -> None:
    rows = [("power_w", None, None, "missing"), ("power_w", None, 1e9, "stuck"), ("pcie_rx_bytes", 7, None, "wrapped")]
    assert read(*rows) == [(raw, value, status) for _, raw, value, status in rows]
    assert read(*rows, ("power_w", None, -1.0, "ok"))[:3] == [(raw, value, status) for _, raw, value, status in rows]


def test_no_rows_are_no_rows() -> None:
    assert read() == []
