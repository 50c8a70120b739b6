from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from fleetscope.contracts.derived import STATE_NAMES
from simulator.history.rollup import OPERATOR_HOURS, combine
from tests.unit.simulator.history.histories import HOUR_NS, QUIET, busy, made, small

KERNEL_STATES = [f"{name}_ns" for name in STATE_NAMES[:STATE_NAMES.index("kernel_unattributed") + 1]]


def by_hour(windows: pd.DataFrame) -> pd.DataFrame:
    """The windows of 60 s themselves, added up by host and hour."""
    numbers = windows.select_dtypes("number").assign(
        host=windows.host, hour_start_ns=windows.window_start_ns // HOUR_NS * HOUR_NS,
        kernel_ns=windows[KERNEL_STATES].sum(axis=1),
        known_ns=windows.window_ns - windows.no_demand_ns - windows.unknown_ns)
    return numbers.groupby(["host", "hour_start_ns"]).sum()


def test_hourly_rows_equal_the_sums_of_their_own_windows() -> None:
    windows = by_hour(busy().windows.to_pandas())
    rows = busy().operators.to_pandas()
    rows = rows.assign(flops=rows["count"] * rows.flops_per_call, bytes=rows["count"] * rows.bytes_per_call)

    def total(column: str, *roles: str) -> pd.Series:
        chosen = rows[rows.role.isin(roles)] if roles else rows
        return chosen.groupby(["host", "hour_start_ns"])[column].sum().reindex(windows.index, fill_value=0)

    pairs = {"known_ns": total("total_ns"), "kernel_ns": total("total_ns", "kernel"),
             "kernels": total("count", "kernel"), "transfers": total("count", "h2d", "d2h"),
             "flops": total("flops", "kernel"), "memory_bytes": total("bytes", "kernel"),
             "h2d_bytes": total("bytes", "h2d"), "d2h_bytes": total("bytes", "d2h")}
    for name, sums in pairs.items():
        assert (windows[name].astype(np.int64) == sums).all(), name


def test_means_agree_with_totals_and_counts_up_to_a_call() -> None:
    rows = busy().operators.to_pandas()
    rows = rows[rows["count"] > 1_000]
    assert len(rows) > 500
    # Time counts where it passes, a call where it starts: each device may be ahead by a call, and a step's calls vary.
    np.testing.assert_allclose(rows.total_ns / rows["count"], rows.mean_ns, rtol=0.005)


def test_variance_is_that_of_calls_and_of_windows() -> None:
    noise = {**QUIET["noise"], "call": 0.1, "white": 0.05}
    found = made(small(hours=24, season=QUIET["season"], noise=noise))
    rows = found.operators.to_pandas()
    kernels = rows[rows.operator.isin(["mlp_up", "qkv_proj"])]
    relative = kernels.variance_ns2 / kernels.mean_ns ** 2
    profile = found.plan.jobs[0].profile
    steps = profile.call_cv2[-1, [profile.operators.index(name) for name in ("mlp_up", "qkv_proj")]].mean()
    assert relative.mean() == pytest.approx(steps + 0.1 ** 2 + 0.05 ** 2, rel=0.05)
    still = made(small(season=QUIET["season"], noise={**QUIET["noise"], "call": 0.1})).operators.to_pandas()
    launches = still[still.operator == "schedule"]  # the same in every step
    np.testing.assert_allclose(launches.variance_ns2 / launches.mean_ns ** 2, 0.01, rtol=1e-6)


def test_rows_combine_to_the_moments_of_all_calls() -> None:
    rng = np.random.default_rng(0)
    groups = [rng.normal(size, size / 5, count) for size, count in ((10.0, 30), (25.0, 5), (7.0, 100))]
    mean, variance = combine(np.array([len(g) for g in groups]), np.array([g.mean() for g in groups]),
                             np.array([g.var() for g in groups]))
    everything = np.concatenate(groups)
    assert (mean, variance) == (pytest.approx(everything.mean()), pytest.approx(everything.var()))
    with pytest.raises(ValueError, match="no calls"):
        combine(np.zeros(2, dtype=np.int64), np.zeros(2), np.zeros(2))


def test_a_version_that_changes_within_an_hour_splits_it() -> None:
    found = busy()
    (event,) = [e for e in found.plan.events if e.kind == "deployment" and e.start == 211]  # 3.51 h, next edge
    name = found.plan.host_names[event.hosts[0]]
    rows = found.operators.to_pandas()
    hour = rows[(rows.host == name) & (rows.hour_start_ns == found.plan.start_ns + 3 * HOUR_NS)
                & (rows.operator == "schedule")]
    assert set(hour.compiler) == {"2.3.0", "2.4.0"}
    per_window = hour.groupby("compiler").total_ns.sum() / pd.Series({"2.3.0": 31, "2.4.0": 29})
    assert per_window["2.3.0"] == pytest.approx(per_window["2.4.0"], rel=0.1)


def test_every_column_says_what_it_is() -> None:
    assert all(field.metadata[b"doc"] for field in OPERATOR_HOURS)
    assert busy().operators.column_names == OPERATOR_HOURS.names
