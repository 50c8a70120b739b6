"""What the truth consists of, and what takes it while a fleet publishes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Fate = Literal["dropped", "lost", "corrupted", "unrecorded"]
"""dropped at the source, lost on the way, damaged so that no decoder takes it, or never counted by anybody."""

@dataclass(slots=True)
class Tally:
    """Rows of one contract. ``produced`` includes dropped, lost and corrupted ones; ``redelivered`` are repeats.

    ``late`` rows were delivered after others that were published later. ``unrecorded`` rows are not in ``produced``:
    they came to be while no agent recorded them, or went down with it before anything about them left the host.
    """

    produced: int = 0
    dropped_by_producer: int = 0
    lost: int = 0
    corrupted: int = 0
    redelivered: int = 0
    late: int = 0
    unrecorded: int = 0


@dataclass(frozen=True, slots=True)
class SpanStarts:
    """True starts (τ ns) of the rows of one span batch, whose rows are numbered from 0."""

    host: str
    producer: str
    epoch: int
    sequence: int
    clock: str
    start_ns: Ints


@dataclass(frozen=True, slots=True)
class Published:
    """Columns of ``published.arrow`` of one host: when rows of other contracts than spans were read, and how many."""

    host: str
    true_ns: Ints
    rows: Ints


@dataclass(frozen=True, slots=True)
class Missed:
    """True times of rows of one host that were made and will never be decoded."""

    host: str
    fate: Fate
    start_ns: Ints


@dataclass(frozen=True, slots=True)
class Causes:
    """Rows of ``causes.arrow`` of one device in order of time. ``ns`` has shape (slots, causes.NAMES)."""

    host: str
    device: str
    start_ns: Ints
    slot_ns: Ints
    ns: Ints


@dataclass(frozen=True, slots=True)
class Incident:
    """Something planted, in [start, end). ``device`` None: the whole host."""

    kind: str
    host: str
    device: str | None
    start_true_ns: int
    end_true_ns: int
    severity: str = "warning"


@dataclass(frozen=True, slots=True)
class ClockStep:
    """A clock of a host jumped by ``size_ns`` (forwards is positive; 0: unknown or a restart from 0)."""

    host: str
    clock: str
    true_ns: int
    size_ns: int
    kind: str


@dataclass(frozen=True, slots=True)
class Change:
    """A deployment: ``effect`` is the relative change of the time a unit of work takes (0.03: 3 % slower; 0: none)."""

    true_ns: int
    subject: str
    version: str
    effect: float
    scope: str = ""


class Sink(Protocol):
    """Takes the truth while a fleet publishes."""

    def starts(self, starts: SpanStarts) -> None:
        """True starts of a published span batch, whatever happens to the message."""
        ...

    def published(self, host: str, contract: str, true_ns: int, rows: int) -> None:
        """Rows of another contract than spans were published, whatever happens to the message; read about then."""
        ...

    def missed(self, host: str, fate: Fate, start_ns: Ints) -> None:
        """True times of rows that were made and will never be decoded: starts of spans, else as in ``published``."""
        ...

    def causes(self, host: str, device: str, slot_start_true_ns: int, slot_ns: int, ns: Ints) -> None:
        """Where one slot of a device went: int64 ns in the order of causes.NAMES.

        Slots of a device come in order, without gaps. ValueError unless they sum to ``slot_ns``.
        """
        ...

    def incident(self, kind: str, host: str, device: str | None, start_true_ns: int, end_true_ns: int,
                 severity: str = "warning") -> None:
        """Something was planted in [start, end)."""
        ...

    def clock_step(self, host: str, clock: str, true_ns: int, size_ns: int, kind: str) -> None:
        """A clock jumped."""
        ...

    def change(self, true_ns: int, subject: str, version: str, effect: float, scope: str = "") -> None:
        """Something was deployed."""
        ...

    def finish(self, tallies: dict[str, Tally], config: dict[str, object]) -> None:
        """The run is over."""
        ...


class NoSink:
    """Forgets everything."""

    def starts(self, starts: SpanStarts) -> None:
        """Forget."""

    def published(self, host: str, contract: str, true_ns: int, rows: int) -> None:
        """Forget."""

    def missed(self, host: str, fate: Fate, start_ns: Ints) -> None:
        """Forget."""

    def causes(self, host: str, device: str, slot_start_true_ns: int, slot_ns: int, ns: Ints) -> None:
        """Forget."""

    def incident(self, kind: str, host: str, device: str | None, start_true_ns: int, end_true_ns: int,
                 severity: str = "warning") -> None:
        """Forget."""

    def clock_step(self, host: str, clock: str, true_ns: int, size_ns: int, kind: str) -> None:
        """Forget."""

    def change(self, true_ns: int, subject: str, version: str, effect: float, scope: str = "") -> None:
        """Forget."""

    def finish(self, tallies: dict[str, Tally], config: dict[str, object]) -> None:
        """Forget."""
