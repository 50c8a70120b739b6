"""Which partition a key belongs to: one rule for every stream, topic and process.

It is the rule of Kafka's own clients (murmur2, seed 0x9747b28c, the sign bit cleared), so that a producer in another
language puts a host's rows where ours do. The hash is Austin Appleby's MurmurHash2, public domain.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_SEED: Final = 0x9747B28C
_M: Final = 0x5BD1E995
_WORD: Final = 0xFFFF_FFFF


@lru_cache(maxsize=65_536)
def murmur2(key: bytes) -> int:
    """MurmurHash2 of ``key``, 32 bits, unsigned."""
    value = (_SEED ^ len(key)) & _WORD
    whole = len(key) & ~3
    for at in range(0, whole, 4):
        part = int.from_bytes(key[at:at + 4], "little") * _M & _WORD
        part = (part ^ part >> 24) * _M & _WORD
        value = value * _M & _WORD ^ part
    if tail := key[whole:]:
        value = (value ^ int.from_bytes(tail, "little")) * _M & _WORD
    value = (value ^ value >> 13) * _M & _WORD
    return value ^ value >> 15


def partition_of(key: bytes, partitions: int) -> int:
    """The partition of ``key`` among ``partitions``, 0 <= result < partitions; stable over processes and runs."""
    return (murmur2(key) & 0x7FFF_FFFF) % partitions
