from __future__ import annotations

import tracemalloc
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetscope.contracts.derived import STATE_NAMES, WINDOWS
from simulator.history.generate import Generator
from simulator.history.plan import make_plan
from tests.unit.simulator.history.histories import EVERYTHING, HOUR_NS, START_NS, busy, made, small

STATES = [f"{name}_ns" for name in STATE_NAMES]


def states_sum(windows: pa.Table) -> np.ndarray:
    return sum(windows.column(name).to_numpy() for name in STATES)


def test_every_window_of_every_device_is_there_once_and_its_states_add_up_exactly() -> None:
    windows = busy().windows
    history = busy().plan.history
    assert windows.num_rows == history.windows * history.hosts * history.devices
    assert (states_sum(windows) == 60 * 10**9).all()
    starts = windows.column("window_start_ns").to_numpy().reshape(-1, history.windows)
    assert (starts == START_NS + np.arange(history.windows) * 60 * 10**9).all()


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**40), window_s=st.sampled_from([1, 5, 60, 900, 3_600]), lost=st.floats(0.001, 1.0),
       utilisation=st.floats(0.01, 1.5), noise=st.floats(0.0, 0.2))
def test_states_add_up_whatever_the_load_the_noise_and_the_gaps(
        seed: int, window_s: int, lost: float, utilisation: float, noise: float) -> None:
    windows = made(small(hours=2, window_s=window_s, hosts=1, devices=1, jobs=[{"utilisation": utilisation}],
                         noise={"device": noise, "white": noise, "demand": noise},
                         gaps=[{"at_h": 0.5, "hours": 1, "lost_share": lost}]), seed).windows
    assert (states_sum(windows) == window_s * 10**9).all()
    for column in WINDOWS.columns:
        if column.minimum is not None:
            values = windows.column(column.name).drop_null().to_numpy()
            assert (values >= column.minimum).all(), column.name


@pytest.mark.parametrize("block_rows", [1, 61, 720, 5_000])
def test_rows_do_not_depend_on_how_they_are_cut_into_blocks(block_rows: int) -> None:
    cut = made(busy().plan.history, block_rows=block_rows)
    assert cut.windows.equals(busy().windows)
    assert cut.operators.equals(busy().operators)


def test_the_same_seed_gives_the_same_rows_and_another_seed_others() -> None:
    history = small(hours=1)
    assert made(history, 5).windows.equals(made(history, 5).windows)
    assert not made(history, 5).windows.equals(made(history, 6).windows)


def test_one_device_more_leaves_the_other_devices_as_they_were() -> None:
    few, many = (made(small(hours=1, devices=devices)).windows.to_pandas() for devices in (2, 3))
    known = many[many.device != "dev2"].reset_index(drop=True)
    # What a host receives depends on how many devices it has.
    assert few.drop(columns="received_rows").equals(known.drop(columns="received_rows"))


def test_a_block_lies_in_one_utc_day_and_is_sorted_by_the_key_of_the_table() -> None:
    plan = make_plan(small(hours=30, window_s=600), 1, START_NS + 20 * HOUR_NS)
    blocks = [block.rows for block in Generator(plan, 100).blocks() if block.table == "windows"]
    assert len(blocks) > 3
    for rows in blocks:
        starts = rows.column("window_start_ns").to_numpy()
        assert len(set(starts // (24 * HOUR_NS))) == 1
        keys = list(zip(rows.column("host").to_pylist(), rows.column("device").to_pylist(), starts, strict=True))
        assert all(before < after for before, after in pairwise(keys))
        assert rows.schema == WINDOWS.schema()


def test_a_silent_window_has_no_work_and_no_job_and_null_instead_of_zero() -> None:
    windows = busy().windows.to_pandas()
    silent = windows[windows.unknown_ns == windows.window_ns]
    assert len(silent) == 15 * 2
    assert (silent.coverage == 0).all()
    assert (silent[["kernels", "transfers", "received_rows"]] == 0).all(axis=None)
    assert silent[["job", "flops", "memory_bytes", "h2d_bytes", "d2h_bytes", "launch_latency_p50_ns"]].isna().all(
        axis=None)
    partly = windows[(windows.unknown_ns > 0) & (windows.unknown_ns < windows.window_ns)]
    assert len(partly) == 30 * 2
    np.testing.assert_allclose(partly.coverage, 0.6, atol=1e-9)
    np.testing.assert_allclose(partly.lost_rows / (partly.lost_rows + partly.received_rows), 0.4, atol=0.001)


def test_replicas_and_swapped_caches_show_as_collectives_and_transfers() -> None:
    windows = busy().windows.to_pandas()
    big = windows[windows.job == "big"]
    assert (big.collective_network_ns > 0).all()
    assert (big.h2d_bytes > 100 * big.kernels).all()
    chat = windows[windows.job == "chat"]
    assert (chat.collective_network_ns == 0).all()


def test_memory_is_flat_in_the_length_of_the_run() -> None:
    def peak(hours: int) -> int:
        plan = make_plan(small(hours=hours, window_s=10, **EVERYTHING), 1, START_NS)
        tracemalloc.start()
        try:
            for _ in Generator(plan, 5_000).blocks():
                pass
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak(12)  # compiled and cached
    assert peak(96) < 1.1 * peak(24)


def test_a_block_without_rows_is_refused() -> None:
    with pytest.raises(ValueError, match="block of 0 rows"):
        Generator(make_plan(small(), 1, START_NS), 0)
