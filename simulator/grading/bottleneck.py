"""Grades time accounting and verdicts of a store against the true causes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fleetscope.contracts.derived import STATE_NAMES
from fleetscope.store.abstract import Store
from simulator.clocks import NS, Ints
from simulator.fleet import FleetConfig
from simulator.grading.fleet_time import HostTime
from simulator.grading.shares import SILENT, RowCounts, true_windows, windows_touched
from simulator.grading.verdicts import MISSING, WITHHELD, answers, score, true_verdicts
from simulator.segments import integers
from simulator.truth import Causes, Incident

MIN_COVERAGE: Final = 0.95

Floats = NDArray[np.float64]
Window = tuple[Floats, str]
"""Shares (STATE_NAMES) and cause as the pipeline stored them."""


@dataclass(frozen=True, slots=True)
class Given:
    """What the pipeline wrote: by (host, device, window start) shares and cause."""

    window_ns: int
    windows: dict[tuple[str, str, int], Window]


@dataclass(slots=True)
class _Sums:
    """What adds up over devices."""

    pairs: Counter[tuple[str, str]]
    error: Floats
    misplaced: float = 0.0
    compared: int = 0
    graded: int = 0
    low_coverage: int = 0
    withheld: int = 0
    withheld_wrongly: int = 0
    cut: float = 0.0


def bottleneck_score(given: Given, causes: list[Causes], times: dict[str, HostTime], rows: dict[str, RowCounts],
                     silences: list[Incident], until_ns: int) -> dict[str, Any] | None:
    """The section `bottleneck` of the score document; None where the truth holds no causes.

    Every window counts that lies within the workload (true time 0 to ``until_ns``, at least MIN_COVERAGE of the
    window), whether the pipeline wrote it or not. Where less than MIN_COVERAGE of the rows could be decoded, or for
    more than the rest of the window nothing could be seen, withholding is right and the window is not graded.
    ``share_mae`` is the mean of |share − true share| over windows and states; ``misplaced_share`` half their sum over
    the states, averaged over windows: the share of time put into a wrong state.
    """
    if not causes:
        return None
    sums = _Sums(Counter(), np.zeros(len(STATE_NAMES)))
    for device in causes:
        _device(sums, given, _before(device, until_ns), times[device.host], rows[device.host], silences)
    scored = score(sums.pairs)
    compared = max(sums.compared, 1)
    means = {name: round(float(error) / compared, 6) for name, error in zip(STATE_NAMES, sums.error, strict=True)}
    some = sums.compared > 0
    return {
        "macro_f1": scored.macro_f1, "accuracy": scored.accuracy, "confusion": scored.confusion,
        "share_mae": float(sums.error.mean()) / compared if some else None, "insufficient_data": sums.withheld,
        "windows": sums.graded, "insufficient_data_wrong": sums.withheld_wrongly, "low_coverage": sums.low_coverage,
        "misplaced_share": sums.misplaced / compared if some else None,
        "share_mae_by_state": {name: error for name, error in means.items() if error},
        "per_cause": scored.per_cause, "slot_cut_share_max": sums.cut,
    }


def _before(device: Causes, until_ns: int) -> Causes:
    inside = device.start_ns + device.slot_ns <= until_ns
    return Causes(device.host, device.device, device.start_ns[inside], device.slot_ns[inside], device.ns[inside])


def _device(sums: _Sums, given: Given, device: Causes, time: HostTime, rows: RowCounts,
            silences: list[Incident]) -> None:
    if not len(device.start_ns):
        return
    edges = np.concatenate([device.start_ns, device.start_ns[-1:] + device.slot_ns[-1:]])
    fleet = time.at(edges)
    width = given.window_ns
    starts = windows_touched(fleet, width)
    true = true_windows(device, time, starts, width)
    inside = true.known >= MIN_COVERAGE
    base = int(fleet[0])
    low, high = (np.interp(np.asarray(starts - base + more, dtype=np.float64), (fleet - base).astype(np.float64),
                           edges.astype(np.float64)) for more in (0, width))
    coverage = rows.coverage(low, high) - _silent(silences, device, low, high)
    sums.low_coverage += int(np.sum(inside & (coverage < MIN_COVERAGE)))
    kept = np.flatnonzero(inside & (coverage >= MIN_COVERAGE))
    told: list[str] = []
    for row in kept:
        window = given.windows.get((device.host, device.device, int(starts[row])))
        told.append(MISSING if window is None else window[1])
        if window is not None:
            error = np.abs(window[0] - true.share[row])
            sums.error += error
            sums.misplaced += float(error.sum()) / 2
            sums.compared += 1
    withheld = sum(given.windows.get((device.host, device.device, int(start)), (None, ""))[1] == WITHHELD
                   for start in starts[inside])
    sums.pairs.update(answers(true_verdicts(true.share[kept], true.cut[kept]), told))
    sums.graded += len(kept)
    sums.withheld += withheld
    sums.withheld_wrongly += told.count(WITHHELD)
    sums.cut = max([sums.cut, *true.cut[kept].tolist()])


def _silent(silences: list[Incident], device: Causes, low: Floats, high: Floats) -> Floats:
    """Share of each window (true time) in which the host or the device could not be seen."""
    hidden = np.zeros(len(low))
    for item in silences:
        if item.kind in SILENT and item.host == device.host and item.device in (None, device.device):
            hidden += np.maximum(np.minimum(high, item.end_true_ns) - np.maximum(low, item.start_true_ns), 0.0)
    return np.minimum(hidden / np.maximum(high - low, 1.0), 1.0)


def stored_windows(store: Store, config: FleetConfig) -> Given:
    """Windows and verdicts of the simulated hosts. The most common length counts; 1 s where there are no windows."""
    columns = ", ".join(f"w.{name}_ns AS {name}_ns" for name in STATE_NAMES)
    table = store.query(
        f"SELECT w.host AS host, w.device AS device, w.window_start_ns AS start, w.window_ns AS width, {columns}, "
        "v.cause AS cause FROM (SELECT * FROM windows FINAL WHERE host IN {hosts:Array(String)}) AS w "
        "LEFT JOIN (SELECT * FROM verdicts FINAL WHERE host IN {hosts:Array(String)}) AS v "
        "ON w.host = v.host AND w.device = v.device AND w.window_start_ns = v.window_start_ns "
        "AND w.window_ns = v.window_ns", {"hosts": config.host_names})
    if not table.num_rows:
        return Given(NS, {})
    names = [f"{name}_ns" for name in STATE_NAMES]
    start, width, *ns = integers(table, ("start", "width", *names))
    common = _most_common(width)
    shares = np.stack(ns, axis=1) / width[:, None]
    hosts, devices, causes = (table.column(name).to_pylist() for name in ("host", "device", "cause"))
    return Given(common, {
        (hosts[row], devices[row], int(start[row])): (shares[row], causes[row] or MISSING)
        for row in np.flatnonzero(width == common)})


def _most_common(values: Ints) -> int:
    found, counts = np.unique(values, return_counts=True)
    return int(found[np.argmax(counts)])

