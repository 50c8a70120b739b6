"""What planners and the core make together, against formulas that know neither."""

from __future__ import annotations

from dataclasses import replace

import pytest

from simulator.machine import Machine
from simulator.physics.roofline import peak_flops_per_s, peak_hbm_bytes_per_s
from simulator.work.arrivals import ArrivalConfig, Lengths
from simulator.work.batcher import BatchConfig
from simulator.work.models import BLOCKS_1B, CHAT_8B, CHAT_70B, CHAT_70B_W4, Transformer
from simulator.work.plan import Seat
from simulator.work.queue import GatherConfig
from simulator.work.serving import ServingConfig, ServingPlanner
from simulator.work.training import TrainingConfig, TrainingPlanner
from simulator.work.vision import VisionConfig, VisionPlanner
from tests.unit.simulator.work.drive import PCIE_BYTES_PER_NS, drive
from tests.unit.simulator.work.seats import CARD, LARGE, QUIET

WIDE = LARGE.model_copy(update={"hbm_bytes": 192_000_000_000})
"""The large device with memory for a 70B-class model in 16 bit."""


def decoding(model: Transformer, machine: Machine, ranks: int, batch: int, context: int) -> tuple[float, float]:
    """(tokens a second, bytes of weights and cache that a step reads on one rank)."""
    config = ServingConfig(
        model=model, tensor_parallel=ranks, arrivals=ArrivalConfig(per_s=0), prompt=Lengths("fixed", context - 1_000),
        output=Lengths("fixed", 2_000), batch=BatchConfig(batch, running_at_start=batch))
    planner = ServingPlanner(config, (1,), [Seat(machine)] * ranks)
    keys = sum(request.cached for request in planner.batcher.running)
    ran = drive(planner, [machine] * ranks, 400_000_000)
    sizes = {plan.gauges.batch_size for plan in ran.plans}
    assert sizes == {batch}  # nothing ended or was preempted meanwhile
    seconds = (ran.end_ns - ran.plans[0].at_ns) / 1e9
    keys += batch * len(ran.plans) // 2  # mean over the steps
    weights = model.layers * model.layer_weights * model.weight_bytes + 2 * model.vocab * model.hidden
    return batch * len(ran.plans) / seconds, (weights + keys * model.kv_bytes_per_token) / ranks


@pytest.mark.parametrize(("batch", "context"), [(16, 1_500), (32, 2_000), (40, 2_200)])
def test_decode_of_a_70b_model_is_within_a_tenth_of_the_memory_bound(batch: int, context: int) -> None:
    """tokens/s = batch · bandwidth / (weights + key-value cache)."""
    tokens_per_s, read = decoding(CHAT_70B, WIDE, 1, batch, context)
    bound = batch * peak_hbm_bytes_per_s(WIDE) / read
    assert 0.9 * bound < tokens_per_s < bound


@pytest.mark.parametrize(("model", "ranks"), [(CHAT_70B_W4, 1), (CHAT_70B, 4)])
def test_short_steps_of_a_70b_model_add_starts_and_collectives_to_the_memory_bound(model: Transformer,
                                                                                   ranks: int) -> None:
    """Four bits a weight, or four devices: what does not shrink with the bytes shows.

    A step = bytes/bandwidth + kernels · start + all-reduces · (latency + bytes/fabric) + scheduling.
    """
    batch, kernels = 32, model.layers * 8 + 4
    tokens_per_s, read = decoding(model, LARGE, ranks, batch, 1_500)
    memory_s = read / peak_hbm_bytes_per_s(LARGE)
    reduces = 0 if ranks == 1 else 2 * model.layers
    hidden_bytes = batch * model.hidden * 2
    each_s = 4 * LARGE.fabric_latency_ns / 1e9 + 2 * (ranks - 1) / ranks * hidden_bytes / LARGE.fabric_bytes_per_s
    step_s = memory_s + kernels * LARGE.kernel_fixed_ns / 1e9 + reduces * each_s + 0.0003
    assert tokens_per_s < batch / memory_s
    assert 0.9 < tokens_per_s * step_s / batch < 1.02


def test_training_reaches_the_share_of_the_matrix_peak_that_its_vector_work_leaves() -> None:
    config = TrainingConfig(model=replace(BLOCKS_1B, layers=6), sequences=8)
    ran = drive(TrainingPlanner(config, (1,), [Seat(LARGE)]), [LARGE], 300_000_000)
    tokens = config.sequences * config.tokens
    m = config.model
    flops = 6 * tokens * (m.layers * m.layer_weights + m.vocab * m.hidden)
    seconds = (ran.end_ns - ran.plans[0].at_ns) / 1e9 / len(ran.plans)
    used = flops / seconds / peak_flops_per_s(LARGE, "matrix")
    assert 0.5 < used < 1
    assert ran.cause_ns["compute_matrix"] > 2 * ran.cause_ns["host_launch"]


def test_a_straggler_makes_its_peers_wait_in_collectives() -> None:
    config = TrainingConfig(model=replace(BLOCKS_1B, layers=4), ranks=2)
    even = drive(TrainingPlanner(config, (1,), [Seat(LARGE)] * 2), [LARGE] * 2, 250_000_000)
    odd = drive(TrainingPlanner(config, (1,), [Seat(LARGE), Seat(LARGE, device_factor=1.3)]), [LARGE] * 2, 250_000_000)
    assert odd.cause_ns["collective_wait"] > 5 * even.cause_ns["collective_wait"]
    steps = [(ran.end_ns - ran.plans[0].at_ns) / len(ran.plans) for ran in (even, odd)]
    assert steps[1] / steps[0] == pytest.approx(1.3, abs=0.08)


def test_ranks_of_a_replica_end_their_steps_together() -> None:
    config = ServingConfig(model=replace(CHAT_8B, layers=6), tensor_parallel=2, pipeline_stages=2,
                           arrivals=ArrivalConfig(per_s=0), batch=BatchConfig(8, running_at_start=8))
    ran = drive(ServingPlanner(config, (1,), [Seat(LARGE)] * 4), [LARGE] * 4, 100_000_000)
    ends = {}
    for spans in ran.device:
        for rank in range(4):
            ends.setdefault(rank, []).append(int(spans.end[spans.rank == rank].max()))
    spread = max(max(at) - min(at) for at in zip(*ends.values(), strict=True))
    assert spread < 50_000
    assert ran.cause_ns["collective_wait"] > 0  # stages wait for each other


def test_a_slow_host_starves_a_vision_model() -> None:
    """Each batch takes what decoding takes on the processor, when that is longer than the device's work."""
    config = VisionConfig(workers=1, batch=GatherConfig(16))
    ran = drive(VisionPlanner(config, (1,), [Seat(CARD, QUIET)]), [CARD], 400_000_000)
    step_ns = (ran.end_ns - ran.plans[0].at_ns) / len(ran.plans)
    assert 16 * 1_600_000 < step_ns < 1.15 * 16 * 1_600_000
    assert max(ran.cause_ns, key=lambda cause: ran.cause_ns[cause] * (cause != "no_demand")) == "host_input"


def test_pages_on_the_host_bound_decoding_by_the_link() -> None:
    """All but 300 MB of the cache crosses the link in every step."""
    config = ServingConfig(
        model=replace(CHAT_8B, layers=8), arrivals=ArrivalConfig(per_s=0), prompt=Lengths("fixed", 4_000),
        output=Lengths("fixed", 400), kv_budget_bytes=300_000_000,
        batch=BatchConfig(16, kv="stream", running_at_start=16))
    ran = drive(ServingPlanner(config, (1,), [Seat(LARGE)]), [LARGE], 400_000_000)
    step_ns = (ran.end_ns - ran.plans[0].at_ns) / len(ran.plans)
    streamed = 16 * 4_200 * config.model.kv_bytes_per_token - 300_000_000
    assert streamed / step_ns == pytest.approx(PCIE_BYTES_PER_NS, rel=0.1)
    assert ran.cause_ns["pcie_h2d_bandwidth"] > 0.4 * sum(ran.cause_ns.values())
