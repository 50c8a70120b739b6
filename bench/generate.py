"""How fast the simulator makes events: work, contention, counters, columns and encoded messages, on one core."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import process_time
from typing import Any, Final

from bench.sections import SPANS, Bench, Options, fleet

CASES: Final[Mapping[str, Options]] = {
    "free": Options(hosts=1, devices=8, seconds=10.0, scenario="serving"),
    "contended": Options(hosts=1, devices=8, seconds=1.0,
                         scenario=str(Path(__file__).parent / "scenarios" / "contended.toml")),
    "contended_sparse": Options(hosts=2, devices=4, seconds=6.0, scenario="shared-uplink"),
}
"""Nothing shared but each device's own; many copies on shared links; few events, so that what a device costs each
second, busy or not, is most of it."""
WARM_UP_S: Final = 0.4
"""Simulated time of a run before, which compiles what is compiled on first use."""


def generate(bench: Bench) -> dict[str, Any]:
    """Median of the process CPU of ``repeat`` runs of each case; nothing of the other sections is used."""
    return {"generate": {name: _measured(bench, name, replace(case, seed=bench.options.seed))
                         for name, case in CASES.items()}}


def _measured(bench: Bench, name: str, case: Options) -> dict[str, Any]:
    bench.say(f"generating {name}: {case.seconds:g} s of {case.hosts} hosts with {case.devices} devices each")
    made(replace(case, seconds=min(WARM_UP_S, case.seconds)))
    found = [made(case) for _ in range(bench.options.repeat)]
    events, cpu_s = found[0][0], median(cpu for _, cpu in found)
    return {"scenario": Path(case.scenario).stem, "seconds": case.seconds, "hosts": case.hosts,
            "devices": case.devices, "events": events, "events_per_s": events / cpu_s,
            "cpu_s_per_million": cpu_s / events * 1e6, "runs": len(found)}


def made(case: Options) -> tuple[int, float]:
    """(span events published, CPU seconds of the process it took)."""
    start = process_time()
    events = sum(publication.rows for publication in fleet(case) if publication.topic == SPANS)
    return events, process_time() - start
