"""Verdicts from time accounting."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fleetscope.contracts.derived import STATE_NAMES
from processors.bottleneck.advice import ADVICE
from processors.bottleneck.rules import NOT_CAUSES, Rules, shares, verdict

TOTAL = 1_000_000


def window(coverage: float = 1.0, err_ns: int | None = 1, kernels: int = 10, **states: int) -> dict[str, Any]:
    """A window with the given states; what they leave is no_demand."""
    row: dict[str, Any] = {f"{name}_ns": 0 for name in STATE_NAMES}
    row |= {f"{name}_ns": value for name, value in states.items()}
    row["no_demand_ns"] += TOTAL - sum(row[f"{name}_ns"] for name in STATE_NAMES)
    return row | {"host": "h1", "device": "dev0", "job": "serve", "window_start_ns": 5_000_000, "window_ns": TOTAL,
                  "revision": 42, "kernels": kernels, "transfers": 0, "flops": 10, "memory_bytes": None,
                  "h2d_bytes": None, "d2h_bytes": None, "launch_latency_p50_ns": 900, "orphans": 0, "err_ns": err_ns,
                  "received_rows": 100, "late_rows": 0, "dropped_rows": 0, "lost_rows": 0, "redelivered_rows": 0,
                  "coverage": coverage}


def cause(row: dict[str, Any]) -> str:
    return str(verdict(row, Rules())["cause"])


@pytest.mark.parametrize("state", [s for s in STATE_NAMES if s not in NOT_CAUSES])
def test_a_state_that_takes_most_of_the_time_is_the_cause_with_advice_and_its_time(state: str) -> None:
    found = verdict(window(**{state: 700_000, "compute" if state != "compute" else "latency": 100_000}), Rules())
    assert found["cause"] == state
    assert found["recoverable_ns"] == 700_000
    assert found["share"] == pytest.approx(0.7)
    assert found["share_low"] <= 0.7 <= found["share_high"]
    assert found["confidence"] > 0.5
    assert found["advice"] == ADVICE[state]


def test_two_causes_of_equal_size_are_mixed() -> None:
    assert cause(window(host=400_000, memory_bandwidth=400_000)) == "mixed"


def test_a_lead_smaller_than_what_is_missing_is_mixed() -> None:
    close = {"compute": 430_000, "memory_bandwidth": 400_000}
    assert cause(window(coverage=1.0, **close)) == "compute"
    assert cause(window(coverage=0.96, **close)) == "mixed"


def test_a_split_of_gaps_that_the_clocks_cannot_tell_is_mixed() -> None:
    close = {"host": 300_000, "launch_overhead": 250_000, "compute": 240_000}
    assert cause(window(err_ns=10, kernels=100, **close)) == "host"
    assert cause(window(err_ns=1_000, kernels=100, **close)) == "mixed"
    assert cause(window(err_ns=None, kernels=100, **close)) == "mixed"


def test_low_coverage_gives_no_verdict_whatever_the_shares() -> None:
    found = verdict(window(coverage=0.94, compute=900_000), Rules())
    assert found["cause"] == "insufficient_data"
    assert (found["confidence"], found["recoverable_ns"]) == (0.0, 0)


def test_time_nobody_observed_gives_no_verdict_either() -> None:
    assert cause(window(compute=900_000, unknown=60_000)) == "insufficient_data"


def test_a_device_without_requests_has_no_bottleneck() -> None:
    found = verdict(window(compute=100_000), Rules())
    assert found["cause"] == "no_demand"
    assert found["share"] == pytest.approx(0.9)
    assert found["recoverable_ns"] == 0


def test_no_cause_below_a_fifth_is_named() -> None:
    parts = dict.fromkeys(("compute", "latency", "host", "pcie_h2d", "dependency", "spill"), 160_000)
    assert cause(window(**parts)) == "mixed"


def test_the_evidence_holds_the_numbers_used() -> None:
    evidence = json.loads(verdict(window(compute=600_000, host=200_000), Rules())["evidence"])
    assert evidence["states_ns"] == {"compute": 600_000, "host": 200_000, "no_demand": 200_000}
    assert set(evidence["limits"]) == {"compute", "host"}
    assert evidence["rule"] == {"min_share": 0.2, "min_coverage": 0.95}


def test_every_cause_has_advice_in_one_sentence() -> None:
    causes = {*STATE_NAMES} - {"unresolved", "unknown"} | {"mixed", "insufficient_data"}
    assert set(ADVICE) == causes
    assert all(text.endswith(".") and ". " not in text for text in ADVICE.values())


@given(st.lists(st.integers(0, 60_000), min_size=len(STATE_NAMES), max_size=len(STATE_NAMES)), st.floats(0, 1),
       st.none() | st.integers(0, 10**6))
def test_limits_hold_the_share_and_stay_shares(parts: list[int], coverage: float, err_ns: int | None) -> None:
    row = window(coverage, err_ns, **dict(zip(STATE_NAMES, parts, strict=True)))
    for share in shares(row):
        assert 0.0 <= share.low <= share.share <= share.high <= 1.0
    found = verdict(row, Rules())
    assert 0.0 <= found["share_low"] <= found["share_high"] <= 1.0
    assert 0.0 <= found["confidence"] <= 1.0
