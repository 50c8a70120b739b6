"""LLM serving with continuous batching on one device: requests, engine steps and the spans they leave, in true time.

A step is either the prefill of one waiting request or one decode of all running ones. The host launches every kernel of
a step without waiting, then waits for the sampled tokens. Kernels run in order on one queue, copies on one queue a
direction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from simulator.clocks import NS, Ints
from simulator.model import VECTOR, kernel_names, kernel_ns, kernel_work, transfer_ns
from simulator.scenario import Scenario
from simulator.spans import NAME, STREAM, TRACK, Spans, concat, make, request_code

WARM_UP_NS: Final = 50_000_000
"""No work before this: collection is up first."""
_COMPLETION_NS: Final = 3_000
_INPUT_BYTES_PER_TOKEN: Final = 4_096
_OUTPUT_BYTES_PER_SEQUENCE: Final = 1_024


def serve(ready: Ints, durations: Ints, free_ns: int) -> Ints:
    """Start times on a queue that serves in order: start_i = max(ready_i, end_{i−1}), the first not before ``free_ns``.

    start_i = max over j ≤ i of (max(ready_j, free) + durations from j to i−1), hence one running maximum.
    """
    before = np.cumsum(durations) - durations
    return np.asarray(np.maximum.accumulate(np.maximum(ready, free_ns) - before) + before)


@dataclass(slots=True)
class _Sequence:
    number: int
    context: int
    remaining: int


@dataclass(frozen=True, slots=True)
class Produced:
    """Spans that began in a chunk: ``host`` on the host's clock, ``device`` on the device's."""

    host: Spans
    device: Spans


class _Plan:
    """What is the same in every step of a scenario: the calls in order and the span columns they give."""

    def __init__(self, scenario: Scenario) -> None:
        names = kernel_names(scenario.model)
        swap = scenario.swap
        self.swap_in = swap.copies if swap.h2d_bytes else 0
        self.swap_out = swap.copies if swap.d2h_bytes else 0
        self.kernels = len(names)
        self.vector = np.array([name in VECTOR for name in names])
        self.first_kernel = 1 + self.swap_in + self.swap_out
        self.attention = self.first_kernel + names.index("attention")
        self.calls = self.first_kernel + self.kernels + 1
        inbound, outbound = ["inputs_h2d"] + ["kv_swap_in"] * self.swap_in, ["kv_swap_out"] * self.swap_out
        self.name = np.array([NAME[n] for n in (*inbound, *outbound, *names, "tokens_d2h")])
        engines = ["engine:vector" if v else "engine:matrix" for v in self.vector]
        self.track = np.array([TRACK[t] for t in (*["pcie_h2d"] * len(inbound), *["pcie_d2h"] * len(outbound),
                                                  *engines, "pcie_d2h")])
        self.stream = np.array([STREAM[s] for s in (*["copy"] * len(inbound), *["copy_back"] * len(outbound),
                                                    *["compute"] * self.kernels, "copy_back")])
        is_copy = self.stream != STREAM["compute"]
        self.api = np.append(np.where(is_copy, NAME["memcpyAsync"], NAME["launchKernel"]), NAME["synchronize"])
        self.swap_sizes = np.concatenate([_split(swap.h2d_bytes, self.swap_in), _split(swap.d2h_bytes, self.swap_out)])


def _split(total: int, parts: int) -> Ints:
    edges = np.arange(parts + 1, dtype=np.int64) * total // max(parts, 1)
    return np.diff(edges)


class Replica:
    """One data-parallel replica. ``advance`` makes every step that begins before a time, in order."""

    def __init__(self, scenario: Scenario, seed: int, host: int, rank: int, end_ns: int) -> None:
        self._scenario = scenario
        self._plan = _Plan(scenario)
        self._rng = np.random.default_rng([seed, 2, host, rank])
        self._rank = rank
        self._end_ns = end_ns
        self._next_ns = WARM_UP_NS + rank * 2_000_000
        self._step = self._correlation = self._requests = 0
        self._compute_free = self._copy_free = self._back_free = 0
        self._waiting: deque[_Sequence] = deque()
        self._running: list[_Sequence] = []
        self._arrival_ns = self._gap_ns()
        for _ in range(min(scenario.requests.running_at_start, scenario.requests.max_batch)):
            sequence = self._request()
            done = int(self._rng.integers(0, sequence.remaining))
            self._running.append(_Sequence(sequence.number, sequence.context + done, sequence.remaining - done))
        self.demand: list[tuple[int, int, int]] = [(0, len(self._running), 0)]
        """(time, requests running, requests waiting) as each step began; the reader clears what it has used."""

    def advance(self, until_ns: int) -> Produced:
        """Spans of all steps that begin before ``until_ns`` and before the workload's end."""
        until_ns = min(until_ns, self._end_ns)
        host: list[Spans] = []
        device: list[Spans] = []
        while self._next_ns < until_ns:
            self._admit()
            if not self._running and not self._waiting:
                self._idle()
                continue
            made = self._one_step()
            host.append(made.host)
            device.append(made.device)
        return Produced(concat(host), concat(device))

    # Requests

    def _gap_ns(self) -> int:
        per_s = self._scenario.requests.per_s
        return int(self._rng.exponential(NS / per_s)) + 1 if per_s else 1 << 62

    def _request(self) -> _Sequence:
        requests = self._scenario.requests
        prompt = max(1, int(self._rng.gamma(4.0, requests.prompt_tokens / 4.0)))
        output = int(self._rng.geometric(1 / requests.output_tokens))
        self._requests += 1
        return _Sequence(self._requests, prompt, output)

    def _admit(self) -> None:
        while self._arrival_ns <= self._next_ns:
            self._waiting.append(self._request())
            self._arrival_ns += self._gap_ns()

    def _idle(self) -> None:
        self.demand.append((self._next_ns, 0, 0))
        self._next_ns = min(self._arrival_ns, self._end_ns)

    def _choose(self) -> tuple[list[int], list[int], int]:
        """New tokens and context of each sequence of the next step, and the request prefilled (−1: a decode)."""
        if self._waiting and len(self._running) < self._scenario.requests.max_batch:
            sequence = self._waiting.popleft()
            self._running.append(sequence)
            return [sequence.context], [sequence.context], request_code(self._rank, sequence.number)
        for sequence in self._running:
            sequence.context += 1
            sequence.remaining -= 1
        contexts = [sequence.context for sequence in self._running]
        self._running = [sequence for sequence in self._running if sequence.remaining > 0]
        return [1] * len(contexts), contexts, -1

    # One engine step

    def _one_step(self) -> Produced:
        begin = self._next_ns
        self.demand.append((begin, len(self._running), len(self._waiting)))
        queries, contexts, request = self._choose()
        called, returned = self._calls(begin + self._noisy(self._scenario.host.scheduler_ns))
        submit_start, submit_end = called + (returned - called) // 4, returned - (returned - called) // 6
        start, end, sizes, flops = self._device(submit_end, queries, contexts)
        sync_start = int(returned[-1]) + self._scenario.host.call_gap_ns
        sync_end = max(sync_start + 2_000, int(end[-1]) + _COMPLETION_NS)
        step_end = sync_end + 20_000
        ids = np.arange(self._correlation, self._correlation + self._plan.calls, dtype=np.int64)
        calls = self._plan.calls
        common = {"step": self._step, "request": request, "rank": self._rank}
        host = make(
            2 * calls + 2, **common,
            start=np.concatenate([[begin], called, [sync_start], submit_start]),
            end=np.concatenate([[step_end], returned, [sync_end], submit_end]),
            name=np.concatenate([[NAME["engine.step"]], self._plan.api, np.full(calls, NAME["submit"])]),
            track=np.repeat([TRACK["cpu_thread"], TRACK["host_api"], TRACK["driver"]], [1, calls + 1, calls]),
            correlation=np.concatenate([[-1], ids, [-1], ids]),
        )
        device = make(calls, **common, start=start, end=end, name=self._plan.name, track=self._plan.track,
                      stream=self._plan.stream, correlation=ids, wait=self._waits(ids), bytes=sizes, flops=flops)
        self._correlation += calls
        self._step += 1
        self._next_ns = step_end + 5_000
        return Produced(host, device)

    def _noisy(self, median_ns: int) -> int:
        return int(median_ns * np.exp(0.1 * self._rng.standard_normal()))

    def _calls(self, begin_ns: int) -> tuple[Ints, Ints]:
        """Start and end of every API call of a step, one after the other on one thread."""
        host = self._scenario.host
        noise = self._rng.standard_normal((2, self._plan.calls))
        lengths = (host.launch_ns * np.exp(0.2 * noise[0])).astype(np.int64) + 12
        gaps = (host.call_gap_ns * np.exp(0.4 * noise[1])).astype(np.int64)
        ends = begin_ns + np.cumsum(lengths + gaps)
        return ends - lengths, ends

    def _device(self, submitted: Ints, queries: Sequence[int], contexts: Sequence[int]) \
            -> tuple[Ints, Ints, Ints, Ints]:
        """Start, end, bytes and flops of everything the device does in a step, in the order of the calls."""
        plan, scenario = self._plan, self._scenario
        work = kernel_work(scenario.model, queries, contexts)
        inputs = np.array([sum(queries) * _INPUT_BYTES_PER_TOKEN])
        outputs = np.array([len(queries) * _OUTPUT_BYTES_PER_SEQUENCE])
        sizes = np.concatenate([inputs, plan.swap_sizes, work.bytes, outputs])
        noise = np.abs(0.01 * self._rng.standard_normal(plan.calls))
        kernels = slice(plan.first_kernel, plan.first_kernel + plan.kernels)
        durations = transfer_ns(sizes, scenario.link, noise)
        durations[kernels] = kernel_ns(work, plan.vector, scenario.device, noise[kernels])
        latency = scenario.host.launch_latency_ns
        ready = submitted + latency + (latency * 0.2 * self._rng.random(plan.calls)).astype(np.int64)
        start = np.empty(plan.calls, dtype=np.int64)
        self._queues(start, ready, durations, kernels)
        flops = np.full(plan.calls, -1, dtype=np.int64)
        flops[kernels] = work.flops
        return start, start + durations, sizes, flops

    def _queues(self, start: Ints, ready: Ints, durations: Ints, kernels: slice) -> None:
        """Fill ``start``: copies in, copies out, kernels (they wait for copies in), the output (it waits for all)."""
        plan = self._plan
        inbound, outbound = slice(0, 1 + plan.swap_in), slice(1 + plan.swap_in, plan.first_kernel)
        start[inbound] = serve(ready[inbound], durations[inbound], self._copy_free)
        self._copy_free = int(start[inbound][-1] + durations[inbound][-1])
        if plan.swap_out:
            start[outbound] = serve(ready[outbound], durations[outbound], self._back_free)
            self._back_free = int(start[outbound][-1] + durations[outbound][-1])
        ready[kernels.start] = max(int(ready[kernels.start]), int(start[0] + durations[0]))
        if plan.swap_in:
            ready[plan.attention] = max(int(ready[plan.attention]), self._copy_free)
        start[kernels] = serve(ready[kernels], durations[kernels], self._compute_free)
        self._compute_free = int(start[kernels][-1] + durations[kernels][-1])
        start[-1] = max(int(ready[-1]), self._compute_free, self._back_free)
        self._back_free = int(start[-1] + durations[-1])

    def _waits(self, ids: Ints) -> Ints:
        plan = self._plan
        waits = np.full(len(ids), -1, dtype=np.int64)
        waits[plan.first_kernel] = ids[0]
        if plan.swap_in:
            waits[plan.attention] = ids[plan.swap_in]
        waits[-1] = ids[-2]
        return waits
