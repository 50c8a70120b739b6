"""Gives freed memory back to the system. Large blocks of rows come and go in many threads; without this their heaps
stay as large as they ever were, and a long run looks like a leak."""

from __future__ import annotations

import ctypes
from functools import lru_cache
from typing import Any

import pyarrow as pa


@lru_cache(maxsize=1)
def _trim() -> Any:
    """glibc's malloc_trim, None with another C library."""
    try:
        return ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        return None


def release() -> None:
    """Return what is free in Arrow's pool and in the C heap. Takes some ms; call it now and then."""
    pa.default_memory_pool().release_unused()
    trim = _trim()
    if trim is not None:
        trim(0)
