from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulator.engine.program import program
from simulator.machine import load_machine, machine_names
from simulator.physics.lower import least_ns, lower, work
from simulator.physics.roofline import alone_ns, tile_share


def test_times_are_work_over_achievable_rates() -> None:
    low = lower(work(1, matrix_flops=84.7e9, vector_flops=12e9, read_bytes=255e6, sram_bytes=1.8e9),
                load_machine("infer-24"))
    for name in ("matrix_ns", "vector_ns", "hbm_ns", "sram_ns"):
        assert getattr(low, name)[0] == pytest.approx(1e6), name
    assert low.noc_ns[0] == pytest.approx(170_000)
    assert low.fixed_ns[0] == 1_500
    assert (low.flops[0], low.bytes[0], low.conflict[0], low.spill_ns[0]) == (96_700_000_000, 255_000_000, 1.0, 0.0)


def test_columns_make_a_program_and_own_start_up_replaces_the_machines() -> None:
    low = lower(work(3, vector_flops=np.array([1e9, 2e9, 3e9]), fixed_ns=np.array([0.0, 700.0, np.nan])),
                load_machine("tpu-like"))
    made = program(3, **low.columns())
    assert made.fixed_ns.tolist() == [0.0, 700.0, 800.0]
    assert made.vector_ns.tolist() == low.vector_ns.tolist()
    assert made.flops.tolist() == [10**9, 2 * 10**9, 3 * 10**9]


@given(st.sampled_from(machine_names()), st.floats(0, 1e14), st.floats(0, 1e12), st.floats(1, 1e11),
       st.floats(0, 1e10), st.integers(0, 100_000), st.integers(1, 16), st.floats(1, 4), st.floats(0, 1e9))
def test_no_work_is_faster_than_its_roofline(kind: str, matrix: float, vector: float, read: float, write: float,
                                             run: int, streams: int, skew: float, kept: float) -> None:
    machine = load_machine(kind)
    needs = work(1, matrix_flops=matrix, vector_flops=vector, read_bytes=read, write_bytes=write, run_bytes=run,
                 streams=streams, skew=skew, working_set_bytes=kept)
    low = lower(needs, machine)
    alone = alone_ns(low.matrix_ns, low.vector_ns, low.sram_ns * low.conflict, low.noc_ns, low.hbm_ns, low.spill_ns)
    assert alone[0] >= least_ns(needs, machine)[0] * (1 - 1e-9)
    assert low.bytes[0] >= low.useful_bytes[0] - 1
    assert low.bytes[0] == low.read_bytes[0] + low.write_bytes[0]
    assert min(low.row_hits[0], low.row_misses[0], low.turnarounds[0], low.spill_bytes[0]) >= 0


def test_one_resource_alone_takes_its_time_and_two_equal_ones_a_fourth_root_of_two() -> None:
    assert alone_ns(np.array([1_000.0]), np.array([0.0]), fixed_ns=100.0)[0] == pytest.approx(1_100)
    assert alone_ns(np.array([1_000.0]), np.array([1_000.0]))[0] == pytest.approx(1_000 * 2**0.25)


def test_padding_to_tiles_lowers_the_useful_share() -> None:
    machine = load_machine("tpu-like")  # tiles of 128
    assert tile_share(np.array([1]), np.array([128]), np.array([128]), machine)[0] == pytest.approx(1 / 8)
    assert tile_share(np.array([64]), np.array([192]), np.array([128]), machine)[0] == pytest.approx(0.75)


def test_unknown_columns_are_refused() -> None:
    with pytest.raises(TypeError, match="no columns flops"):
        work(1, flops=1.0)
