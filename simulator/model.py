"""What the operators of a transformer cost: floating-point operations, memory traffic and time alone on the device.

Orders are fixed: `kernel_names` gives one name a kernel of a step, `kernel_work` the matching work.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from simulator.scenario import Device, Link, Model

Ints = NDArray[np.int64]

LAYER: Final = ("norm_attention", "qkv", "attention", "out_proj", "norm_mlp", "mlp_up", "activation", "mlp_down")
VECTOR: Final = frozenset({"embedding", "norm_attention", "norm_mlp", "activation", "final_norm", "sampling"})
"""Operators that run on the vector engine; the others run on the matrix engine."""


class Work(NamedTuple):
    """Work of the kernels of one step, one entry a kernel."""

    flops: Ints
    bytes: Ints


def kernel_names(model: Model) -> list[str]:
    """Kernels of one step in launch order: embedding, the layers, final norm, output head, sampling."""
    return ["embedding", *(LAYER * model.layers), "final_norm", "lm_head", "sampling"]


def matmul(tokens: int, inner: int, outer: int, model: Model) -> tuple[int, int]:
    """(flops, bytes) of tokens×inner times inner×outer: 2·t·k·n; weights once, activations in and out once."""
    traffic = inner * outer * model.weight_bytes + tokens * (inner + outer) * model.activation_bytes
    return 2 * tokens * inner * outer, traffic


def attention(queries: Sequence[int], contexts: Sequence[int], model: Model) -> tuple[int, int]:
    """(flops, bytes) over sequences of q new tokens with c tokens of context, the new ones included.

    Scores and weighted sum take 2·hidden each a (query, key) pair; a causal prefill (q = c) sees about half the pairs.
    Keys and values are read once, queries read and outputs written once.
    """
    flops = traffic = 0
    for q, c in zip(queries, contexts, strict=True):
        pairs = q * c - q * (q - 1) // 2
        flops += 4 * pairs * model.hidden
        traffic += (2 * c * model.kv_width + 2 * q * model.hidden) * model.activation_bytes
    return flops, traffic


def elementwise(tokens: int, width: int, reads_writes: int, flops_each: int, model: Model) -> tuple[int, int]:
    """(flops, bytes) of an operator that touches each element ``reads_writes`` times."""
    return flops_each * tokens * width, reads_writes * tokens * width * model.activation_bytes


def kernel_work(model: Model, queries: Sequence[int], contexts: Sequence[int]) -> Work:
    """Work of every kernel of one step, in the order of `kernel_names`."""
    tokens, sampled = sum(queries), len(queries)
    norm = elementwise(tokens, model.hidden, 2, 4, model)
    layer = (
        norm,
        matmul(tokens, model.hidden, model.hidden + 2 * model.kv_width, model),
        attention(queries, contexts, model),
        matmul(tokens, model.hidden, model.hidden, model),
        norm,
        matmul(tokens, model.hidden, 2 * model.ffn, model),
        elementwise(tokens, model.ffn, 3, 5, model),
        matmul(tokens, model.ffn, model.hidden, model),
    )
    first = elementwise(tokens, model.hidden, 2, 0, model)
    last = (elementwise(tokens, model.hidden, 2, 4, model), matmul(sampled, model.hidden, model.vocab, model),
            elementwise(sampled, model.vocab, 2, 6, model))
    table = np.array([first, *layer, *last], dtype=np.int64)
    order = np.concatenate([[0], np.tile(np.arange(1, 9), model.layers), [9, 10, 11]])
    return Work(table[order, 0], table[order, 1])


def kernel_ns(work: Work, on_vector: NDArray[np.bool_], device: Device, noise: NDArray[np.float64]) -> Ints:
    """Time of each kernel alone on the device: roofline at the device's efficiency, a fixed cost, noise ≥ 0 (share)."""
    peak = np.where(on_vector, device.vector_flops_per_s, device.flops_per_s) * device.flops_efficiency
    limit_s = np.maximum(work.flops / peak, work.bytes / (device.memory_bytes_per_s * device.memory_efficiency))
    return np.ceil(limit_s * 1e9 * (1 + noise)).astype(np.int64) + device.kernel_overhead_ns


def link_bytes_per_s(link: Link) -> float:
    """Payload a second the negotiated link carries: raw·encoding·(1 − 10 %)·MPS/(MPS + 24).

    Generation 6 sends FLITs, whose 236 of 256 bytes have link-layer overhead taken off already.
    """
    flit = link.speed_gt_s > 32
    encoding = 236 / 256 if flit else 128 / 130 if link.speed_gt_s > 5 else 0.8
    raw = link.speed_gt_s * 1e9 * link.width_lanes * encoding / 8
    return raw * (1.0 if flit else 0.9) * link.mps_bytes / (link.mps_bytes + 24)


def transfer_ns(sizes: Ints, link: Link, noise: NDArray[np.float64]) -> Ints:
    """Time of transfers of ``sizes`` bytes alone on the link."""
    return np.ceil(sizes / link_bytes_per_s(link) * 1e9 * (1 + noise)).astype(np.int64) + link.latency_ns
