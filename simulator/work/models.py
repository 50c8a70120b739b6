"""A small catalogue of models. Layers, operators, flops and bytes follow from these shapes alone.

Shapes follow public model cards of each class: dense decoders of 1, 8 and 70 billion parameters, a residual network of
50 layers (He et al., 2016), a recommendation model with embedding tables (Naumov et al., 2019).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from fleetscope.errors import UsageError


@dataclass(frozen=True, slots=True)
class Transformer:
    """A decoder-only transformer with grouped-query attention and a gated feed-forward of width ``ffn``."""

    name: str
    layers: int
    hidden: int
    kv_width: int
    """Key (or value) elements a token and layer: heads of keys times their width."""
    ffn: int
    vocab: int
    head_width: int = 128
    weight_bytes: float = 2.0
    """Bytes a weight: 2 for bfloat16, 1 for 8 bit, 0.5 for 4 bit (scales of quantisation not counted)."""
    activation_bytes: int = 2
    kv_bytes: int = 2
    """Bytes an element of the key-value cache."""
    experts: int = 0
    """0: dense. Else ``ffn`` is the width of one expert, and each token uses ``experts_used`` of them."""
    experts_used: int = 2
    version: str = "1.0.0"

    def __post_init__(self) -> None:
        for key in ("layers", "hidden", "kv_width", "ffn", "vocab", "head_width", "weight_bytes", "activation_bytes",
                    "kv_bytes"):
            if getattr(self, key) <= 0:
                raise UsageError(f"model {self.name}: {key}: a size is positive")
        if self.experts and not 1 <= self.experts_used <= self.experts:
            raise UsageError(f"model {self.name}: experts_used: lies within 1..experts")

    @property
    def layer_weights(self) -> int:
        """Parameters of the matrices of one layer."""
        attention = self.hidden * (2 * self.hidden + 2 * self.kv_width)
        mlp = 3 * self.hidden * self.ffn
        return attention + (self.experts * mlp + self.hidden * self.experts if self.experts else mlp)

    @property
    def weights(self) -> int:
        """Parameters of all matrices: layers, embedding and output head."""
        return self.layers * self.layer_weights + 2 * self.vocab * self.hidden

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of key-value cache a token of context takes in all layers."""
        return 2 * self.layers * self.kv_width * self.kv_bytes


@dataclass(frozen=True, slots=True)
class Convolution:
    """One convolution: side of the (square) input, channels, kernel side, stride; and what follows it."""

    side: int
    channels: int
    filters: int
    kernel: int
    stride: int = 1
    adds: bool = False
    """Followed by the addition of the shortcut."""

    @property
    def out_side(self) -> int:
        """Side of the output under padding that keeps sides at stride 1."""
        return -(-self.side // self.stride)


@dataclass(frozen=True, slots=True)
class Vision:
    """A residual network of bottleneck blocks: (blocks, width) a stage; the first convolution has 64 filters of 7×7."""

    name: str = "resnet-50"
    image_side: int = 224
    stages: tuple[tuple[int, int], ...] = ((3, 64), (4, 128), (6, 256), (3, 512))
    classes: int = 1_000
    weight_bytes: float = 2.0
    activation_bytes: int = 2
    version: str = "1.0.0"

    def convolutions(self) -> list[Convolution]:
        """All convolutions in order: 1×1, 3×3, 1×1 a block, and a projection where the shape changes."""
        found = [Convolution(self.image_side, 3, 64, 7, 2)]
        side, channels = -(-self.image_side // 4), 64
        for stage, (blocks, width) in enumerate(self.stages):
            for block in range(blocks):
                stride = 2 if stage and not block else 1
                found.append(Convolution(side, channels, width, 1))
                found.append(Convolution(side, width, width, 3, stride))
                if not block:
                    found.append(Convolution(side, channels, 4 * width, 1, stride))
                side, channels = -(-side // stride), 4 * width
                found.append(Convolution(side, width, channels, 1, adds=True))
        return found


@dataclass(frozen=True, slots=True)
class Recommendation:
    """Embedding tables read at ``lookups`` rows each a sample, small multi-layer networks, pairwise interaction."""

    name: str = "recommend-26"
    tables: int = 26
    rows: int = 4_000_000
    width: int = 64
    lookups: int = 20
    dense_features: int = 13
    bottom: tuple[int, ...] = (512, 256, 64)
    top: tuple[int, ...] = (1_024, 1_024, 512, 256, 1)
    weight_bytes: float = 2.0
    activation_bytes: int = 2
    version: str = "1.0.0"

    def __post_init__(self) -> None:
        if self.bottom[-1] != self.width:
            raise UsageError(f"model {self.name}: bottom: the last layer has the width of the embeddings, {self.width}")

    @property
    def interactions(self) -> int:
        """Input width of the top network: the bottom's output and all pairs of the tables and it."""
        features = self.tables + 1
        return self.width + features * (features - 1) // 2


CHAT_1B: Final = Transformer("chat-1b", 16, 2_048, 512, 8_192, 128_256, head_width=64)
CHAT_3B: Final = Transformer("chat-3b", 28, 3_072, 1_024, 8_192, 128_256)
CHAT_8B: Final = Transformer("chat-8b", 32, 4_096, 1_024, 14_336, 128_256, version="1.4.0")
CHAT_70B: Final = Transformer("chat-70b", 80, 8_192, 1_024, 28_672, 128_256)
CHAT_70B_W4: Final = Transformer("chat-70b-w4", 80, 8_192, 1_024, 28_672, 128_256, weight_bytes=0.5)
MIXTURE_8X7B: Final = Transformer("mixture-8x7b", 32, 4_096, 1_024, 14_336, 32_000, experts=8)
BLOCKS_1B: Final = Transformer("blocks-1b", 24, 2_048, 2_048, 5_504, 32_000)
"""A training-like stack of transformer blocks."""
VISION_50: Final = Vision()
RECOMMEND_26: Final = Recommendation()

TRANSFORMERS: Final = {model.name: model for model in (CHAT_1B, CHAT_3B, CHAT_8B, CHAT_70B, CHAT_70B_W4, MIXTURE_8X7B,
                                                       BLOCKS_1B)}
VISIONS: Final = {VISION_50.name: VISION_50}
RECOMMENDATIONS: Final = {RECOMMEND_26.name: RECOMMEND_26}
