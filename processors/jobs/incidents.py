"""Runs of windows in which a rank held up its job, as incidents of kind ``straggler``. Plain values.

An incident is told once two windows in a row say so, and ends with the last window that did when two in a row do not.
Windows in which nothing was to be compared say nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from processors.jobs.slowness import Where

KIND: Final = "straggler"
CONFIRM: Final = 2
"""Windows in a row that begin or end an incident."""
SEVERE: Final = 0.3
"""From this share of the windows' time lost on it is critical."""

Finding = Mapping[str, Any]
"""What a window says of a rank; ``cost_share`` of the window's time is lost."""


@dataclass(slots=True)
class Run:
    """Windows of one device, from ``start_ns`` to the last that found it, ``end_ns``. ``worst``: the finding that cost
    most; ``quiet``: windows since."""

    start_ns: int
    end_ns: int
    windows: int = 0
    quiet: int = 0
    told_ns: int = 0
    worst: dict[str, Any] = field(default_factory=dict)

    def row(self, where: Where, job: str, *, closed: bool, revision: int) -> dict[str, Any]:
        """As a row of the contract ``incidents``."""
        cost = float(self.worst["cost_share"])
        evidence = {**self.worst, "job": job, "windows": self.windows, "detected_ns": self.told_ns}
        return {"host": where[0], "device": where[1], "kind": KIND, "start_ns": self.start_ns,
                "end_ns": self.end_ns if closed else None, "revision": revision,
                "severity": "critical" if cost >= SEVERE else "warning",
                "evidence": json.dumps(evidence, sort_keys=True, separators=(",", ":"))}


Runs = dict[Where, Run]


def see(runs: Runs, job: str, start_ns: int, end_ns: int, found: Mapping[Where, Finding],
        judged: set[Where]) -> list[dict[str, Any]]:
    """Rows that a window brings. ``judged``: devices of which it says something."""
    rows = []
    for where in sorted(found):
        run = runs.setdefault(where, Run(start_ns, end_ns))
        run.end_ns, run.quiet, run.windows = end_ns, 0, run.windows + 1
        if not run.worst or found[where]["cost_share"] > run.worst["cost_share"]:
            run.worst = dict(found[where])
        if run.windows == CONFIRM:
            run.told_ns = end_ns
            rows.append(run.row(where, job, closed=False, revision=end_ns))
    for where in sorted(runs.keys() & judged - found.keys()):
        run = runs[where]
        run.quiet += 1
        if run.quiet >= CONFIRM or run.windows < CONFIRM:
            rows += finished(runs, where, job, end_ns)
    return rows


def finished(runs: Runs, where: Where, job: str, revision: int) -> list[dict[str, Any]]:
    """End the run of a device; a row where it had been told."""
    run = runs.pop(where)
    return [run.row(where, job, closed=True, revision=revision)] if run.windows >= CONFIRM else []
