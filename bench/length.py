"""Peak memory must not grow with the length of a run: a short one beside a longer one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from bench.embedded import measure
from bench.sections import Bench

LENGTHS_S: Final = (20.0, 120.0)
"""Simulated time."""
_SHOWN: Final = ("events", "events_per_s", "cpu_s_per_million", "peak_rss_mb")


def memory_over_length(bench: Bench) -> dict[str, Any]:
    """One embedded run of each length."""
    result = {}
    for length in LENGTHS_S:
        capture = bench.captured(f"capture-{length:g}", replace(bench.options, seconds=length))
        bench.say(f"embedded, {length:g} s of simulated time")
        figures = measure(bench, capture, f"length-{length:g}").figures()
        result[f"{length:g}_s"] = {name: figures[name] for name in _SHOWN}
    return {"memory_over_length": result}
