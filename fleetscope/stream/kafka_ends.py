"""Ends of partitions that several consumers of a process ask for, asked of the broker once for all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

from fleetscope.step import TopicPartition

WATCHED_S: Final = 5.0
"""Partitions that nobody asked for since are not asked along any more."""

Ask = Callable[[Sequence[TopicPartition]], dict[TopicPartition, int]]


class SharedEnds:
    """Keeps the last answers; ``ask`` fetches new ones. A request to the broker costs more than what it asks about, so
    that each asks for everything that is watched."""

    def __init__(self, ask: Ask, now_s: Callable[[], float] = time.monotonic) -> None:
        self._ask = ask
        self._now = now_s
        self._lock = threading.Lock()
        self._known: dict[TopicPartition, tuple[float, int]] = {}
        self._watched: dict[TopicPartition, float] = {}

    def ends(self, partitions: Sequence[TopicPartition], max_age_s: float) -> dict[TopicPartition, int]:
        """The end of each of ``partitions``, asked for at most ``max_age_s`` ago. Raises as ``ask`` does."""
        with self._lock:  # whoever waits here finds the answer that another one got meanwhile
            now = self._now()
            self._watched.update(dict.fromkeys(partitions, now))
            if any(at not in self._known or now - self._known[at][0] > max_age_s for at in partitions):
                self._watched = {at: since for at, since in self._watched.items() if now - since <= WATCHED_S}
                found = self._ask(sorted(self._watched))
                self._known = {at: (now, end) for at, end in found.items()}
            return {at: self._known[at][1] for at in partitions}
