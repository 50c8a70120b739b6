"""Every method on the same series of probes: error, bound, coverage and cost. One document for the results file."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from bench.clocks.baselines import METHODS, Lines, Readings, readings
from bench.clocks.ours import fit, holding, outcome, rules_for, steps_found
from bench.clocks.probes import CASES, Series
from processors.clocks.segments import Segment, SegmentMap
from simulator.clocks import NS, Ints

__all__ = ["OURS", "Sample", "compare", "compare_case"]

OURS: Final = "ours"
SAMPLES_A_SECOND: Final = 20
FIRST_S: Final = 3
LAST_S: Final = 5
"""Nothing is judged before the third second and in the last five: clocks settle, later probes lack."""
BATCH: Final = 16_384
BATCHES: Final = 32
BATCH_NS: Final = 50_000_000
REPEATS: Final = 5
KEPT: Final = 120
"""Newest segments in the map whose rate is measured."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Errors (ns, absolute) and bounds (ns, −1: none) at events of one series, whether each was before the first step,
    and what it cost. ``us_a_probe``: CPU µs; ``mapped_m_per_s``: million timestamps a CPU second."""

    error: Ints
    bound: Ints
    early: Ints
    us_a_probe: float
    mapped_m_per_s: float


def compare(seeds: Sequence[int], seconds: int, cases: Sequence[str] = tuple(CASES)) -> dict[str, Any]:
    """The section `clocks` of the results: by case, by method."""
    return {"seconds": seconds, "seeds": list(seeds), "events_a_second": SAMPLES_A_SECOND,
            "cases": {case: compare_case(case, seeds, seconds) for case in cases}}


def compare_case(case: str, seeds: Sequence[int], seconds: int) -> dict[str, Any]:
    """Figures of each method over the series of all seeds, and what ours made of the steps."""
    found: dict[str, list[Sample]] = {name: [] for name in (OURS, *METHODS)}
    steps = {"planted": 0, "found": 0, "false": 0}
    state_bytes = 0
    outcome(CASES[case](seeds[0], 60), seeds[0])  # compiled before anything is timed
    for seed in seeds:
        series = CASES[case](seed, seconds)
        events = _events(series)
        sample, segments, size = _ours(series, events)
        found[OURS].append(sample)
        seen, false = steps_found(series, segments)
        steps = {"planted": steps["planted"] + len(series.steps), "found": steps["found"] + seen,
                 "false": steps["false"] + false}
        state_bytes = max(state_bytes, size)
        taken = readings(series)
        for name, method in METHODS.items():
            found[name].append(_theirs(series, taken, method, events))
    return {"steps": steps, "state_bytes": state_bytes,
            "methods": {name: _figures(samples) for name, samples in found.items()}}


def _events(series: Series) -> Ints:
    """True times of the events that are mapped."""
    count = (series.seconds - FIRST_S - LAST_S) * SAMPLES_A_SECOND
    return (np.linspace(FIRST_S, series.seconds - LAST_S, count) * NS).astype(np.int64) + 17


def _before_first_step(series: Series, events: Ints) -> Ints:
    return np.asarray(events < min(series.steps, default=1 << 62))


def _ours(series: Series, events: Ints) -> tuple[Sample, list[Segment], int]:
    ticks, truth = series.truth(events)
    began = time.process_time()
    nodes = series.nodes()
    spent = time.process_time() - began
    segments, pair, fitting = fit(series, rules_for(series))
    at = holding(segments, ticks, truth)
    bound = np.array([-1 if s.err_ns is None else s.err_ns for s in segments], np.int64)[at]
    bound = np.where(at >= 0, bound, -1)
    mapped = np.array([segments[i].at(int(t)) for i, t in zip(at, ticks, strict=True)], np.int64)
    apply = SegmentMap(segments[-KEPT:]).apply
    return Sample(np.abs(mapped - truth), bound, _before_first_step(series, events),
                  (spent + fitting) / sum(map(len, nodes)) * 1e6,
                  _rate(series, lambda t, _: apply(t, t))), segments, len(str(pair.plain()))


def _theirs(series: Series, taken: Readings, method: Callable[[Readings], Lines], events: Ints) -> Sample:
    """The whole session, and once more without what came from the first step on: a step spoils some methods for all of
    a session."""
    ticks, truth = series.truth(events)
    began = time.process_time()
    lines = method(taken)
    spent = time.process_time() - began
    error = np.abs(lines.at(ticks, truth) - truth)
    early = _before_first_step(series, events)
    if series.steps:
        first = int(series.target.read(np.array([series.steps[0]], np.int64))[0])
        quiet = method(taken.before(first - 1))
        error = np.concatenate((error, np.abs(quiet.at(ticks[early], truth[early]) - truth[early])))
        early = np.concatenate((np.zeros(len(events), bool), np.ones(int(early.sum()), bool)))
    return Sample(error, np.full(len(error), -1), early, spent / taken.x.size * 1e6,
                  _rate(series, lambda t, y: lines.at(t, y)))


def _rate(series: Series, mapper: Callable[[Ints, Ints], object]) -> float:
    """Million timestamps a CPU second: batches as they come, each of BATCH stamps within BATCH_NS."""
    begin = series.seconds * NS - 60 * NS
    batches = [series.truth(begin + i * NS + np.linspace(0, BATCH_NS, BATCH).astype(np.int64)) for i in range(BATCHES)]
    best = float("inf")
    for _ in range(REPEATS):
        began = time.process_time()
        for ticks, truth in batches:
            mapper(ticks, truth)
        best = min(best, time.process_time() - began)
    return BATCH * BATCHES / max(best, 1e-9) / 1e6


def _figures(samples: Sequence[Sample]) -> dict[str, Any]:
    """Ours: over events with a bound, their share apart. Theirs: over all events of the whole session."""
    error, bound, early = (np.concatenate([getattr(s, name) for s in samples]) for name in ("error", "bound", "early"))
    bounded = bound >= 0
    stated = bool(bounded.any())
    # Methods without a bound have the events before the first step a second time, fitted without the step.
    whole = bounded if stated else (~early if early.any() and not early.all() else np.ones(len(early), bool))
    quiet = early & bounded if stated else early
    return {
        **_quantiles("error", error[whole]),
        **{f"{name}_before_step": value for name, value in _quantiles("error", error[quiet]).items()},
        **_quantiles("bound", bound[bounded] if stated else bound[:0]),
        "inside": float(np.mean(error[bounded] <= bound[bounded])) if stated else None,
        "outside": int((error[bounded] > bound[bounded]).sum()) if stated else None,
        "no_bound_share": float(np.mean(~bounded)) if stated else 1.0,
        "events": int(len(error) if stated else whole.sum()),
        "cpu_us_per_probe": float(np.median([s.us_a_probe for s in samples])),
        "mapped_m_per_s": float(np.median([s.mapped_m_per_s for s in samples])),
    }


def _quantiles(name: str, values: Ints) -> dict[str, float | None]:
    """p50, p99 and the largest, in ns; None where there is none."""
    levels = {"p50": 0.5, "p99": 0.99, "max": 1.0}
    if not len(values):
        return {f"{name}_{level}_ns": None for level in levels}
    return {f"{name}_{level}_ns": float(np.quantile(values, share)) for level, share in levels.items()}
