"""State of a step as bytes: JSON in one zstd frame, with the step's name and version in it."""

from __future__ import annotations

import json
from typing import Any

import zstandard


def dump(step: str, version: int, plain: dict[str, Any]) -> bytes:
    """Equal values give equal bytes."""
    text = json.dumps({"step": step, "version": version, "state": plain}, sort_keys=True, separators=(",", ":"))
    return bytes(zstandard.ZstdCompressor(level=1).compress(text.encode()))


def load(data: bytes, step: str, version: int) -> dict[str, Any]:
    """The value of ``dump``; ValueError for bytes that are no snapshot, or one of another step or version."""
    try:
        found = json.loads(zstandard.ZstdDecompressor().decompress(data))
        is_of = (found["step"], found["version"])
    except (zstandard.ZstdError, ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{step}: no snapshot: {error}") from error
    if is_of != (step, version):
        raise ValueError(f"{step}: the snapshot is of {is_of}, not of {(step, version)}")
    return dict(found["state"])
