"""Host times: medians, what a call costs, and time that others take."""

from __future__ import annotations

import numpy as np
import pytest

from fleetscope.errors import UsageError
from simulator.causes import CODE
from simulator.engine.program import BLOCKING, NONE, PAGEABLE, REMOTE_NUMA, WORK, Program
from simulator.work.hosts import HostCosts, contended
from simulator.work.layout import Filler, LayoutBuilder
from simulator.work.names import NAME
from simulator.work.operators import matmul
from simulator.work.table import Lowerer, Message, table
from tests.unit.simulator.work.seats import CARD, QUIET, equal


def some_program(host: HostCosts = QUIET, kernels: int = 300, *, host_factor: float = 1.0, device_factor: float = 1.0,
                 remote: bool = False, copy_bytes: int = 6_000_000) -> Program:
    """A copy, kernels of which the first waits for it, and a wait for all."""
    calls = LayoutBuilder(host, 0, 0, remote_numa=remote)
    ready = calls.copy("inputs_h2d", 1)
    for _ in range(kernels):
        calls.kernel("mlp_up", 0, wait=ready)
    calls.sync()
    work = table(CARD, [matmul(16, 4_096, 4_096)], [copy_bytes])
    return Filler(host, np.random.default_rng(1)).fill(calls.build(), work, np.zeros(0, dtype=np.int64), NONE,
                                                       host_factor, device_factor)


def test_calls_take_their_medians_and_spread_around_them() -> None:
    host = HostCosts(call_spread=0.2, gap_spread=0.4)
    program = some_program(host, 5_000)
    launch, gap = program.call_ns[1:-1], program.gap_ns[1:-1]
    assert np.median(launch) == pytest.approx(host.launch_ns, rel=0.02)
    assert np.log(launch).std() == pytest.approx(0.2, rel=0.05)
    assert np.median(gap) == pytest.approx(host.gap_ns, rel=0.03)
    assert (program.driver_ns[:-1] <= program.call_ns[:-1]).all()
    assert program.driver_ns[-1] == 0


def test_device_times_only_grow() -> None:
    quiet, noisy = some_program(), some_program(HostCosts(device_noise=0.05))
    growth = noisy.hbm_ns[1:-1] / quiet.hbm_ns[1:-1]
    assert growth.min() >= 1
    assert growth.mean() == pytest.approx(1 + 0.05 * np.sqrt(2 / np.pi), abs=0.005)
    assert (noisy.conflict == quiet.conflict).all()


def test_factors_stretch_one_side_each() -> None:
    base, slow_host, slow_device = some_program(), some_program(host_factor=1.5), some_program(device_factor=1.25)
    assert np.allclose(slow_host.call_ns, 1.5 * base.call_ns, atol=1)
    assert (slow_host.hbm_ns == base.hbm_ns).all()
    assert np.allclose(slow_device.hbm_ns, 1.25 * base.hbm_ns)
    assert (slow_device.call_ns == base.call_ns).all()


def test_pageable_copies_wait_while_the_host_moves_them() -> None:
    program = some_program(HostCosts(call_spread=0, pageable=True, pageable_bytes_per_s=6e9))
    assert program.call_ns[0] == 5_000 + 1_000_000
    assert program.flags[0] & (BLOCKING | PAGEABLE) == BLOCKING | PAGEABLE
    assert program.cause[0] == CODE["host_pageable"]
    assert program.api[0] == NAME["memcpyPageable"]
    assert some_program().flags[0] == 0
    assert some_program(remote=True).flags[0] == REMOTE_NUMA


def test_a_graph_is_launched_by_one_call() -> None:
    program = some_program(HostCosts(call_spread=0, gap_spread=0, graph=True), 50)
    launches = program.api[1:-1]
    assert launches[0] == NAME["launchGraph"]
    assert (launches[1:] == NONE).all()
    assert program.call_ns[1:-1].sum() == 12_000 + 49 * 100
    assert program.gap_ns[2:-1].sum() == 0


def test_taken_processor_time_is_charged_to_contention_and_changes_nothing_else() -> None:
    program = some_program(HostCosts(), 2_000)
    taken = contended(program, 1.5, 400_000, np.random.default_rng(2))
    extra = taken.cause == CODE["host_contention"]
    assert extra.any()
    assert (taken.kind[extra] == WORK).all()
    assert (taken.api[extra] == NONE).all()
    rest = Program(**{name: getattr(taken, name)[~extra] for name in Program.__slots__})
    place = np.cumsum(~extra) - 1  # of a call among those that were there before
    waits = np.where(rest.wait == NONE, NONE, place[rest.wait])
    assert equal(Program(**{name: waits if name == "wait" else getattr(rest, name) for name in Program.__slots__}),
                 program)


def test_contention_takes_its_share_in_the_mean() -> None:
    program = some_program(HostCosts(), 2_000)
    own = int((program.gap_ns + program.call_ns).sum())
    rng = np.random.default_rng(3)
    taken = [contended(program, 1.4, 300_000, rng) for _ in range(60)]
    wall = np.mean([(p.gap_ns + p.call_ns).sum() for p in taken])
    assert wall / own == pytest.approx(1.4, rel=0.03)


def test_impossible_costs_are_refused_with_their_key() -> None:
    with pytest.raises(UsageError, match="launch_ns"):
        HostCosts(launch_ns=-1)
    with pytest.raises(UsageError, match="driver_share"):
        HostCosts(driver_share=1.5)
    with pytest.raises(UsageError, match="pageable_bytes_per_s"):
        HostCosts(pageable_bytes_per_s=0)


def test_collectives_and_copies_state_their_payload() -> None:
    made = table(CARD, [], [1_000], [Message(1_500, 1_000, 4)])
    assert made.integers[0].tolist() == [1_000, 1_500, 0]
    assert made.integers[2].tolist() == [1_000, 1_000, NONE]
    assert made.times[6].tolist() == [CARD.dma_setup_ns, 4 * CARD.fabric_latency_ns, 0.0]


def test_kept_rows_change_no_table() -> None:
    """Rows lowered before, together with others, or after the memory was emptied, are those lowered alone."""
    lowerer = Lowerer(CARD)
    for size in (*range(64, 6_064), 64, 3_000, 6_063):
        kernels = [matmul(16, size, 64), matmul(16, 64, size)]
        made = lowerer.table(kernels, [10], likely=lambda: [matmul(16, 4_096, 64)] * 3)
        if size % 500 == 64 or size in (3_000, 6_063):
            alone = table(CARD, kernels, [10])
            assert np.array_equal(made.times, alone.times)
            assert np.array_equal(made.integers, alone.integers)
            assert np.array_equal(made.quantities, alone.quantities)
