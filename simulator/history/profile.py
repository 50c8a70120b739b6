"""What one step of a served model costs on a device, by batch: the physics of a history.

A step decodes one token of each of b sequences and, with chunked prefill, the b·prompt/output prompt tokens that keep b
sequences running. Work of an operator follows from the model's shapes (`simulator.work.transformer`), its times on each
resource from the machine (`simulator.physics.lower`); alone it takes fixed + (Σ t⁴)^¼ of them. The resource that takes
longest is charged its own time at its achievable peak, the rest is latency. Nothing contends and nothing overlaps:
copies and collectives are exposed, and the host is waited for where its launches take longer than the step's kernels.
"""

from __future__ import annotations

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
from simulator.work.operators import all_reduce_bytes, causal_pairs
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
    main_state: Ints
    """Shape (B, K): state of the share ``main_share``."""
    rest_state: Ints
    """Shape (B, K): state of the rest."""
    main_share: Floats
    """Shape (B, K), 0..1."""
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
    name: str
    role: int
    calls: int
    ns: float
    main_state: str
    rest_state: str
    main_share: float
    flops: int
    bytes: int


def job_profile(job: Job, machine: Machine, model: Transformer) -> Profile:
    """The profile of a job, one bucket a power of two up to its largest batch."""
    buckets = [1 << power for power in range(job.max_batch.bit_length())]
    table = [_step(job, machine, model, batch) for batch in buckets]
    first = table[0]

    def column(name: str, kind: type[np.generic]) -> NDArray[np.generic]:
        return np.array([[getattr(op, name) for op in row] for row in table], dtype=kind)

    calls = np.array([op.calls for op in first], dtype=np.int64)
    states = {name: np.array([[STATE[getattr(op, name)] for op in row] for row in table], dtype=np.int64)
              for name in ("main_state", "rest_state")}
    return Profile(
        tuple(op.name for op in first), np.array(buckets, dtype=np.int64), np.array([op.role for op in first]), calls,
        np.array([[op.ns * op.calls for op in row] for row in table]), states["main_state"], states["rest_state"],
        column("main_share", np.float64).astype(np.float64), column("flops", np.int64).astype(np.int64),
        column("bytes", np.int64).astype(np.int64), machine.launch_latency_ns)


def _step(job: Job, machine: Machine, model: Transformer, batch: int) -> list[_Operator]:
    kernels = _kernels(job, machine, model, batch)
    tokens = _tokens(job, batch)
    launches = sum(op.calls for op in kernels)
    found = [
        *kernels,
        *_collectives(job, machine, model, tokens),
        _transfer("inputs_h2d", "h2d", 8 * tokens, machine),
        _transfer("tokens_d2h", "d2h", 8 * batch, machine),
    ]
    if job.swap_bytes:
        found += [_transfer("kv_swap_in", "h2d", job.swap_bytes, machine),
                  _transfer("kv_swap_out", "d2h", job.swap_bytes, machine)]
    return [*found,
            _Operator("schedule", HOST, 1, float(job.scheduler_ns), "host", "host", 1.0, 0, 0),
            _Operator(LAUNCH, HOST, launches, float(job.call_ns), "host", "host", 1.0, 0, 0),
            _Operator("submit", HOST, 1, machine.launch_latency_ns, "launch_overhead", "launch_overhead", 1.0, 0, 0)]


def _tokens(job: Job, batch: int) -> int:
    """Tokens of a step: one of each sequence and its part of the next prompt."""
    return batch + round(batch * job.prompt_tokens / job.output_tokens)


def _kernels(job: Job, machine: Machine, model: Transformer, batch: int) -> list[_Operator]:
    """Times and binding resource of the kernels, each with the machine to itself."""
    low = lower(needs(costs(model, _group(job, batch), job.tensor_parallel), machine), machine)
    on_chip_ns = low.sram_ns * low.conflict
    resources = np.stack([low.matrix_ns, low.vector_ns, low.hbm_ns, on_chip_ns, low.noc_ns, low.spill_ns])
    total, longest = alone_ns(*resources, fixed_ns=low.fixed_ns), resources.max(axis=0)
    binding = resources.argmax(axis=0)
    return [_Operator(name, KERNEL, model.layers if name in _EVERY_LAYER else 1, float(total[row]),
                      _RESOURCE_STATES[binding[row]], "latency", float(longest[row] / total[row]), int(low.flops[row]),
                      int(low.bytes[row])) for row, name in enumerate(ROWS)]


def _group(job: Job, batch: int) -> Group:
    """A mean step: every sequence reads its mean context, and batch/output prompts are prefilled."""
    context, prompts = job.prompt_tokens + job.output_tokens / 2, batch / job.output_tokens
    pairs = batch * context + prompts * causal_pairs(job.prompt_tokens, job.prompt_tokens)
    keys = batch * context + prompts * job.prompt_tokens
    return Group(tokens=_tokens(job, batch), pairs=round(pairs), keys=round(keys), sampled=batch, sequences=batch)


def _collectives(job: Job, machine: Machine, model: Transformer, tokens: int) -> list[_Operator]:
    """Two ring all-reduces of the activations a layer."""
    parts = job.tensor_parallel
    if parts == 1:
        return []
    payload = tokens * model.hidden * model.activation_bytes
    rate = machine.fabric_bytes_per_s or link_of(machine).ceiling_bytes_per_s("h2d")
    network_ns = 1e9 * all_reduce_bytes(payload, parts) / rate
    total_ns = network_ns + ring_rounds(parts) * machine.fabric_latency_ns
    return [_Operator("all_reduce", COLLECTIVE, 2 * model.layers, total_ns, "collective_network", "collective_wait",
                      network_ns / total_ns, 0, payload)]


def _transfer(name: str, direction: Direction, payload: int, machine: Machine) -> _Operator:
    """α + s/β: the bytes at the link's ceiling, the rest is small transfers' set-up."""
    link = link_of(machine)
    bytes_ns = payload / link.ceiling_bytes_per_s(direction) * 1e9
    total_ns = bytes_ns + setup_ns(link, machine, direction)
    return _Operator(name, H2D if direction == "h2d" else D2H, 1, total_ns, f"pcie_{direction}", "pcie_small",
                     bytes_ns / total_ns, 0, payload)
