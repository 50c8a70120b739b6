"""From the time accounting of one window to a verdict with limits. Pure; plain values in and out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fleetscope.contracts.derived import STATE_NAMES
from processors.bottleneck.advice import ADVICE

NOT_CAUSES: Final = frozenset({"no_demand", "unresolved", "unknown"})
HOST_SPLIT: Final = frozenset({"host", "host_input", "host_contention", "host_pageable", "launch_overhead",
                               "dependency"})
"""States told apart by a time of the host's clock inside a gap of the device's."""

_EVIDENCE: Final = ("kernels", "transfers", "flops", "memory_bytes", "h2d_bytes", "d2h_bytes",
                    "launch_latency_p50_ns", "orphans", "err_ns", "received_rows", "late_rows", "dropped_rows",
                    "lost_rows", "coverage", "counter_errors")


@dataclass(frozen=True, slots=True)
class Rules:
    """``min_share``: least share of a cause that is named; ``min_coverage``: below it there is no verdict. All 0..1."""

    min_share: float = 0.20
    min_coverage: float = 0.95


@dataclass(frozen=True, slots=True)
class Share:
    """Share of a state in the window with its limits, 0..1."""

    state: str
    share: float
    low: float
    high: float


def states_ns(window: Mapping[str, Any]) -> dict[str, int]:
    """Time of every state; 0 for those that the window's version did not tell apart."""
    return {state: window[f"{state}_ns"] or 0 for state in STATE_NAMES}


def shares(window: Mapping[str, Any]) -> list[Share]:
    """Shares of all states that can be a cause, largest first.

    What is missing (1 − coverage, unknown and unresolved time) may belong to any state: it widens every upper limit,
    and missing rows thin out the lower one. The states that a submission time tells apart are uncertain by the error
    bound once for every work of the window; without a bound by all time that was split so.
    """
    total = window["window_ns"]
    time_ns = states_ns(window)
    unknown = window["unknown_ns"] / total
    lost = max(0.0, 1.0 - window["coverage"] - unknown)
    missing = max(1.0 - window["coverage"], unknown) + window["unresolved_ns"] / total
    split = sum(time_ns[state] for state in HOST_SPLIT) / total
    err = window["err_ns"]
    edge = split if err is None else min(split, err * (window["kernels"] + window["transfers"]) / total)
    found = []
    for state in STATE_NAMES:
        if state in NOT_CAUSES:
            continue
        share = time_ns[state] / total
        blur = edge if state in HOST_SPLIT else min(share, 2 * (err or 0) / total)
        found.append(Share(state, share, max(0.0, share * (1.0 - lost) - blur), min(1.0, share + missing + blur)))
    return sorted(found, key=lambda s: -s.share)


def verdict(window: Mapping[str, Any], rules: Rules) -> dict[str, Any]:
    """The row of contract `verdicts` for a row of contract `windows`.

    In this order: too little known → insufficient_data; so little demand that no cause could reach ``min_share`` →
    no_demand; the largest cause if it reaches ``min_share`` and its lower limit is above the runner-up's upper limit;
    else mixed.
    """
    ranked = shares(window)
    first, second = ranked[0], ranked[1]
    total = window["window_ns"]
    coverage = min(window["coverage"], 1.0 - window["unknown_ns"] / total)
    no_demand = window["no_demand_ns"] / total
    confidence, recoverable = 0.0, 0
    chosen = first
    if coverage < rules.min_coverage:
        cause, chosen = "insufficient_data", Share("", 1.0 - coverage, 1.0 - coverage, 1.0)
    elif no_demand > 1.0 - rules.min_share:
        cause, chosen = "no_demand", Share("", no_demand, no_demand * coverage, no_demand)
        confidence = max(0.0, chosen.low - first.high)
    elif first.share >= rules.min_share and first.low > second.high:
        cause, confidence, recoverable = first.state, first.low - second.high, window[f"{first.state}_ns"]
    else:
        cause, recoverable = "mixed", window[f"{first.state}_ns"]
    runner_up = second if chosen is first else first
    return {
        **{name: window[name] for name in ("host", "device", "job", "window_start_ns", "window_ns", "revision")},
        "cause": cause, "share": chosen.share, "share_low": chosen.low, "share_high": chosen.high,
        "runner_up": runner_up.state if runner_up.share > 0 else None, "confidence": min(confidence, 1.0),
        "recoverable_ns": recoverable, "evidence": _evidence(window, rules, first, second), "advice": ADVICE[cause],
    }


def _evidence(window: Mapping[str, Any], rules: Rules, first: Share, second: Share) -> str:
    numbers: dict[str, Any] = {name: window[name] for name in _EVIDENCE if window.get(name) is not None}
    numbers["states_ns"] = {state: time for state, time in states_ns(window).items() if time}
    numbers["limits"] = {s.state: [round(s.low, 6), round(s.high, 6)] for s in (first, second) if s.share > 0}
    numbers["rule"] = {"min_share": rules.min_share, "min_coverage": rules.min_coverage}
    return json.dumps(numbers, sort_keys=True, separators=(",", ":"))
