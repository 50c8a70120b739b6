"""The vocabulary of spans: names of calls, host work and device operators, and their codes in `Program.name` and
`.api`."""

from __future__ import annotations

from typing import Final

HOST: Final = ("engine.step", "launchKernel", "memcpyAsync", "memcpy", "memcpyPageable", "synchronize", "submit",
               "launchCollective", "launchGraph", "schedule", "load_batch", "decode_images", "augment",
               "build_features", "gather_batch")
"""API calls, driver submissions and work of the host alone."""

ACTIVITY: Final = {
    **dict.fromkeys(("launchKernel", "memcpyAsync", "launchCollective", "launchGraph", "submit"), "launch"),
    **dict.fromkeys(("load_batch", "decode_images", "augment", "build_features"), "input"),
    **dict.fromkeys(("schedule", "gather_batch"), "framework"),
    "memcpyPageable": "pageable_copy", "synchronize": "wait", "memcpy": "wait",
}
"""What a driver or framework says its host work is for: column ``activity`` of spans."""

COPIES: Final = ("inputs_h2d", "kv_swap_in", "kv_swap_out", "tokens_d2h", "outputs_d2h", "memcpy_h2d", "features_h2d")

COLLECTIVES: Final = ("all_reduce", "all_gather", "broadcast", "send", "recv")

TRANSFORMER: Final = ("embedding", "norm_attention", "qkv_proj", "attention", "out_proj", "norm_mlp", "mlp_up",
                      "activation", "mlp_down", "final_norm", "lm_head", "sampling", "moe_up",
                      "moe_activation", "moe_down")
BACKWARD: Final = ("loss", "attention_backward", "qkv_proj_backward", "out_proj_backward", "mlp_up_backward",
                   "mlp_down_backward", "activation_backward", "norm_attention_backward", "norm_mlp_backward",
                   "final_norm_backward", "lm_head_backward", "embedding_backward", "adam_update")
DRAFT: Final = tuple(f"draft.{name}" for name in TRANSFORMER[:12])
"""Operators of the draft model of speculative decoding."""
VISION: Final = ("normalize", "conv2d", "relu", "max_pool", "add_relu", "avg_pool", "fc", "softmax")
RECOMMENDATION: Final = ("embedding_bag", "interaction", "bottom_mlp", "top_mlp", "sigmoid", "concat_features")

NAMES: Final = (*HOST, *COPIES, *COLLECTIVES, *TRANSFORMER, *BACKWARD, *DRAFT, *VISION, *RECOMMENDATION)
NAME: Final = {word: code for code, word in enumerate(NAMES)}
