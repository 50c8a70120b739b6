"""What operators cost, from shapes: flops, bytes read and written in device memory, working set, access pattern.

Flops count a multiplication and an addition as two. Bytes are those an operator needs when it reads each input once and
writes each output once (fused attention keeps scores on chip: Dao et al., 2022).
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from simulator.work.models import Convolution

TILE: Final = 512
"""Side of the tile of a matrix product that on-chip memory serves at once: several blocks share what they load."""
STAGE: Final = 64
"""Depth of the input tiles that are on chip at once."""
KV_BLOCK_TOKENS: Final = 16
"""Tokens of a page of the key-value cache."""
_ROW_BUFFER: Final = 16_384


class Cost(NamedTuple):
    """Work of one operator. The last shape is that of its matrix products, for padding to the engine's tiles; 0:
    none."""

    matrix_flops: int
    vector_flops: int
    read_bytes: int
    write_bytes: int
    working_set_bytes: int = _ROW_BUFFER
    """What has to stay on chip while it runs: tiles and accumulators."""
    run_bytes: int = 0
    """Contiguous bytes at one place of device memory; 0: all."""
    sram_bytes: int = 0
    """Traffic of on-chip memory."""
    gathers: int = 0
    """1: on-chip accesses at unrelated addresses."""
    rows: int = 0
    columns: int = 0
    inner: int = 0

    @property
    def flops(self) -> int:
        """Of both engines."""
        return self.matrix_flops + self.vector_flops

    @property
    def bytes(self) -> int:
        """Useful bytes of device memory."""
        return self.read_bytes + self.write_bytes


def matmul(rows: int, inner: int, columns: int, weight_bytes: float = 2.0, activation_bytes: int = 2) -> Cost:
    """rows×inner times weights inner×columns: 2·r·k·c flops.

    On chip: an output tile in 32 bit, and two stages of 64 deep input tiles; every input passes once for each tile of
    the other's side.
    """
    weights, inputs = math.ceil(inner * columns * weight_bytes), rows * inner * activation_bytes
    outputs = rows * columns * activation_bytes
    on_chip = weights * -(-rows // TILE) + inputs * -(-columns // TILE) + outputs
    return Cost(2 * rows * inner * columns, 0, weights + inputs, outputs, _tile_bytes(activation_bytes),
                sram_bytes=on_chip, rows=rows, columns=columns, inner=inner)


def _tile_bytes(activation_bytes: int) -> int:
    return TILE * TILE * 4 + 4 * TILE * STAGE * activation_bytes


def causal_pairs(queries: int, context: int) -> int:
    """(query, key) pairs of the last ``queries`` tokens of ``context``: query i sees context − queries + i + 1 keys."""
    return queries * context - queries * (queries - 1) // 2


def attention(pairs: int, queries: int, keys: int, hidden: int, kv_width: int, head_width: int = 128,
              activation_bytes: int = 2, kv_bytes: int = 2, *, sequences: int = 1) -> Cost:
    """Causal attention over a paged cache; ``pairs``, ``queries`` and ``keys`` are sums over the sequences of a batch.

    A (query, key) pair takes 2·hidden flops for the score and again for the weighted sum, and 5 of the vector engine a
    head (scale, maximum, exponential, sum, correction). Cached keys and values are read once; new tokens read their
    query, write their output and their own key and value. A page of one head is contiguous, no more. The query heads of
    one key head are computed together.
    """
    read = 2 * keys * kv_width * kv_bytes + queries * hidden * activation_bytes
    written = queries * hidden * activation_bytes + 2 * queries * kv_width * kv_bytes
    tile = (2 * 128 * head_width + 128 * 128) * 4
    rows = max(1, hidden * queries // (kv_width * sequences)) if queries else 0
    passes = -(-queries // (sequences * 128))  # tiles of queries; each but the first sees half of the keys again
    on_chip = read + written + max(0, passes - 1) * keys * kv_width * kv_bytes
    return Cost(4 * pairs * hidden, 5 * pairs * hidden // head_width, read, written, tile,
                KV_BLOCK_TOKENS * head_width * kv_bytes, on_chip, 0, rows, 128, head_width)


def elementwise(elements: int, reads: int, writes: int, flops_each: int, activation_bytes: int = 2) -> Cost:
    """An operator of the vector engine that reads and writes each element so often."""
    read, written = reads * elements * activation_bytes, writes * elements * activation_bytes
    return Cost(0, flops_each * elements, read, written, sram_bytes=read + written)


def norm(rows: int, width: int, activation_bytes: int = 2) -> Cost:
    """Root mean square norm: square, add, scale, weigh: 4 flops an element."""
    return elementwise(rows * width, 1, 1, 4, activation_bytes)


def lookup(rows: int, width: int, element_bytes: float, activation_bytes: int = 2) -> Cost:
    """Rows of an embedding table, one each token: accesses are as long as a row."""
    run, written = max(1, math.ceil(width * element_bytes)), rows * width * activation_bytes
    return Cost(0, 0, rows * run, written, run_bytes=run, sram_bytes=rows * run + written)


def embedding_bag(samples: int, tables: int, lookups: int, width: int, element_bytes: float = 2.0,
                  activation_bytes: int = 2) -> Cost:
    """Sum of ``lookups`` rows a table and sample: short random reads, few row hits, gathers on chip."""
    rows, run = samples * tables * lookups, max(1, math.ceil(width * element_bytes))
    written = samples * tables * width * activation_bytes
    return Cost(0, rows * width, rows * run, written, run_bytes=run, sram_bytes=rows * run + written, gathers=1)


def sampling(rows: int, vocab: int, activation_bytes: int = 2) -> Cost:
    """Softmax over the vocabulary and a draw: 6 flops an element."""
    return elementwise(rows * vocab, 1, 1, 6, activation_bytes)


def distinct_experts(tokens: int, experts: int, used: int) -> float:
    """Expected number of experts that ``tokens`` with ``used`` uniform choices each touch: E·(1 − (1 − k/E)^t)."""
    return experts * (1 - (1 - used / experts) ** tokens)


def expert_matmul(tokens: int, inner: int, columns: int, experts: int, used: int, weight_bytes: float = 2.0,
                  activation_bytes: int = 2) -> Cost:
    """Grouped multiplication: every token by ``used`` experts; only the weights of experts in use are read."""
    dense = matmul(tokens * used, inner, columns, weight_bytes, activation_bytes)
    one = inner * columns * weight_bytes
    read = math.ceil(distinct_experts(tokens, experts, used) * one) + tokens * used * inner * activation_bytes
    return dense._replace(read_bytes=read)


def conv2d(images: int, layer: Convolution, weight_bytes: float = 2.0, activation_bytes: int = 2) -> Cost:
    """Convolution as an implicit matrix product of (images·side²) × (channels·kernel²) by filters.

    Device memory gives each input once; on-chip memory gives it once for each place of the kernel.
    """
    inner, pixels = layer.channels * layer.kernel ** 2, images * layer.out_side ** 2
    product = matmul(pixels, inner, layer.filters, weight_bytes, activation_bytes)
    image_bytes = layer.side ** 2 * layer.channels * activation_bytes
    read = math.ceil(inner * layer.filters * weight_bytes) + images * image_bytes
    return product._replace(read_bytes=read)


def optimizer_step(parameters: int) -> Cost:
    """Adam in mixed precision: reads gradient (2 B), master and two moments (4 B each); writes those and the weight (2
    B)."""
    return Cost(0, 12 * parameters, 14 * parameters, 14 * parameters, sram_bytes=28 * parameters)


def backward(forward: Cost) -> Cost:
    """Gradients of inputs and of weights: twice the flops and the traffic of the forward operator."""
    return forward._replace(matrix_flops=2 * forward.matrix_flops, vector_flops=2 * forward.vector_flops,
                            read_bytes=2 * forward.read_bytes, write_bytes=2 * forward.write_bytes,
                            sram_bytes=2 * forward.sram_bytes)


def all_reduce_bytes(payload_bytes: int, ranks: int) -> int:
    """Bytes each rank sends (and receives) in a ring: 2·(k − 1)/k of the payload."""
    return -(-2 * (ranks - 1) * payload_bytes // ranks)


def all_gather_bytes(result_bytes: int, ranks: int) -> int:
    """Bytes each rank sends (and receives) in a ring that gathers, or reduces and scatters: (k − 1)/k of the whole."""
    return -(-(ranks - 1) * result_bytes // ranks)
