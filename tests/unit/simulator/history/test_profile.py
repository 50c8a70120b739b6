from __future__ import annotations

import numpy as np
import pytest

from fleetscope.contracts.derived import STATE_NAMES
from simulator.causes import STATE_OF
from simulator.history.profile import KERNEL, Profile, job_profile
from simulator.history.settings import Job
from simulator.machine import load_machine
from simulator.work.arrivals import ArrivalConfig, Lengths
from simulator.work.batcher import BatchConfig
from simulator.work.models import CHAT_8B, CHAT_70B, TRANSFORMERS, Transformer
from simulator.work.plan import WARM_UP_NS, Seat
from simulator.work.serving import ServingConfig, ServingPlanner
from tests.unit.simulator.work.drive import drive


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
        return STATE_NAMES[found.states[-1, found.operators.index("mlp_up"), 0]]

    assert state(1) == "memory_bandwidth"
    assert state(4_096) == "compute"


def test_no_operator_is_charged_more_than_its_time_and_calls_match_the_layers() -> None:
    found = profile(CHAT_8B, "infer-24", swap_bytes=10_000_000)
    assert (found.shares >= 0).all()
    assert (found.shares.sum(axis=-1) < 1 + 1e-12).all()
    assert (found.step_ns > 0).all()
    kernels = found.calls[found.role == KERNEL].sum()
    assert kernels == 8 * CHAT_8B.layers + 4
    assert found.calls[found.launch] == kernels


def test_the_host_is_waited_for_only_where_launches_take_longer_than_kernels() -> None:
    cheap, dear = (profile(CHAT_8B, "infer-24", call_ns=call_ns).total_ns()[0] for call_ns in (0, 6_500))
    assert cheap == dear
    assert profile(CHAT_8B, "infer-24", call_ns=1_000_000).total_ns()[0] == pytest.approx(
        260 * 1e6, rel=0.01)


@pytest.mark.parametrize(("model", "machine", "parts", "batch", "prompt", "output", "seconds"), [
    ("chat-8b", "infer-24", 1, 16, 512, 128, 15), ("chat-70b", "h100-like", 8, 16, 256, 32, 2),
    ("chat-1b", "edge-8", 1, 8, 256, 64, 10),
])
def test_shares_and_length_of_a_step_agree_with_the_simulator_that_runs_every_call(
        model: str, machine: str, parts: int, batch: int, prompt: int, output: int, seconds: int) -> None:
    shape, device = TRANSFORMERS[model], load_machine(machine)
    config = ServingConfig(
        model=shape, tensor_parallel=parts, prompt=Lengths("fixed", prompt), output=Lengths("fixed", output),
        batch=BatchConfig(max_batch=batch, prefill="chunked", running_at_start=batch),
        arrivals=ArrivalConfig(kind="closed", users=batch, think_s=1e-6))
    ran = drive(ServingPlanner(config, (1,), [Seat(device)] * parts), [device] * parts, seconds * 10**9)
    found = profile(shape, machine, tensor_parallel=parts, max_batch=batch, prompt_tokens=prompt, output_tokens=output)
    assert found.total_ns()[-1] == pytest.approx((ran.end_ns - WARM_UP_NS) / len(ran.plans), rel=0.08)
    charged = dict.fromkeys(STATE_NAMES, 0)
    for cause, ns in ran.cause_ns.items():
        charged[STATE_OF[cause]] += ns
    charged["no_demand"] = 0  # before the start; users that do not think leave no gap
    expected = shares(found)
    for state in STATE_NAMES:
        assert expected[state] == pytest.approx(charged[state] / sum(charged.values()), abs=0.04), state


def shares(found: Profile) -> dict[str, float]:
    """Share of a step of the largest batch by state."""
    step = found.step_ns[-1].copy()
    step[found.launch] = max(0.0, step[found.launch] - step[found.role == KERNEL].sum())
    total = dict.fromkeys(STATE_NAMES, 0.0)
    for k, (first, second) in enumerate(found.shares[-1]):
        for state, share in zip(found.states[-1, k], (first, second, 1 - first - second), strict=True):
            total[STATE_NAMES[state]] += share * step[k] / step.sum()
    return total
