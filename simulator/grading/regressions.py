"""Grades findings of regressions against the deployments that were planted. Times are ns in fleet time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from fleetscope.store.abstract import Store
from simulator.truth import Change

Score = dict[str, int | None]

TABLE: Final = "regressions"
WITHIN_NS: Final = 24 * 3_600 * 1_000_000_000
"""A finding belongs to a change that it dates at most this far off."""


def regression_score(store: Store, changes: Sequence[Change], start_unix_ns: int) -> Score | None:
    """``planted``, ``found`` and ``false``; None where nothing was planted and nothing looks for it.

    Found and false are None as long as the store has no table of findings.
    """
    planted = [start_unix_ns + change.true_ns for change in changes if change.effect != 0.0]
    if not store.query("SELECT name FROM system.tables WHERE database = currentDatabase() AND name = {table:String}",
                       {"table": TABLE}).num_rows:
        return {"planted": len(planted), "found": None, "false": None} if planted else None
    dated = store.query(f"SELECT change_ns FROM {TABLE} FINAL").column("change_ns").to_pylist()
    return match(planted, [int(at) for at in dated])


def match(planted_ns: Sequence[int], found_ns: Sequence[int]) -> Score:
    """Each finding goes to the nearest change within WITHIN_NS; one that has none is false."""
    owners = set()
    false = 0
    for at in found_ns:
        nearest = min(range(len(planted_ns)), key=lambda i: abs(planted_ns[i] - at), default=None)
        if nearest is None or abs(planted_ns[nearest] - at) > WITHIN_NS:
            false += 1
        else:
            owners.add(nearest)
    return {"planted": len(planted_ns), "found": len(owners), "false": false}
