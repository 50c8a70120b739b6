"""The middle of the hull against a Kalman filter, extrapolated as provisional times are: python -m bench.clocks.kalman.

The filter has offset and rate, is clamped into the hull, and gets the best of several process noises for each case,
which no product could choose.
"""

from __future__ import annotations

import json
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bench.clocks.ours import rules_for
from bench.clocks.probes import CASES, Series
from processors.clocks.bursts import merged
from processors.clocks.hull import bounds
from processors.clocks.pair import Pair
from simulator.clocks import NS

AHEAD_S: Final = (1, 3, 10)
NOISES: Final = (1e-9, 1e-8, 1e-7, 1e-6, 1e-5)
"""Standard deviation of the change of rate in a second."""
Floats = NDArray[np.float64]


def filtered(x: Floats, y: Floats, spread: Floats, noise: float) -> Floats:
    """(n, 2) offset in ns and rate after each node; ``x`` in s, ``spread`` the nodes' standard deviation in ns."""
    state, cov = np.array([y[0], 0.0]), np.diag([spread[0] ** 2, 1e10])
    found = np.empty((len(x), 2))
    found[0] = state
    for i in range(1, len(x)):
        dt, q = x[i] - x[i - 1], (noise * 1e9) ** 2
        move = np.array([[1.0, dt], [0.0, 1.0]])
        state = move @ state
        cov = move @ cov @ move.T + q * np.array([[dt**3 / 3, dt**2 / 2], [dt**2 / 2, dt]])
        gain = cov[:, 0] / (cov[0, 0] + spread[i] ** 2)
        state = state + gain * (y[i] - state[0])
        cov = cov - np.outer(gain, cov[0])
        found[i] = state
    return found


def errors(series: Series) -> dict[str, dict[int, list[float]]]:
    """Absolute errors in ns by method and seconds ahead, nodes of 300 s without steps."""
    rules, pair = rules_for(series), Pair(series.source.hz)
    nodes = [merged(pair, burst, rules)[0] for burst in series.nodes() if burst]
    first = nodes[0]
    offset = np.array([(n.lo + n.hi) / 2 - first.lo - (n.x - first.x) * NS / series.source.hz for n in nodes])
    spread = np.array([(n.hi - n.lo) / 4 for n in nodes])
    x = np.array([(n.x - first.x) / series.source.hz for n in nodes])
    found: dict[str, dict[int, list[float]]] = {}
    for noise in (None, *NOISES):
        states = None if noise is None else filtered(x, offset, spread, noise)
        name = "hull" if noise is None else f"kalman {noise:g}"
        found[name] = {ahead: [] for ahead in AHEAD_S}
        for at in range(20, len(nodes) - 12):
            for ahead in AHEAD_S:
                truth_ns = series.target.at(round((at + ahead) * NS))
                tick = series.source.at(round((at + ahead) * NS))
                base, low, high = bounds(nodes[max(at - 15, 0):at + 1], tick, series.source.hz, rules.assumptions)
                value = (low + high) / 2
                if states is not None:
                    since = (tick - nodes[at].x) / series.source.hz
                    kalman = states[at, 0] + states[at, 1] * since
                    nominal = first.lo - base + (tick - first.x) * NS / series.source.hz
                    value = min(max(kalman + nominal, low), high)
                found[name][ahead].append(abs(base + value - truth_ns))
    return found


def main() -> None:
    """Print medians and 99th percentiles."""
    for case in ("host-device", "host-host"):
        every: dict[str, dict[int, list[float]]] = {}
        for seed in (501, 502, 503):
            series = CASES[case](seed, 3_600)
            before = min(series.steps) // NS
            quiet = Series(case, series.source, series.target, series.stamps[:min(int(before) - 1, 300)], 300)
            for name, by in errors(quiet).items():
                for ahead, values in by.items():
                    every.setdefault(name, {}).setdefault(ahead, []).extend(values)
        for name, by in every.items():
            print(json.dumps({"case": case, "method": name, **{
                f"{ahead} s": [round(float(q)) for q in np.quantile(v, (0.5, 0.99))] for ahead, v in by.items()}}))


if __name__ == "__main__":
    main()
