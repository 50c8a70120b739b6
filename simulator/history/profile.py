"""What one step of a served model costs on a device, by batch: the physics of a history.

A step decodes one token of each of b sequences; some steps also take in a prompt, or a chunk of one, as often as keeps
b sequences running (chunked prefill). A profile is the mean of both kinds of steps. Work of an operator follows from
the model's shapes (`simulator.work.transformer`), its times on each resource from the machine
(`simulator.physics.lower`); alone it takes fixed + (Σ t⁴)^¼ of them. The resource that takes longest is charged its own
time at its achievable peak, the rest is latency. Nothing contends and nothing overlaps: copies and collectives are
exposed, and the host is waited for where its launches take longer than the step's kernels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fleetscope.contracts.derived import STATE_NAMES
from simulator.history.settings import Job
from simulator.machine import Machine
from simulator.physics.lower import lower
from simulator.physics.pcie import Direction, link_of, setup_ns
from simulator.physics.roofline import alone_ns
from simulator.work.batcher import Group
from simulator.work.models import Transformer
from simulator.work.operators import all_reduce_bytes
from simulator.work.serving import INPUT_BYTES_PER_TOKEN, OUTPUT_BYTES_PER_SEQUENCE
from simulator.work.table import needs, ring_rounds
from simulator.work.transformer import ROWS, costs

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

KERNEL: Final = 0
H2D: Final = 1
D2H: Final = 2
COLLECTIVE: Final = 3
HOST: Final = 4
ROLES: Final = ("kernel", "h2d", "d2h", "collective", "host")

LAUNCH: Final = "launchKernel"
"""Host time of all launches of a step; the device waits for what its kernels do not cover."""

STATE: Final = {name: code for code, name in enumerate(STATE_NAMES)}
TOKEN_BUDGET: Final = 2_048
"""New tokens of a step at most."""

_STATES_EACH: Final = 3
"""Two kinds of steps, each with one binding resource, and latency."""
_EVERY_LAYER: Final = frozenset({"norm_attention", "qkv_proj", "attention", "out_proj", "norm_mlp", "mlp_up",
                                "activation", "mlp_down"})
_RESOURCE_STATES: Final = ("compute", "compute", "memory_bandwidth", "on_chip_memory", "interconnect", "spill")


@dataclass(frozen=True, slots=True)
class Profile:
    """One job's step by batch bucket (B) and operator (K). Times are nominal: no noise, no effect."""

    operators: tuple[str, ...]
    buckets: Ints
    """Shape (B,): sequences in a step, powers of two."""
    role: Ints
    """Shape (K,): index into ROLES."""
    calls: Ints
    """Shape (K,): calls a step."""
    step_ns: Floats
    """Shape (B, K): time of all calls of a step; of LAUNCH the host's time, whether covered or not."""
    states: Ints
    """Shape (B, K, 3): states that the time is charged to."""
    shares: Floats
    """Shape (B, K, 2): shares of the first two of them, 0..1; the third takes the rest."""
    call_cv2: Floats
    """Shape (B, K): variance of the calls of steps with and without prefill, over the mean's square."""
    call_flops: Ints
    """Shape (B, K): flop a call."""
    call_bytes: Ints
    """Shape (B, K): device memory traffic of a kernel's call, payload of a transfer's [B]."""
    launch_latency_ns: float

    @property
    def launch(self) -> int:
        """Index of LAUNCH."""
        return self.operators.index(LAUNCH)

    def total_ns(self) -> Floats:
        """Nominal length of a step, shape (B,)."""
        kernels = self.step_ns[:, self.role == KERNEL].sum(axis=1)
        others = self.step_ns.sum(axis=1) - kernels - self.step_ns[:, self.launch]
        return np.asarray(kernels + others + np.maximum(self.step_ns[:, self.launch] - kernels, 0.0))


@dataclass(frozen=True, slots=True)
class _Operator:
    """One operator of one step: the time of a call by state [ns], and what it works on."""

    name: str
    role: int
    calls: int
    parts_ns: dict[str, float]
    flops: float = 0.0
    bytes: float = 0.0

    @property
    def ns(self) -> float:
        """Time of a call."""
        return sum(self.parts_ns.values())


@dataclass(frozen=True, slots=True)
class _Step:
    """What a step computes: one token of ``batch`` sequences, and ``prompt`` tokens of prompts in ``chunks``."""

    batch: int
    prompt: float = 0.0
    chunks: float = 0.0
    finished: float = 0.0
    """Prompts that end in the step, and give a token."""


def job_profile(job: Job, machine: Machine, model: Transformer) -> Profile:
    """The profile of a job, one bucket a power of two up to its largest batch."""
    buckets = [1 << power for power in range(job.max_batch.bit_length())]
    mixes = [_mix(job, batch) for batch in buckets]
    steps = [[(share, _operators(job, machine, model, step)) for share, step in mix] for mix in mixes]
    first = steps[0][0][1]
    shape = (len(buckets), len(first))
    step_ns, cv2, flops, moved = (np.zeros(shape) for _ in range(4))
    states, shares = np.zeros((*shape, _STATES_EACH), dtype=np.int64), np.zeros((*shape, _STATES_EACH - 1))
    for row, mix in enumerate(steps):
        for k, op in enumerate(first):
            same = [(share, operators[k]) for share, operators in mix]
            mean = sum(share * each.ns for share, each in same)
            step_ns[row, k] = op.calls * mean
            cv2[row, k] = sum(share * (each.ns - mean) ** 2 for share, each in same) / mean ** 2 if mean else 0.0
            flops[row, k] = sum(share * each.flops for share, each in same)
            moved[row, k] = sum(share * each.bytes for share, each in same)
            states[row, k], shares[row, k] = _charged(same)
    return Profile(
        tuple(op.name for op in first), np.array(buckets, dtype=np.int64),
        np.array([op.role for op in first], dtype=np.int64), np.array([op.calls for op in first], dtype=np.int64),
        step_ns, states, shares, cv2, np.rint(flops).astype(np.int64), np.rint(moved).astype(np.int64),
        machine.launch_latency_ns)


def _mix(job: Job, batch: int) -> list[tuple[float, _Step]]:
    """(share, step) of the steps that keep ``batch`` sequences running: some take in a prompt, or a chunk of one.

    A sequence lives for the steps of its prompt, the last of which gives its first token, and one a further token.
    """
    chunk = max(1, min(job.prompt_tokens, TOKEN_BUDGET - batch))
    prompts = batch / (job.output_tokens - 1 + math.ceil(job.prompt_tokens / chunk))
    tokens = prompts * job.prompt_tokens
    share = min(1.0, tokens / chunk)
    filling = _Step(batch, tokens / share, tokens / share / chunk, prompts / share)
    return [(share, filling)] if share == 1.0 else [(share, filling), (1.0 - share, _Step(batch))]


def _charged(same: list[tuple[float, _Operator]]) -> tuple[list[int], list[float]]:
    """States by falling share, three of them, and the shares of the first two."""
    total: dict[str, float] = {}
    for share, op in same:
        for state, ns in op.parts_ns.items():
            total[state] = total.get(state, 0.0) + share * ns
    ordered = sorted(total, key=lambda state: (-total[state], STATE[state]))
    if len(ordered) > _STATES_EACH:
        raise ValueError(f"{same[0][1].name} is charged to {len(ordered)} states, at most {_STATES_EACH}")
    whole = sum(total.values())
    shares = [total[state] / whole if whole else 0.0 for state in ordered]
    codes = [STATE[state] for state in ordered]
    missing = _STATES_EACH - len(ordered)
    return codes + codes[-1:] * missing, (shares + [0.0] * missing)[:_STATES_EACH - 1]


def _operators(job: Job, machine: Machine, model: Transformer, step: _Step) -> list[_Operator]:
    """Everything in a step; the same operators whatever the step."""
    kernels = _kernels(job, machine, model, step)
    tokens, sampled = step.batch + step.prompt, step.batch + step.finished
    found = [*kernels, *_collectives(job, machine, model, tokens),
             _transfer("inputs_h2d", "h2d", INPUT_BYTES_PER_TOKEN * tokens, machine),
             _transfer("tokens_d2h", "d2h", OUTPUT_BYTES_PER_SEQUENCE * sampled, machine)]
    if job.swap_bytes:
        found += [_transfer("kv_swap_in", "h2d", job.swap_bytes, machine),
                  _transfer("kv_swap_out", "d2h", job.swap_bytes, machine)]
    launches = sum(op.calls for op in kernels)
    return [*found, _Operator("schedule", HOST, 1, {"host": float(job.scheduler_ns)}),
            _Operator(LAUNCH, HOST, launches, {"host": float(job.call_ns)}),
            _Operator("submit", HOST, 1, {"launch_overhead": machine.launch_latency_ns})]


def _kernels(job: Job, machine: Machine, model: Transformer, step: _Step) -> list[_Operator]:
    """Times and binding resource of the kernels, each with the machine to itself."""
    low = lower(needs(costs(model, _group(job, step), job.tensor_parallel), machine), machine)
    on_chip_ns = low.sram_ns * low.conflict
    resources = np.stack([low.matrix_ns, low.vector_ns, low.hbm_ns, on_chip_ns, low.noc_ns, low.spill_ns])
    total, longest = alone_ns(*resources, fixed_ns=low.fixed_ns), resources.max(axis=0)
    binding = resources.argmax(axis=0)
    return [_Operator(name, KERNEL, model.layers if name in _EVERY_LAYER else 1,
                      {_RESOURCE_STATES[binding[row]]: float(longest[row]),
                       "latency": float(total[row] - longest[row])}, float(low.flops[row]), float(low.bytes[row]))
            for row, name in enumerate(ROWS)]


def _group(job: Job, step: _Step) -> Group:
    """Decoding sequences read their mean context; tokens of a prompt see half of it, a chunk reads what is there."""
    context = job.prompt_tokens + job.output_tokens / 2
    chunk = step.prompt / step.chunks if step.chunks else 0.0
    pairs = step.batch * context + step.prompt * (job.prompt_tokens + 1) / 2
    keys = step.batch * context + step.chunks * (job.prompt_tokens + chunk) / 2
    return Group(tokens=step.batch + round(step.prompt), pairs=round(pairs), keys=round(keys),
                 sampled=step.batch + round(step.finished), sequences=step.batch + round(step.chunks))


def _collectives(job: Job, machine: Machine, model: Transformer, tokens: float) -> list[_Operator]:
    """Two all-reduces of the activations a layer; all parts arrive at once."""
    parts = job.tensor_parallel
    if parts == 1:
        return []
    payload = round(tokens) * model.hidden * model.activation_bytes
    rate = machine.fabric_bytes_per_s or link_of(machine).ceiling_bytes_per_s("h2d")
    total_ns = 1e9 * all_reduce_bytes(payload, parts) / rate + ring_rounds(parts) * machine.fabric_latency_ns
    return [_Operator("all_reduce", COLLECTIVE, 2 * model.layers, {"collective_network": total_ns}, bytes=payload)]


def _transfer(name: str, direction: Direction, payload: float, machine: Machine) -> _Operator:
    """α + s/β: the bytes at the link's ceiling, the rest is small transfers' set-up."""
    link = link_of(machine)
    parts_ns = {f"pcie_{direction}": payload / link.ceiling_bytes_per_s(direction) * 1e9,
                "pcie_small": setup_ns(link, machine, direction)}
    return _Operator(name, H2D if direction == "h2d" else D2H, 1, parts_ns, bytes=payload)
