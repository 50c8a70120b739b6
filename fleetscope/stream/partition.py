"""Which partition a key belongs to: one rule for every stream, topic and process."""

from __future__ import annotations

import zlib


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of ``key`` among ``partitions``, 0 <= result < partitions; stable over processes and runs."""
    return zlib.crc32(key) % partitions
