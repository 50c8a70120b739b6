"""One counter of a device, reading after reading: whether it moved, wrapped, was reset, jittered or is stuck. Pure."""

from __future__ import annotations

from dataclasses import dataclass, fields
from math import ceil, log
from typing import Any, Final, Literal, Self

Change = Literal["first", "moved", "still", "wrap", "jitter", "reset"]

CHANCE: Final = 1e-6
"""A counter is stuck when it stands still for so many readings that chance explains it less often than this."""
MIN_SEEN: Final = 20
"""Readings of a busy device from which it is known how often a counter moves."""
MIN_MOVES: Final = 0.9
"""A counter that moves less often than this while its device is busy tells nothing when it stands still: readings that
are rounded coarsely tremble between two values for a while and stand in the middle of one for another."""
MIN_TURNS: Final = 0.25
"""A gauge that turns round less often than in this share of its moves drifts, such as the temperature of what warms up:
that it stands still then may mean that it has arrived. Of noise half the moves or more are turns."""
WRAP_RATE: Final = 4.0
"""A wrap that means more than this times the highest rate seen is none."""


@dataclass(slots=True)
class Series:
    """``last``: newest reading that is a number, at ``last_ns``; ``rate``: highest rate seen (a second), ``step``:
    largest increment. ``seen`` and ``moves``: readings of a busy device, and those in which it moved. ``still``: how
    many readings of a busy device stand still, ``still_ns`` since when. ``turns``: how often a gauge moved the other
    way than before (``direction``)."""

    last: float | None = None
    last_ns: int = 0
    rate: float = 0.0
    step: float = 0.0
    steps: int = 0
    seen: int = 0
    moves: int = 0
    still: int = 0
    still_ns: int = 0
    stuck: bool = False
    direction: int = 0
    turns: int = 0

    def read(self, value: float, time_ns: int, top: int | None) -> Change:
        """Take a number. ``top``: largest value of the register of a monotonic counter; None: a gauge."""
        before, passed = self.last, time_ns - self.last_ns
        self.last, self.last_ns = value, time_ns
        if before is None:
            self.still_ns = time_ns
            return "first"
        if value == before:
            return "still"
        self.still_ns = time_ns
        if top is None:
            direction = 1 if value > before else -1
            self.turns += direction == -self.direction
            self.direction = direction
            return "moved"
        step, change = value - before, "moved"
        if step < 0:
            wrapped = step + top + 1
            if not self._is_wrap(wrapped, passed, top):
                return "jitter" if -step <= self.step else "reset"
            step, change = wrapped, "wrap"
        self.step, self.steps = max(self.step, step), self.steps + 1
        if passed > 0:
            self.rate = max(self.rate, step / passed * 1e9)
        return change  # type: ignore[return-value]

    def _is_wrap(self, wrapped: float, passed_ns: int, top: int) -> bool:
        if self.steps >= 3:
            return wrapped <= WRAP_RATE * self.rate * passed_ns / 1e9
        return wrapped <= top / 2

    def judge(self, change: Change, *, busy: bool, at_limit: bool) -> bool:
        """Whether it is stuck, after a reading of a device that was ``busy`` or not. ``at_limit``: the value is the
        least or the most there can be, where standing still says nothing."""
        if change != "still":
            self.seen, self.moves = self.seen + busy, self.moves + busy
            self.still, self.stuck = 0, False
        elif not busy or at_limit:
            self.still = 0
        else:
            self.still += 1
            self.stuck = self.stuck or self.still >= self._patience()
            self.seen += not self.stuck
        return self.stuck

    def _patience(self) -> float:
        """So many readings at a stand are no chance."""
        before = self.seen - self.still + 1
        moves = (self.moves + 1) / (before + 2)
        drifts = bool(self.direction) and self.turns < MIN_TURNS * self.moves  # and may have settled
        if before < MIN_SEEN or moves < MIN_MOVES or drifts:
            return float("inf")
        return ceil(log(CHANCE) / log(1.0 - moves))

    def forget(self) -> None:
        """A reading was none: the next one has nothing to be compared with."""
        self.last, self.still = None, 0

    def plain(self) -> list[Any]:
        """As JSON has it."""
        return [getattr(self, field.name) for field in fields(self)]

    @classmethod
    def of_plain(cls, values: list[Any]) -> Self:
        """From ``plain``."""
        return cls(*values)
