"""What happens to a clock, as pieces of constant nominal rate in exact integers.

Within a piece that begins at true time b a clock has moved by ``value + (τ − b) · ppb / 10⁹`` ns since the start of the
run; its oscillator's deviation comes on top. A rate of 0 is a clock that stands still, deviation and all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

NS: Final = 1_000_000_000
NEVER: Final = 1 << 62
"""End of what does not end, in ns of true time."""


@dataclass(frozen=True, slots=True)
class Change:
    """``jump``: by ``amount`` ns. ``restart``: the reading becomes ``amount`` ns. ``rate``: ``amount`` ppb of nominal.

    ``slew``: ``amount`` ppb are added to the rate (a later change takes them off). ``stop`` and ``go`` nest.
    """

    at_ns: int
    kind: Literal["jump", "restart", "rate", "slew", "stop", "go"]
    amount: int = 0
    cause: str = ""


@dataclass(frozen=True, slots=True)
class Step:
    """The reading jumped by ``size_ns`` at true time ``at_ns``; one that stood still lost ``-size_ns`` from then on."""

    at_ns: int
    size_ns: int
    cause: str


@dataclass(frozen=True, slots=True)
class Pieces:
    """Columns of the pieces in order of time; the first begins at 0 and holds before it, too."""

    starts: tuple[int, ...]
    values: tuple[int, ...]
    ppb: tuple[int, ...]
    _columns: tuple[Ints, Ints, Ints] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        columns = tuple(np.array(column, dtype=np.int64) for column in (self.starts, self.values, self.ppb))
        object.__setattr__(self, "_columns", columns)

    def moved(self, tau_ns: Ints) -> tuple[Ints, Ints]:
        """How far the clock has moved at true times τ, in ns, and the τ at which its deviation counts."""
        starts, values, ppb = self._columns
        at = np.maximum(np.searchsorted(starts, tau_ns, side="right") - 1, 0)
        begin, rate = starts[at], ppb[at]
        since = tau_ns - begin
        if (rate == NS).all():
            return values[at] + since, tau_ns
        seconds, rest = np.divmod(since, NS)  # split: the product of a long time and a rate passes int64
        scaled = np.where(rate == NS, since, seconds * rate + rest * rate // NS)
        return values[at] + scaled, np.where(rate == 0, begin, tau_ns)

    def rates(self) -> list[tuple[int, int]]:
        """(true time, ppb) at which the rate changes; the first is one too where it is not nominal."""
        return [(start, ppb) for start, ppb, before in zip(self.starts, self.ppb, (NS, *self.ppb), strict=False)
                if ppb != before]


@dataclass(slots=True)
class _Going:
    """A clock on its way through the changes."""

    at_ns: int = 0
    value: int = 0
    rate: int = NS
    slew: int = 0
    stopped: int = 0
    since_ns: int = 0
    """When it stopped."""

    @property
    def ppb(self) -> int:
        return 0 if self.stopped else max(self.rate + self.slew, 1)


def pieces(changes: Sequence[Change], offset_ns: int, deviation_ns: Callable[[int], int]) \
        -> tuple[Pieces | None, tuple[Step, ...]]:
    """Pieces and steps of a clock that reads ``offset_ns`` + what it moved + ``deviation_ns(τ)``; no changes: None.

    A clock that stands still goes on exactly where it stood, whatever its oscillator would have done meanwhile.
    """
    if not changes:
        return None, ()
    going, steps = _Going(), []
    columns: list[tuple[int, int, int]] = [(0, 0, NS)]
    for change in sorted(changes, key=lambda change: change.at_ns):
        reading = offset_ns + _moved(going, change.at_ns) + deviation_ns(
            going.at_ns if going.ppb == 0 else change.at_ns)
        if change.kind == "jump":
            steps.append(Step(change.at_ns, change.amount, change.cause))
            reading += change.amount
        elif change.kind == "restart":
            steps.append(Step(change.at_ns, change.amount - reading, change.cause))
            reading = change.amount
        elif change.kind == "go" and going.stopped == 1:
            steps.append(Step(going.since_ns, going.since_ns - change.at_ns, change.cause))
        _apply(going, change)
        going.at_ns, going.value = change.at_ns, reading - offset_ns - deviation_ns(change.at_ns)
        if columns[-1][0] == change.at_ns:
            columns.pop()
        columns.append((going.at_ns, going.value, going.ppb))
    starts, values, ppb = zip(*columns, strict=True)
    return Pieces(starts, values, ppb), tuple(sorted(steps, key=lambda step: step.at_ns))


def _moved(going: _Going, at_ns: int) -> int:
    since = at_ns - going.at_ns
    return going.value + since * going.ppb // NS


def _apply(going: _Going, change: Change) -> None:
    if change.kind == "rate":
        going.rate = change.amount
    elif change.kind == "slew":
        going.slew += change.amount
    elif change.kind == "stop":
        if not going.stopped:
            going.since_ns = change.at_ns
        going.stopped += 1
    elif change.kind == "go":
        going.stopped -= 1
