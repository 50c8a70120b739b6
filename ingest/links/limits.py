"""Token buckets: how much is answered, per peer and in all."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

_NS: Final = 1_000_000_000


@dataclass(slots=True)
class Bucket:
    """``rate`` tokens a second up to ``burst``; full at the start. Times are ns of a clock that does not step."""

    rate: float
    burst: float
    tokens: float
    at: int

    def take(self, now: int) -> bool:
        """One token, if there is one."""
        self.tokens = min(self.burst, self.tokens + max(now - self.at, 0) * self.rate / _NS)
        self.at = now
        if self.tokens < 1:
            return False
        self.tokens -= 1
        return True


class Buckets:
    """One bucket a key. At most ``limit`` keys: the one not used for the longest is forgotten first."""

    def __init__(self, rate: float, burst: float, limit: int) -> None:
        self._rate, self._burst, self._limit = rate, burst, limit
        self._buckets: OrderedDict[Hashable, Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, key: Hashable, now: int) -> bool:
        """One token of ``key``, if there is one."""
        bucket = self._buckets.get(key)
        if bucket is None:
            bucket = self._buckets[key] = Bucket(self._rate, self._burst, self._burst, now)
            if len(self._buckets) > self._limit:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(key)
        return bucket.take(now)
