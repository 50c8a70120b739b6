"""The catalogue against published sizes."""

from __future__ import annotations

import pytest

from fleetscope.errors import UsageError
from simulator.work.models import (
    CHAT_1B,
    CHAT_3B,
    CHAT_8B,
    CHAT_70B,
    MIXTURE_8X7B,
    RECOMMEND_26,
    TRANSFORMERS,
    VISION_50,
    Recommendation,
    Transformer,
)
from simulator.work.transformer import rank_kv_bytes, rank_weight_bytes
from simulator.work.vision import kernels


@pytest.mark.parametrize(("model", "billions"), [(CHAT_8B, 8.03), (CHAT_70B, 70.6), (MIXTURE_8X7B, 46.7),
                                                 (CHAT_1B, 1.24 + 0.26), (CHAT_3B, 3.21 + 0.39)])
def test_parameters_are_those_of_the_model_cards(model: Transformer, billions: float) -> None:
    """The smallest ones tie embedding and head in their cards; here both are counted."""
    assert model.weights / 1e9 == pytest.approx(billions, rel=0.01)


def test_a_token_of_the_8b_model_takes_128_kib_of_cache() -> None:
    assert CHAT_8B.kv_bytes_per_token == 131_072


@pytest.mark.parametrize("model", TRANSFORMERS.values(), ids=TRANSFORMERS)
@pytest.mark.parametrize("stages", [1, 2, 4])
def test_shares_of_ranks_add_up_to_the_model(model: Transformer, stages: int) -> None:
    held = sum(rank_weight_bytes(model, model.layers // stages, 2, first=stage == 0, last=stage == stages - 1) * 2
               for stage in range(stages))
    twice = 2 * model.vocab * model.hidden  # the embedding is on both tensor-parallel ranks of the first stage
    layers = model.layers * model.layer_weights * model.weight_bytes
    assert held == pytest.approx(layers + 2 * twice + twice, rel=1e-6)
    assert rank_kv_bytes(model, model.layers, 2) * 2 == model.kv_bytes_per_token


def test_cached_keys_are_repeated_when_there_are_more_ranks_than_key_heads() -> None:
    assert rank_kv_bytes(CHAT_8B, 32, 16) == rank_kv_bytes(CHAT_8B, 32, 8)


def test_the_vision_model_has_the_published_flops_and_parameters() -> None:
    """He et al. (2016): 3.8e9 multiply-adds of 50 layers with the stride in the 1×1, 4.1e9 with it in the 3×3."""
    matrix = [cost.matrix_flops for _, _, cost in kernels(VISION_50, 1)]
    assert sum(matrix) / 2 == pytest.approx(4.1e9, rel=0.01)
    weights = sum(c.channels * c.kernel ** 2 * c.filters for c in VISION_50.convolutions()) + 2_048 * 1_000
    assert weights == pytest.approx(25.5e6, rel=0.01)
    assert len(VISION_50.convolutions()) == 53


def test_the_top_network_sees_all_pairs_of_features() -> None:
    assert RECOMMEND_26.interactions == 64 + 27 * 26 // 2


def test_impossible_shapes_are_refused_with_their_key() -> None:
    with pytest.raises(UsageError, match="layers"):
        Transformer("none", 0, 64, 64, 64, 64)
    with pytest.raises(UsageError, match="experts_used"):
        Transformer("none", 1, 64, 64, 64, 64, experts=2, experts_used=3)
    with pytest.raises(UsageError, match="bottom"):
        Recommendation(width=32)
