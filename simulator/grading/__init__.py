"""Grades what the pipeline stored of a simulated fleet against its ground truth: the `score` document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from fleetscope.store.abstract import Store
from simulator.clocks import NS, RAW, HostClocks
from simulator.fleet import FleetConfig
from simulator.grading.bottleneck import bottleneck_score, stored_windows
from simulator.grading.clocks import device_score, host_score, inversions, loop_score
from simulator.grading.events import events_by_contract
from simulator.grading.fleet_time import host_times
from simulator.grading.incidents import TOLERANCE_WINDOWS, incident_score, planted_incidents, reported_incidents
from simulator.grading.regressions import regression_score
from simulator.grading.shares import row_counts
from simulator.grading.steps import Epochs, step_score, stored_epochs
from simulator.truth import ClockStep, Incident, Truth

_NO_STEPS: Final = {"steps_true": None, "steps_found": None, "steps_false": None}


def grade(store: Store, truth: Truth, config: FleetConfig) -> dict[str, object]:
    """The `score` document for the simulated hosts. Figures of the run itself (time, memory) stay null.

    ``notes`` says why a section is null or incomplete.
    """
    by_contract = events_by_contract(store, truth, config)
    until_ns = round(config.seconds * NS)
    times = host_times(store, config)
    rows = row_counts(truth, config.host_names, round((config.seconds + config.drain_seconds) * NS))
    given = stored_windows(store, config)
    bottleneck = bottleneck_score(given, truth.causes(), times, rows, truth.incidents(), until_ns)
    incidents = incident_score(planted_incidents(truth, times, rows, given.window_ns, until_ns),
                               reported_incidents(store, config, times, given.window_ns, until_ns),
                               TOLERANCE_WINDOWS * given.window_ns)
    regressions = regression_score(store, truth.changes(), config.start_unix_ns)
    return {
        "events": by_contract["spans"],
        "rows_by_contract": by_contract,
        "clocks": _clocks(store, truth, config),
        "bottleneck": bottleneck, "incidents": incidents, "regressions": regressions,
        "events_per_s": None, "wall_s": None, "peak_rss_mb": None,
        "notes": _notes(bottleneck, regressions, truth),
    }


def _clocks(store: Store, truth: Truth, config: FleetConfig) -> dict[str, Any]:
    pairs = stored_epochs(store, config)
    clocks = {host: config.clocks(index) for index, host in enumerate(config.host_names)}
    steps, silences = truth.clock_steps(), truth.incidents()
    loop = loop_score(store, config)
    return {
        "host_device": {**device_score(store, truth, config), **_steps(pairs, steps, clocks, silences, of_fleet=False)},
        "host_host": {**host_score(store, config), **_steps(pairs, steps, clocks, silences, of_fleet=True)},
        "loop": None if loop is None else {**loop, **_NO_STEPS},
        "causality_inversions_unflagged": inversions(store, config),
    }


def _steps(pairs: Sequence[Epochs], steps: Sequence[ClockStep], clocks: dict[str, HostClocks],
           silences: Sequence[Incident], *, of_fleet: bool) -> dict[str, int]:
    return step_score([pair for pair in pairs if (pair.source[1] == RAW) == of_fleet], steps, clocks, silences)


def _notes(bottleneck: object, regressions: dict[str, int | None] | None, truth: Truth) -> list[str]:
    notes = []
    if bottleneck is None:
        notes.append("bottleneck: the truth of this run holds no causes")
    if regressions is None:
        notes.append("regressions: none planted, and the store has no table of findings")
    elif regressions["found"] is None:
        notes.append(f"regressions: {len(truth.changes())} changes in truth, and the store has no table of findings")
    return notes
