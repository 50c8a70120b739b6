"""Causes and effects out of aligned spans, and the pairs of them whose order is provably wrong. Pure.

Two rules: the end of a submission (track ``driver``) is not after the start of the work it submits, and the end of work
is not after the end of the host span that names it in ``wait_ids``. Both sides join by process and correlation id.
A pair is *inverted* where the cause's time is after the effect's, and a *violation* where it is by more than both
bounds: only then no truth inside the bounds is in order. Rows without a bound or an id prove nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fleetscope.contracts.batch import Batch, Part

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

Rule = Literal["submission", "completion"]
RULES: Final[tuple[Rule, ...]] = ("submission", "completion")
NONE: Final = np.iinfo(np.int64).min
_MIX: Final = np.int64(-7046029254386353131)  # 2^64 / golden ratio, odd
_WORK: Final = ("pcie_h2d", "pcie_d2h", "collective")


@dataclass(frozen=True, slots=True)
class Words:
    """Codes of a batch's rows and the words they stand for; −1 is null."""

    codes: Ints
    words: pa.Array

    def word(self, row: int) -> str | None:
        """The word of a row of the batch."""
        code = int(self.codes[row])
        return None if code < 0 else str(self.words[code].as_py())


@dataclass(frozen=True, slots=True)
class Source:
    """The message that events came from: whose rows they are, and what they were called."""

    parts: tuple[Part, ...]
    device: Words
    track: Words
    name: Words

    def identity(self, row: int) -> dict[str, Any]:
        """Producer, epoch, sequence, row, clock and names of a row of the message."""
        at = row
        for part in self.parts:
            if at < part.rows:
                return {"producer": part.producer, "epoch": part.epoch, "sequence": part.sequence,
                        "row": part.row0 + at, "clock": part.clock, "device": self.device.word(row),
                        "track": self.track.word(row), "name": self.name.word(row)}
            at -= part.rows
        raise IndexError(f"row {row} is past the message's end")


@dataclass(frozen=True, slots=True)
class Events:
    """Moments of one side of a rule: ``time`` and bound ``err`` in ns, ``process`` and ``id`` that join, ``source`` and
    ``row`` of the span in it."""

    time: Ints
    err: Ints
    process: Ints
    id: Ints
    source: Ints
    row: Ints

    def __len__(self) -> int:
        return len(self.time)

    def take(self, chosen: Ints | Bools) -> Events:
        """The events of an index or mask."""
        return Events(*(getattr(self, f.name)[chosen] for f in fields(Events)))

    @property
    def key(self) -> Ints:
        """One number for process and id; equal for equal pairs, and rarely for others."""
        with np.errstate(over="ignore"):
            return np.asarray(self.id ^ (self.process * _MIX))


@dataclass(frozen=True, slots=True)
class Sides:
    """Causes and effects of one rule."""

    causes: Events
    effects: Events


def none() -> Events:
    """No event."""
    empty = np.zeros(0, np.int64)
    return Events(*(empty for _ in fields(Events)))


def joined(parts: Sequence[Events]) -> Events:
    """One after the other."""
    if len(parts) == 1:
        return parts[0]
    return Events(*(np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Events))) if parts else none()


def read(batch: Batch) -> tuple[dict[Rule, Sides], Source]:
    """What a batch of aligned spans has of each rule; ``source`` of its events is 0."""
    rows = batch.rows
    track = _words(rows.column("track"))
    kind = np.array([1 if w == "driver" else 2 if w.startswith("engine:") or w in _WORK else 0
                     for w in track.words.to_pylist()] + [0], np.int64)[track.codes]
    err = _ints(rows.column("err_ns"))
    process, ids = _ints(rows.column("process_id")), _ints(rows.column("correlation_id"))
    joinable = (err != NONE) & (process != NONE)
    start = _ints(rows.column("start_ns"))
    stop = start + _ints(rows.column("duration_ns"))
    zero = np.zeros(len(batch), np.int64)
    every = Events(start, err, process, ids, zero, np.arange(len(batch), dtype=np.int64))
    ends = replace(every, time=stop)
    work = joinable & (ids != NONE) & (kind == 2)
    found: dict[Rule, Sides] = {
        "submission": Sides(ends.take(joinable & (ids != NONE) & (kind == 1)), every.take(work)),
        "completion": Sides(ends.take(work), _waits(rows.column("wait_ids"), ends, joinable & (kind != 2))),
    }
    return found, Source(batch.parts, _words(rows.column("device")), track, _words(rows.column("name")))


def violations(sides: Sides) -> list[tuple[int, int]]:
    """(cause, effect) of the pairs that are inverted by more than both bounds, in order of cause and effect."""
    causes, effects = sides.causes, sides.effects
    if not len(causes) or not len(effects):
        return []
    order = np.argsort(effects.key, kind="stable")
    keys, wanted = effects.key[order], causes.key
    first, last = np.searchsorted(keys, wanted, side="left"), np.searchsorted(keys, wanted, side="right")
    count = last - first
    cause = np.repeat(np.arange(len(causes)), count)
    within = np.arange(len(cause)) - np.repeat(np.cumsum(count) - count, count)
    effect = order[np.repeat(first, count) + within]
    wrong = effects.time[effect] + effects.err[effect] < causes.time[cause] - causes.err[cause]
    wrong &= (causes.process[cause] == effects.process[effect]) & (causes.id[cause] == effects.id[effect])
    return list(zip(cause[wrong].tolist(), effect[wrong].tolist(), strict=True))


def _waits(array: pa.ListArray, ends: Events, chosen: Bools) -> Events:
    """One event for each id that a row waited for."""
    if array.null_count == len(array):
        return none()
    index = np.flatnonzero(chosen & ~np.asarray(array.is_null()))
    lengths = np.asarray(array.value_lengths().fill_null(0), np.int64)[index]
    first = np.asarray(array.offsets, np.int64)[:-1][index]
    owner = np.repeat(index, lengths)
    at = np.repeat(first, lengths) + np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    return replace(ends.take(owner), id=_ints(array.values)[at])


def _ints(array: pa.Array) -> Ints:
    if array.null_count:
        array = array.fill_null(NONE)
    return np.asarray(array.to_numpy(zero_copy_only=False), np.int64)


def _words(array: pa.DictionaryArray) -> Words:
    indices = array.indices.fill_null(-1) if array.indices.null_count else array.indices
    return Words(np.asarray(indices.to_numpy(zero_copy_only=False), np.int64), array.dictionary)
