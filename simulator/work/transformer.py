"""The operators of a transformer's step: a row of work for each, sharded over tensor-parallel ranks."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from simulator.work.batcher import Group
from simulator.work.models import Transformer
from simulator.work.operators import (
    Cost,
    attention,
    elementwise,
    expert_matmul,
    lookup,
    matmul,
    norm,
    sampling,
)

ROWS: Final = ("embedding", "norm_attention", "qkv_proj", "attention", "out_proj", "norm_mlp", "mlp_up", "activation",
               "mlp_down", "final_norm", "lm_head", "sampling")
"""Rows of `costs`, in order."""
ROW: Final = {name: row for row, name in enumerate(ROWS)}
ON_VECTOR: Final = frozenset({"embedding", "norm_attention", "norm_mlp", "activation", "final_norm", "sampling"})
"""Spans on track engine:vector."""


def kv_width(model: Transformer, ranks: int) -> int:
    """Key elements a token, layer and rank: heads are split, and repeated when there are fewer than ranks."""
    return max(model.kv_width // ranks, min(model.head_width, model.kv_width))


def attention_cost(model: Transformer, group: Group, ranks: int = 1) -> Cost:
    """Attention of one layer on one rank."""
    return attention(group.pairs, group.tokens, group.keys, model.hidden // ranks, kv_width(model, ranks),
                     model.head_width, model.activation_bytes, model.kv_bytes, sequences=max(1, group.sequences))


def costs(model: Transformer, group: Group, ranks: int = 1) -> list[Cost]:
    """Work of one rank for one micro-batch, a row each of ``ROWS``.

    Matrices are split by columns, then by rows (Shoeybi et al., 2019): norms and embedding are repeated on every rank.
    """
    rows = list(_dense(model, group.tokens, group.sampled, ranks))
    rows.insert(ROW["attention"], attention_cost(model, group, ranks))
    return rows


@lru_cache(maxsize=2_048)
def _dense(model: Transformer, tokens: int, sampled: int, ranks: int) -> tuple[Cost, ...]:
    """All rows but attention: they depend on counts of tokens alone."""
    t, h, a, w = tokens, model.hidden, model.activation_bytes, model.weight_bytes
    normed = norm(t, h, a)
    if model.experts:
        used = model.experts_used
        up = expert_matmul(t, h, 2 * model.ffn // ranks, model.experts, used, w, a)
        down = expert_matmul(t, model.ffn // ranks, h, model.experts, used, w, a)
        width = model.ffn * used // ranks
    else:
        up, down = matmul(t, h, 2 * model.ffn // ranks, w, a), matmul(t, model.ffn // ranks, h, w, a)
        width = model.ffn // ranks
    return (
        lookup(t, h, 2, a), normed, matmul(t, h, h // ranks + 2 * kv_width(model, ranks), w, a),
        matmul(t, h // ranks, h, w, a), normed, up, elementwise(t * width, 2, 1, 5, a), down,
        norm(sampled, h, a), matmul(sampled, h, model.vocab // ranks, 2, a), sampling(sampled, model.vocab, a),
    )


def rank_weight_bytes(model: Transformer, layers: int, ranks: int, *, first: bool, last: bool) -> int:
    """Bytes of weights one rank holds: its share of its layers, the whole embedding, its share of the output head.

    Embedding and head stay in 16 bit when the layers are quantised.
    """
    ends = 2 * model.vocab * model.hidden
    return int(layers * model.layer_weights * model.weight_bytes / ranks) + first * ends + last * ends // ranks


def rank_kv_bytes(model: Transformer, layers: int, ranks: int) -> int:
    """Bytes of key-value cache a token of context takes on one rank."""
    return 2 * layers * kv_width(model, ranks) * model.kv_bytes
