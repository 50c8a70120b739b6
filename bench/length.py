"""Peak memory must not grow with the length of a run: a short one beside a longer one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from bench.embedded import measure
from bench.sections import Bench

TIMES: Final = 6
"""How many times longer the long run is."""


def memory_over_length(bench: Bench) -> dict[str, Any]:
    """One run of each length [simulated s], embedded."""
    options = bench.options
    longer = replace(options, seconds=TIMES * options.seconds)
    result = {}
    for length, capture in ((options.seconds, bench.capture), (longer.seconds, bench.captured("longer", longer))):
        bench.say(f"embedded, {length:g} s of simulated time")
        figures = measure(bench, capture, f"length-{length:g}").figures()
        result[f"{length:g}_s"] = {name: figures[name] for name in ("events", "events_per_s", "cpu_s_per_million",
                                                                    "peak_rss_mb")}
    return {"memory_over_length": result}
