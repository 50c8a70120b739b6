"""Writes the figures of the section `clocks` into docs/clocks.md: python -m bench.clocks.document.

What stands between the two marks of the page is replaced; the figures come from bench/results/latest.json alone.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from bench.measure import RESULTS, read_results

PAGE: Final = Path(__file__).parents[2] / "docs" / "clocks.md"
BEGIN: Final = "<!-- figures of make bench, written by bench/clocks/document.py: begin -->"
END: Final = "<!-- end -->"

TITLES: Final = {
    "host-device": "Device over PCIe, free-running, two steps",
    "host-device 100 MHz": "The same with a counter of 100 MHz (a tick of 10 ns)",
    "host-host": "Two hosts, network of about 20 µs round trips with a heavy tail, two steps",
    "disciplined": "REALTIME steered by a daemon, two steps",
    "dvfs": "Device counter of core cycles (40 % to 100 %), changes published",
}
_HEAD: Final = ("| method | error p50 | p99 | max | p99 before the first step | bound p50 | p99 | truth inside | "
                "no bound for | CPU µs a probe | M timestamps/s |\n|---|---|---|---|---|---|---|---|---|---|---|")


def text(figures: Mapping[str, Any]) -> str:
    """Markdown: a table for each pair of clocks."""
    seeds = ", ".join(map(str, figures["seeds"]))
    lines = [f"Seeds {seeds}, {figures['seconds']:,} s each, bursts of 8 exchanges at 1 Hz, "
             f"{figures['events_a_second']} events a second.", ""]
    for case, result in figures["cases"].items():
        lines += [f"### {TITLES[case]}", "", _HEAD, *_rows(result["methods"]), "", _steps(result), ""]
    return "\n".join(lines)


def _rows(methods: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    for name, of in methods.items():
        inside = "–" if of["inside"] is None else _share(of["inside"], 4)
        if of["outside"]:
            inside += f" ({of['outside']:,} of {of['events']:,} outside)"
        cells = (name, *(_time(of[f"error_{level}_ns"]) for level in ("p50", "p99", "max")),
                 _time(of["error_p99_ns_before_step"]), _time(of["bound_p50_ns"]), _time(of["bound_p99_ns"]), inside,
                 _share(of["no_bound_share"], 3), f"{of['cpu_us_per_probe']:.2g}", f"{of['mapped_m_per_s']:.0f}")
        yield f"| {' | '.join(cells)} |"


def _steps(result: Mapping[str, Any]) -> str:
    steps = result["steps"]
    return (f"Steps found {steps['found']} of {steps['planted']}, {steps['false']} found that were none; state of the "
            f"pair {result['state_bytes'] / 1024:.1f} KiB.")


def _time(ns: float | None) -> str:
    """With its unit and three digits."""
    if ns is None:
        return "–"
    for unit, size in (("s", 1e9), ("ms", 1e6), ("µs", 1e3)):
        if ns >= size:
            return f"{ns / size:.3g} {unit}"
    return f"{ns:.0f} ns"


def _share(value: float, digits: int) -> str:
    """Percent; what is not all of it is never rounded up to all of it."""
    shown = f"{100 * value:.{digits}f}".rstrip("0").rstrip(".")
    if shown == "100" and value < 1:
        shown = f"{100 - 10.0 ** -digits:.{digits}f}"
    return f"{shown} %"


def replaced(page: str, figures: Mapping[str, Any]) -> str:
    """The page with these figures between its marks. Raises ValueError where a mark is missing."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN!r} or {END!r}")
    return f"{head}{BEGIN}\n\n{text(figures)}\n{END}{tail}"


def main() -> int:
    """0: written; 2: nothing was measured."""
    figures = read_results(RESULTS).get("clocks")
    if figures is None:
        print(f"{RESULTS}: no section clocks; run: make bench BENCH_ARGS='--section clocks'", file=sys.stderr)
        return 2
    PAGE.write_text(replaced(PAGE.read_text(), figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
