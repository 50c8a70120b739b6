"""Error, bound, coverage, steps and cost of the product's maps on series of probes.

python -m bench.clocks.ours [--seeds 101 102 103] [--seconds 3600] [--case host-device]
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.clocks.probes import CASES, Series
from processors.clocks.pair import Pair, PairRules, Rate, add_probes, finish
from processors.clocks.probes import assumptions_for
from processors.clocks.segments import Segment
from simulator.clocks import NS, Ints

SAMPLES_A_SECOND: Final = 20
FOUND_WITHIN_NS: Final = 2 * NS + NS // 10


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one series. Errors and bounds in ns over true times spread evenly; shares of 0..1.

    ``cost_us``: CPU µs a second of the pair, with the conversion of stamps to nodes. ``state_bytes``: as JSON.
    """

    case: str
    seed: int
    error_p50_ns: float
    error_p99_ns: float
    error_max_ns: float
    bound_p50_ns: float
    bound_p99_ns: float
    covered: float
    settled: float
    gap: float
    steps: int
    found: int
    false: int
    cost_us: float
    state_bytes: int


def fit(series: Series, rules: PairRules) -> tuple[list[Segment], Pair, float]:
    """All segments, the state at the end, and CPU seconds."""
    bursts = series.nodes()
    rates = list(series.rates)
    pair, found = Pair(series.source.hz), []
    began = time.process_time()
    for stamps, burst in zip(series.stamps, bursts, strict=True):
        known: list[Rate] = []
        while rates and series.target.at(rates[0][0]) <= int(stamps.before[0]):
            at, tick, ppb = rates.pop(0)
            known.append(Rate(tick, ppb, series.target.at(at)))
        add_probes(pair, [*known, *burst], rules)
        found += pair.take()
    spent = time.process_time() - began
    finish(pair, rules)
    return found + pair.take(), pair, spent


def rules_for(series: Series) -> PairRules:
    """As `align` and `fleet_clocks` choose them."""
    clock = series.target.name if series.forward else series.source.name
    return replace(PairRules(), assumptions=assumptions_for(clock), steady_source=series.forward)


def outcome(series: Series, seed: int, rules: PairRules | None = None) -> Outcome:
    """Fit the series and compare with the truth, from its third second to the fifth before its end."""
    segments, pair, spent = fit(series, rules or rules_for(series))
    count = (series.seconds - 8) * SAMPLES_A_SECOND
    tau = (np.linspace(3, series.seconds - 5, count) * NS).astype(np.int64) + 17
    ticks, truth = series.truth(tau)
    at = holding(segments, ticks, truth)
    known = at >= 0
    err = np.array([-1 if s.err_ns is None else s.err_ns for s in segments])[at]
    bounded = known & (err >= 0)
    mapped = np.array([segments[i].at(int(t)) for i, t in zip(at, ticks, strict=True)], np.int64)
    error = np.abs(mapped - truth)
    state = np.array([s.state for s in segments])[at]
    settled = bounded & (state == "settled")
    found, false = steps_found(series, segments)
    p50, p99, worst = np.quantile(error[settled], (0.5, 0.99, 1.0)) if settled.any() else (np.nan,) * 3
    b50, b99 = np.quantile(err[settled], (0.5, 0.99)) if settled.any() else (np.nan,) * 2
    return Outcome(series.case, seed, float(p50), float(p99), float(worst), float(b50), float(b99),
                   float(np.mean(error[bounded] <= err[bounded])), float(np.mean(settled)), float(np.mean(~bounded)),
                   len(series.steps), found, false, spent / series.seconds * 1e6, len(json.dumps(pair.plain())))


def holding(segments: list[Segment], ticks: Ints, truth: Ints) -> NDArray[np.int64]:
    """For each tick the newest segment that holds it and had begun by then, -1 where there is none.

    A clock that stepped back shows a tick twice; that a row was sent after it was stamped tells which one it was.
    """
    found = np.full(len(ticks), -1, np.int64)
    for index, s in enumerate(segments):
        first, last = np.searchsorted(truth, (s.at(s.valid_from) - NS, s.at(s.valid_to) + NS))
        within = (ticks[first:last] >= s.valid_from) & (ticks[first:last] < s.valid_to)
        found[first:last][within] = index
    return found


def steps_found(series: Series, segments: list[Segment]) -> tuple[int, int]:
    """How many steps an epoch begins for within two probes, and how many epochs no step explains."""
    begins = [s.valid_from for a, s in pairwise(segments) if s.epoch > a.epoch]
    times = np.arange(0, series.seconds * NS, NS // 100)
    ticks = series.source.read(times)
    begun = [int(times[min(np.searchsorted(ticks, b), len(times) - 1)]) for b in begins]
    hit = [any(step - NS // 50 <= b <= step + FOUND_WITHIN_NS for b in begun) for step in series.steps]
    false = sum(not any(step - NS // 50 <= b <= step + FOUND_WITHIN_NS for step in series.steps) for b in begun)
    return sum(hit), false


def main() -> None:
    """Print one row a case and seed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, nargs="+", default=[101, 102, 103])
    parser.add_argument("--seconds", type=int, default=3_600)
    parser.add_argument("--case", choices=sorted(CASES), nargs="+", default=list(CASES))
    given = parser.parse_args()
    for case in given.case:
        for seed in given.seeds:
            print(json.dumps(asdict(outcome(CASES[case](seed, given.seconds), seed))), flush=True)


if __name__ == "__main__":
    main()
