from __future__ import annotations

import numpy as np
import pytest

from fleetscope.contracts.derived import STATE_NAMES
from simulator.history.profile import KERNEL, Profile, job_profile
from simulator.history.settings import Job
from simulator.machine import load_machine
from simulator.work.models import CHAT_8B, CHAT_70B, Transformer


def profile(model: Transformer, machine: str, **job: object) -> Profile:
    return job_profile(Job(**job), load_machine(machine), model)


def test_a_decode_step_of_few_sequences_takes_as_long_as_reading_the_weights() -> None:
    found = profile(CHAT_8B, "infer-24", prompt_tokens=1, output_tokens=2_048)
    machine = load_machine("infer-24")
    matrices = CHAT_8B.layers * CHAT_8B.layer_weights + CHAT_8B.vocab * CHAT_8B.hidden
    least_ns = matrices * 2 / (machine.hbm_bytes_per_s * machine.hbm_achievable) * 1e9
    assert 1.0 <= found.total_ns()[0] / least_ns < 1.05


def test_replicas_over_several_devices_are_faster_by_less_than_their_number() -> None:
    alone, eight = (profile(CHAT_8B, "h100-like", tensor_parallel=parts, call_ns=0, max_batch=1).total_ns()[0]
                    for parts in (1, 8))
    assert 1.5 < alone / eight < 8
    assert "all_reduce" in profile(CHAT_70B, "h100-like", tensor_parallel=8).operators


def test_a_larger_batch_serves_more_in_a_longer_step() -> None:
    found = profile(CHAT_8B, "infer-24", max_batch=64)
    assert found.buckets.tolist() == [1, 2, 4, 8, 16, 32, 64]
    assert (np.diff(found.total_ns()) > 0).all()
    assert (np.diff(found.buckets / found.total_ns()) > 0).all()


def test_long_prompts_make_matrix_products_compute_bound_and_short_ones_memory_bound() -> None:
    def state(prompt_tokens: int) -> str:
        found = profile(CHAT_8B, "infer-24", prompt_tokens=prompt_tokens, output_tokens=16)
        return STATE_NAMES[found.main_state[-1, found.operators.index("mlp_up")]]

    assert state(1) == "memory_bandwidth"
    assert state(4_096) == "compute"


def test_no_operator_is_charged_more_than_its_time_and_calls_match_the_layers() -> None:
    found = profile(CHAT_8B, "infer-24", swap_bytes=10_000_000)
    assert ((found.main_share > 0) & (found.main_share <= 1)).all()
    assert (found.step_ns > 0).all()
    kernels = found.calls[found.role == KERNEL].sum()
    assert kernels == 8 * CHAT_8B.layers + 4
    assert found.calls[found.launch] == kernels


def test_the_host_is_waited_for_only_where_launches_take_longer_than_kernels() -> None:
    cheap, dear = (profile(CHAT_8B, "infer-24", call_ns=call_ns).total_ns()[0] for call_ns in (0, 6_500))
    assert cheap == dear
    assert profile(CHAT_8B, "infer-24", call_ns=1_000_000).total_ns()[0] == pytest.approx(
        260 * 1e6, rel=0.01)
