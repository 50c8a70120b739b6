"""Grades reported incidents against planted ones. Times are fleet time, ns since 1970."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

import numpy as np

from fleetscope.store.abstract import Store
from simulator.clocks import NS
from simulator.fleet import FleetConfig
from simulator.grading.fleet_time import HostTime
from simulator.grading.shares import BIN_NS, SILENT, RowCounts, windows_touched
from simulator.truth import Truth

Score = dict[str, dict[str, float | int | None]]

LOSS: Final = "data_loss"
LOSS_SHARE: Final = 0.05
"""A window that misses more of its rows has a loss, by the definition of the pipeline."""
TOLERANCE_WINDOWS: Final = 2
OPEN_END: Final = 1 << 62


@dataclass(frozen=True, slots=True)
class Span:
    """Something in [start, end). ``told_ns``: when it could first be reported; of planted ones the start."""

    kind: str
    host: str
    device: str | None
    start_ns: int
    end_ns: int
    told_ns: int


def incident_score(planted: Sequence[Span], reported: Sequence[Span], tolerance_ns: int) -> Score:
    """By kind, of all that were planted or reported.

    A report is right where a planted one of its kind and host (and device, where both name one) overlaps it within the
    tolerance; several may be right about the same. ``median_delay_s`` is over the planted ones that were found, from
    their start to the first report of them.
    """
    result: Score = {}
    for kind in sorted({item.kind for item in (*planted, *reported)}):
        ours = [item for item in planted if item.kind == kind]
        theirs = [item for item in reported if item.kind == kind]
        matches = [[report for report in theirs if _same(item, report, tolerance_ns)] for item in ours]
        delays = [max(min(report.told_ns for report in found) - item.start_ns, 0) / NS
                  for item, found in zip(ours, matches, strict=True) if found]
        right = {id(report) for found in matches for report in found}
        result[kind] = {
            "precision": len(right) / len(theirs) if theirs else None,
            "recall": len(delays) / len(ours) if ours else None,
            "median_delay_s": median(delays) if delays else None,
            "planted": len(ours), "found": len(delays), "reported": len(theirs), "right": len(right),
        }
    return result


def _same(planted: Span, reported: Span, tolerance_ns: int) -> bool:
    return (planted.host == reported.host
            and (planted.device is None or reported.device is None or planted.device == reported.device)
            and reported.start_ns < planted.end_ns + tolerance_ns
            and planted.start_ns - tolerance_ns < reported.end_ns)


def planted_incidents(truth: Truth, times: dict[str, HostTime], rows: dict[str, RowCounts], window_ns: int,
                      until_ns: int) -> list[Span]:
    """What the truth says happened before ``until_ns``, and the losses that follow from the rows that were missed.

    What was missed because a host or device was silent is that incident, and no loss besides.
    """
    result = []
    for item in truth.incidents():
        if item.start_true_ns < until_ns and item.host in times:
            start, end = times[item.host].at(np.array([item.start_true_ns, max(item.end_true_ns, item.start_true_ns)]))
            result.append(Span(item.kind, item.host, item.device, int(start), int(end), int(start)))
    over = {host: int(time.at(np.array([until_ns]))[0]) for host, time in times.items()}
    for host, counts in sorted(rows.items()):
        own = [item for item in result if item.kind in {LOSS, *SILENT} and item.host == host]
        result += [loss for loss in losses(host, counts, times[host], window_ns)
                   if loss.start_ns < over[host] and not any(_same(item, loss, 0) for item in own)]
    return result


def losses(host: str, counts: RowCounts, time: HostTime, window_ns: int) -> list[Span]:
    """Runs of windows of which more than LOSS_SHARE of the rows can never be decoded."""
    until = np.arange(0, len(counts.made) + 1, dtype=np.int64) * BIN_NS
    fleet = time.at(until)
    starts = windows_touched(fleet, window_ns)
    base = int(fleet[0])
    low, high = (np.interp(np.asarray(starts - base + more, dtype=np.float64), (fleet - base).astype(np.float64),
                           until.astype(np.float64)) for more in (0, window_ns))
    bad = counts.coverage(low, high) < 1.0 - LOSS_SHARE
    change = np.flatnonzero(np.diff(np.concatenate([[False], bad, [False]]).astype(np.int8)))
    return [Span(LOSS, host, None, int(starts[first]), int(starts[last - 1]) + window_ns, int(starts[first]))
            for first, last in zip(change[::2], change[1::2], strict=True)]


def reported_incidents(store: Store, config: FleetConfig, times: dict[str, HostTime], window_ns: int,
                       until_ns: int) -> list[Span]:
    """Stored incidents of the simulated hosts that start before true time ``until_ns``.

    When one was told is not stored: it is taken to be ``detected_ns`` of its evidence, or else the end of the window
    in which it starts, as nothing is told of a window that has not closed.
    """
    table = store.query("SELECT host, device, kind, start_ns, end_ns, evidence FROM incidents FINAL "
                        "WHERE host IN {hosts:Array(String)} ORDER BY start_ns, host", {"hosts": config.host_names})
    result = []
    over = {host: int(time.at(np.array([until_ns]))[0]) for host, time in times.items()}
    for row in table.to_pylist():
        if row["start_ns"] >= over[row["host"]]:
            continue
        end = OPEN_END if row["end_ns"] is None else row["end_ns"]
        told = _evidence(row["evidence"]).get("detected_ns")
        closed = (row["start_ns"] // window_ns + 1) * window_ns
        result.append(Span(row["kind"], row["host"], row["device"], row["start_ns"], end,
                           told if isinstance(told, int) else closed))
    return result


def _evidence(text: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
