"""What a replica does, judged in true time."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.clocks import NS
from simulator.model import link_bytes_per_s
from simulator.scenario import Scenario, load_scenario
from simulator.spans import NAME, TRACK, Spans
from simulator.workload import WARM_UP_NS, Produced, Replica

BUSY = ("serving", "pcie-bound", "host-bound")


def played(name: str, seconds: float = 2.0) -> tuple[Scenario, Produced]:
    scenario = load_scenario(name)
    return scenario, Replica(scenario, 5, 0, 1, round(seconds * NS)).advance(round(seconds * NS))


def on(spans: Spans, *tracks: str) -> Spans:
    return spans.take(np.isin(spans.track, [TRACK[track] for track in tracks]))


def covered_ns(spans: Spans) -> int:
    return int((spans.end - spans.start).sum())


@pytest.mark.parametrize("name", BUSY)
def test_device_work_never_starts_before_its_submission_has_ended(name: str) -> None:
    _, made = played(name)
    submissions = on(made.host, "driver")
    ended = dict(zip(submissions.correlation.tolist(), submissions.end.tolist(), strict=True))
    assert set(ended) == set(made.device.correlation.tolist())
    late = made.device.start - np.array([ended[c] for c in made.device.correlation.tolist()])
    assert late.min() >= 0


@pytest.mark.parametrize("name", BUSY)
def test_no_kernel_beats_the_roofline_and_no_transfer_beats_the_link(name: str) -> None:
    scenario, made = played(name)
    device = scenario.device
    for engine, peak in (("matrix", device.flops_per_s), ("vector", device.vector_flops_per_s)):
        kernels = on(made.device, f"engine:{engine}")
        limit_ns = np.maximum(kernels.flops / peak, kernels.bytes / device.memory_bytes_per_s) * 1e9
        assert len(kernels)
        assert (kernels.end - kernels.start >= limit_ns).all()
    copies = on(made.device, "pcie_h2d", "pcie_d2h")
    assert (copies.end - copies.start >= copies.bytes / link_bytes_per_s(scenario.link) * 1e9).all()


@pytest.mark.parametrize("name", BUSY)
def test_one_queue_does_one_thing_at_a_time(name: str) -> None:
    _, made = played(name)
    for tracks in (("engine:matrix", "engine:vector"), ("pcie_h2d",), ("pcie_d2h",)):
        queue = on(made.device, *tracks)
        order = np.argsort(queue.start, kind="stable")
        assert (queue.start[order][1:] >= queue.end[order][:-1]).all()


def test_work_that_waits_starts_after_what_it_waits_for() -> None:
    _, made = played("pcie-bound")
    end = dict(zip(made.device.correlation.tolist(), made.device.end.tolist(), strict=True))
    waiting = made.device.take(made.device.wait >= 0)
    steps = len(set(made.device.step.tolist()))
    assert len(waiting) == 3 * steps  # inputs, swapped cache, sampled tokens
    assert all(start >= end[wait] for start, wait in zip(waiting.start.tolist(), waiting.wait.tolist(), strict=True))


@pytest.mark.parametrize("name", BUSY)
def test_an_engine_step_covers_everything_done_for_it(name: str) -> None:
    _, made = played(name)
    steps = on(made.host, "cpu_thread")
    assert (np.diff(steps.step) == 1).all()
    assert (steps.start[1:] >= steps.end[:-1]).all()
    begin, end = (dict(zip(steps.step.tolist(), at.tolist(), strict=True)) for at in (steps.start, steps.end))
    for spans in (made.host, made.device):
        assert all(s >= begin[k] for s, k in zip(spans.start.tolist(), spans.step.tolist(), strict=True))
        assert all(e <= end[k] for e, k in zip(spans.end.tolist(), spans.step.tolist(), strict=True))


def test_decode_is_bound_by_memory_bandwidth_in_the_default_scenario() -> None:
    scenario, made = played("serving")
    kernels = on(made.device, "engine:matrix", "engine:vector")
    decode = kernels.take(kernels.request < 0)
    by_memory = decode.bytes / scenario.device.memory_bytes_per_s >= decode.flops / scenario.device.flops_per_s
    assert covered_ns(decode.take(by_memory)) > 0.9 * covered_ns(decode)
    assert decode.bytes.sum() / scenario.device.memory_bytes_per_s * 1e9 > 0.8 * covered_ns(decode)


def test_exposed_transfers_outweigh_kernels_in_the_pcie_bound_scenario() -> None:
    _, made = played("pcie-bound")
    assert covered_ns(on(made.device, "pcie_h2d")) > 1.5 * covered_ns(on(made.device, "engine:matrix", "engine:vector"))


def test_the_device_waits_for_submissions_in_the_host_bound_scenario() -> None:
    _, made = played("host-bound")
    kernels = on(made.device, "engine:matrix", "engine:vector")
    wall = int(kernels.end.max() - kernels.start.min())
    assert covered_ns(kernels) < 0.4 * wall


def test_a_replica_without_requests_does_nothing() -> None:
    scenario = load_scenario("idle").model_copy(update={"requests": load_scenario("idle").requests.model_copy(
        update={"per_s": 0.0})})
    made = Replica(scenario, 1, 0, 0, 10 * NS).advance(10 * NS)
    assert len(made.host) == len(made.device) == 0


def test_the_idle_scenario_works_and_waits() -> None:
    _, made = played("idle", 60.0)
    busy = covered_ns(on(made.host, "cpu_thread")) / (60 * NS)
    assert 0.01 < busy < 0.5


def test_nothing_starts_before_collection_is_up_or_after_the_end() -> None:
    _, made = played("serving")
    steps = made.host.take(made.host.name == NAME["engine.step"])
    assert steps.start.min() >= WARM_UP_NS
    assert steps.start.max() < 2 * NS


def test_advancing_in_chunks_gives_what_one_call_gives() -> None:
    scenario, whole = played("serving")
    replica = Replica(scenario, 5, 0, 1, 2 * NS)
    parts = [replica.advance(until) for until in range(100_000_000, 2 * NS + 1, 100_000_000)]
    for name in ("start", "end", "correlation", "bytes"):
        joined = np.concatenate([getattr(part.device, name) for part in parts])
        assert joined.tolist() == getattr(whole.device, name).tolist()
