"""Tells processes apart that a producer started in one epoch, though each numbered its batches from 0.

A producer has to change its epoch when it begins to number anew. One that does not gives rows an identity that others
have already. Of two batches of one process the higher sequence is not sent earlier; so a batch that has no place among
(sequence, time of sending) of a process is of another one. The first process keeps the producer's name, the next ones
are called ``name~2``, ``name~3``: their rows have an identity of their own, and a repeat is still recognised, since
it was sent at the very time of what it repeats. A batch that does not say when it was sent belongs to the newest.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, field, replace
from typing import Final

from fleetscope.contracts.batch import Header, StreamKey

MARKS: Final = 64
"""Batches remembered of a process, at most: its first one, and of the others the fewer the older they are."""
LIVES: Final = 8
"""Processes of one epoch that are told apart; a batch of one before them looks like one of a new process."""
_SIGN: Final = "~"


def _split(producer: str) -> tuple[str, int]:
    name, _, number = producer.rpartition(_SIGN)
    return (name, int(number)) if name and number.isdigit() else (producer, 1)


def base_of(producer: str) -> str:
    """The producer's own name."""
    return _split(producer)[0]


def life_of(producer: str) -> int:
    """Which process of its epoch, from 1 on."""
    return _split(producer)[1]


@dataclass(slots=True)
class _Life:
    """(sequence, flushed ticks) of batches of one process, ascending in both."""

    marks: list[tuple[int, int]]

    def has(self, sequence: int, flushed: int) -> bool:
        at = bisect_left(self.marks, (sequence, flushed))
        return at < len(self.marks) and self.marks[at] == (sequence, flushed)

    def fits(self, sequence: int, flushed: int) -> bool:
        at = bisect_left(self.marks, (sequence, -(1 << 63)))
        if at < len(self.marks) and self.marks[at][0] == sequence:
            return self.marks[at][1] == flushed
        return ((at == 0 or self.marks[at - 1][1] <= flushed)
                and (at == len(self.marks) or flushed <= self.marks[at][1]))

    def add(self, sequence: int, flushed: int) -> None:
        if not self.has(sequence, flushed):
            self.marks.insert(bisect_left(self.marks, (sequence, flushed)), (sequence, flushed))
        if len(self.marks) > MARKS:
            del self.marks[1:-MARKS // 4:2]


@dataclass(slots=True)
class _Lives:
    """The processes of one stream that are remembered, oldest first; ``first``: number of the oldest."""

    lives: list[_Life]
    first: int = 1


@dataclass(slots=True)
class Incarnations:
    """Of all producers of a host. A function of each stream's batches in their order."""

    _streams: dict[StreamKey, _Lives] = field(default_factory=dict)

    def enter(self, header: Header) -> Header:
        """The header, under the name of its process."""
        if header.flushed_ticks is None:
            known = self._streams.get(header.stream)
            return _named(header, known.first + len(known.lives) - 1 if known else 1)
        sequence, flushed = header.sequence, header.flushed_ticks
        known = self._streams.get(header.stream)
        if known is None:
            self._streams[header.stream] = _Lives([_Life([(sequence, flushed)])])
            return header
        index = _find(known.lives, sequence, flushed)
        if index is None:
            known.lives.append(_Life([]))
            index = len(known.lives) - 1
            if len(known.lives) > LIVES:
                del known.lives[0]
                known.first, index = known.first + 1, index - 1
        known.lives[index].add(sequence, flushed)
        return _named(header, known.first + index)

    def to_plain(self) -> list[object]:
        """Lists, numbers and text only; equal states give equal values in equal order."""
        return [[*stream, known.first, [life.marks for life in known.lives]]
                for stream, known in sorted(self._streams.items())]

    @classmethod
    def from_plain(cls, plain: list[list[object]]) -> Incarnations:
        """From ``to_plain``, also after a way through JSON."""
        made = cls()
        for producer, epoch, contract, first, lives in plain:
            made._streams[StreamKey(producer, epoch, contract)] = _Lives(  # type: ignore[arg-type]
                [_Life([(s, f) for s, f in marks]) for marks in lives], first)  # type: ignore[attr-defined, arg-type]
        return made


def _find(lives: list[_Life], sequence: int, flushed: int) -> int | None:
    """The process of a batch: one that is known to have sent it, else the newest that it fits."""
    for index, life in enumerate(lives):
        if life.has(sequence, flushed):
            return index
    return next((i for i in range(len(lives) - 1, -1, -1) if lives[i].fits(sequence, flushed)), None)


def _named(header: Header, life: int) -> Header:
    return header if life == 1 else replace(header, producer=f"{header.producer}{_SIGN}{life}")
