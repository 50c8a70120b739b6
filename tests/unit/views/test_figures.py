"""Figures and tables for people: readable, and never cut."""

from __future__ import annotations

import re
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from views.figures import figure
from views.grid import Head, show


@pytest.mark.parametrize(("value", "unit", "shown"), [
    (None, "ns", "–"), (True, "", "yes"), ("a", "ns", "a"), (float("nan"), "s", "nan"),
    (1_796_133_221_484_586_050, "ns since 1970", "2026-12-01T13:53:41.484Z"),
    (1_796_133_221_004, "ms since 1970", "2026-12-01T13:53:41.004Z"), (-1, "ms since 1970", "1969-12-31T23:59:59.999Z"),
    (0.5, "0..1", "50.0%"), (0.0, "0..1", "0.0%"), (1.0, "0..1", "100.0%"), (1e-5, "0..1", "<0.1%"),
    (0.99999, "0..1", ">99.9%"), (0.25, "share", "25.0%"),
    (11_440_681_512.8, "B/s", "11.44 GB/s"), (393_216, "B", "393.2 kB"), (7, "B", "7 B"), (0, "B", "0 B"),
    (999_999, "B", "1.000 MB"), (999.4, "B/s", "999.4 B/s"),
    (0, "ns", "0 ns"), (1, "ns", "1 ns"), (2394, "ns", "2.394 µs"), (943_717.9, "ns", "943.7 µs"),
    (999_999, "ns", "1.000 ms"), (3_805_070_605, "ns", "3.805 s"), (-0.5, "s", "-500 ms"), (6.7e-6, "s", "6.700 µs"),
    (90_000.0, "s", "25 h"), (119.0, "s", "119 s"), (300, "s", "5 min"), (8_640_000, "s", "100 d"),
    (900, "us", "900 µs"), (4040, "ms", "4.040 s"),
    (931_367, "", "931,367"), (2**53 + 1, "jiffies", "9,007,199,254,740,993 jiffies"), (969_912.3, "", "969,912"),
    (43.951, "degC", "43.95 degC"), (6.0, "requests", "6 requests"), (0.00123456, "", "0.001235"),
    (1.5e-7, "", "1.500e-07"), (2.5e16, "", "2.500e+16"), (12.5, "%", "12.50 %"), (0.0, "", "0"),
])
def test_a_figure_is_shown_by_its_unit(value: Any, unit: str, shown: str) -> None:
    assert figure(value, unit) == shown


HEADS = [Head("host"), Head("late rows", number=True), Head("what it is about")]
ROWS = [["h1", "9,223,372,036,854,775,807", "some words that are long enough to be folded"], ["[b]2", "1", "–"]]


def drawn(width: int) -> str:
    text = StringIO()
    show(Console(file=text, width=width), HEADS, ROWS, title="[T]", caption="2 rows")
    return text.getvalue()


@pytest.mark.parametrize("width", [30, 40, 50, 55, 60, 70, 80, 90, 140])
def test_no_width_cuts_anything(width: int) -> None:
    shown = drawn(width)
    assert max(map(len, shown.splitlines())) <= width
    for whole in ("9,223,372,036,854,775,807", "[T]", "[b]2", "2 rows", "h1"):
        assert whole in shown
    assert "…" not in shown
    assert set("somewordsthatarelongenoughtobefolded") <= set(re.sub(r"\W", "", shown))


def test_what_is_too_narrow_for_a_table_loses_its_lines_then_folds_and_then_becomes_blocks() -> None:
    assert "┃" in drawn(140)
    assert "┃" not in drawn(79)
    assert "some words that are long enough to be folded" in drawn(79)
    assert "some words that are long enough to be folded" not in drawn(60)
    assert re.search(r"^late rows\n  9,223,372,036,854,775,807$", drawn(42), re.MULTILINE)
    assert re.search(r"^late rows +1$", drawn(42), re.MULTILINE)


def test_names_fold_between_their_parts() -> None:
    text = StringIO()
    show(Console(file=text, width=26), [Head("clock"), Head("n", number=True)], [["monotonic_raw", "1,234,567,890"]])
    assert [line.split() for line in text.getvalue().splitlines()] == [
        ["clock", "n"], ["monotonic_", "1,234,567,890"], ["raw"]]


def test_no_rows_are_a_table_of_heads() -> None:
    text = StringIO()
    show(Console(file=text, width=80), HEADS, [])
    assert "host" in text.getvalue()
