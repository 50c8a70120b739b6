"""Span batches as numpy arrays: what windows keep of a row, and what they keep of it between batches.

Only rows that accounting looks at are kept: device work, submissions (track ``driver``), open steps (track
``cpu_thread`` with a step number) and what host threads do: prepare input, stage pageable memory, wait for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Final

import numpy as np
import pyarrow as pa

from fleetscope.contracts.batch import Batch, StreamKey
from fleetscope.step import TopicPartition
from processors.align.measured import RAW_CLOCK
from processors.windows.intervals import Bools, Ints
from processors.windows.works import COLLECTIVE, D2H, H2D, KERNEL, NONE

SUBMISSION: Final = 4
OPEN_STEP: Final = 5
ACTIVITY: Final = 6
OTHER: Final = 7
NO_CODE: Final = -1
"""A symbol that is null."""

ON_HOST_CLOCK: Final = 1
"""Tag of a submission that was stamped on the host's reference clock."""
INPUT: Final = 0
PAGEABLE: Final = 1
BLOCKED: Final = 2
SIZE_BITS: Final = 10
SIZE_MASK: Final = (1 << SIZE_BITS) - 1
NUMBER_BITS: Final = 32
NUMBER_MASK: Final = (1 << NUMBER_BITS) - 1
GROUP_MASK: Final = (1 << 20) - 1
"""Parts of a collective's tag; NO_CODE becomes GROUP_MASK."""

_ACTIVITIES: Final = {"input": INPUT, "pageable_copy": PAGEABLE, "wait": BLOCKED}
_ROLES: Final = {"collective": COLLECTIVE, "pcie_h2d": H2D, "pcie_d2h": D2H, "driver": SUBMISSION,
                 "cpu_thread": OPEN_STEP}


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows in columns. Times in ns, half open; ``keep`` is the time from which no window needs the row; ``role`` a kind
    of work, SUBMISSION, OPEN_STEP or ACTIVITY; ``device``, ``process`` and ``job`` are codes of the host's words,
    NO_CODE for null; ``bytes``, ``flops`` and ``err`` are −1 and ``correlation`` and ``rank`` ``NONE`` where null. The
    ids a row waits for are ``waits[wait_from:wait_to]``. ``tag``: of a kernel the code of its track, of a submission
    ON_HOST_CLOCK or ``NONE``, of an activity INPUT, PAGEABLE or BLOCKED, of a collective what all its members have in
    common: code of the communicator, number, and in the lowest bits the size, 0 where it is not known; ``NONE`` where
    there is no communicator or number."""

    start: Ints
    stop: Ints
    keep: Ints
    role: Ints
    device: Ints
    process: Ints
    correlation: Ints
    bytes: Ints
    flops: Ints
    rank: Ints
    job: Ints
    err: Ints
    wait_from: Ints
    wait_to: Ints
    tag: Ints
    waits: Ints

    def __len__(self) -> int:
        return len(self.start)

    def take(self, chosen: Ints | Bools | slice) -> Rows:
        """The rows of an index, slice or mask; ``waits`` stays whole."""
        if isinstance(chosen, slice):
            columns = {name: getattr(self, name)[chosen] for name in _PLAIN}
        else:  # a mask is searched once, not for each column
            index = np.flatnonzero(chosen) if chosen.dtype == np.bool_ else chosen
            columns = {name: getattr(self, name).take(index) for name in _PLAIN}
        return Rows(**columns, waits=self.waits)


_PLAIN: Final = tuple(f.name for f in fields(Rows) if f.name != "waits")
"""Columns with an entry a row; `waits` comes last."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of one message and where it stood. ``lowest``: the lowest sequence of each stream in it."""

    rows: Rows
    topic: TopicPartition | None
    offset: int
    lowest: Mapping[StreamKey, int]
    needed_until: int

    def trimmed(self, edge_ns: int) -> Chunk | None:
        """Without rows no window from ``edge_ns`` on needs; the chunk itself while most of it is needed."""
        if self.needed_until <= edge_ns:
            return None
        needed = self.rows.keep > edge_ns
        if 2 * int(needed.sum()) >= len(needed):
            return self
        return Chunk(self.rows.take(needed), self.topic, self.offset, self.lowest, self.needed_until)


def ints(array: pa.Array, null: int) -> Ints:
    """An integer or boolean column with a stand-in for null."""
    if array.null_count == len(array):
        return np.full(len(array), null, np.int64)
    if array.null_count:
        array = array.fill_null(null)
    return np.asarray(array.to_numpy(zero_copy_only=False), np.int64)


def symbols(batch: Batch, column: str, code: Callable[[str], int]) -> Ints:
    """A symbol column as codes; ``code`` is asked once a word."""
    indices, words = batch.symbols(column)
    if indices.null_count == len(indices):
        return np.full(len(indices), NO_CODE, np.int64)
    table = np.array([*(code(word) for word in words.to_pylist()), NO_CODE], np.int64)
    return np.asarray(table[ints(indices, len(table) - 1)], np.int64)


def role_of(track: str) -> int:
    """What a track is to accounting."""
    return KERNEL if track.startswith("engine:") else _ROLES.get(track, OTHER)


def read_spans(batch: Batch, intern: Callable[[str], int], process_code: Callable[[int], int], max_span_ns: int,
               lookback_ns: int) -> Rows:
    """All rows of a batch of aligned spans. A span longer than ``max_span_ns`` is cut to it: its row would otherwise
    be held for as long as it claims."""
    rows = batch.rows
    start = ints(rows.column("start_ns"), 0)
    stop = start + np.minimum(ints(rows.column("duration_ns"), 0), max_span_ns)
    role = symbols(batch, "track", role_of)
    device = symbols(batch, "device", intern)
    role[(role == OPEN_STEP) & (ints(rows.column("step"), NONE) == NONE)] = OTHER
    role[(role <= D2H) & (device == NO_CODE)] = OTHER
    tag = _tags(batch, role, intern)
    keep = np.maximum(stop, start + 1)
    keep[role == SUBMISSION] += lookback_ns
    wait_from, wait_to, waits = _waits(rows.column("wait_ids"))
    return Rows(start, stop, keep, role, device, _processes(rows.column("process_id"), process_code),
                ints(rows.column("correlation_id"), NONE), ints(rows.column("bytes"), -1),
                ints(rows.column("flops"), -1), ints(rows.column("rank"), NONE), symbols(batch, "job", intern),
                ints(rows.column("err_ns"), -1), wait_from, wait_to, tag, waits)


def _tags(batch: Batch, role: Ints, intern: Callable[[str], int]) -> Ints:
    """Tags of rows; gives rows of an activity that is looked at their role."""
    tag = np.full(len(role), NONE, np.int64)
    activity = symbols(batch, "activity", lambda word: _ACTIVITIES.get(word, NO_CODE))
    chosen = ((role == OTHER) | (role == OPEN_STEP)) & (activity != NO_CODE)
    if chosen.any():
        role[chosen] = ACTIVITY
        tag[chosen] = activity[chosen]
    submissions = role == SUBMISSION
    if submissions.any():
        tag[submissions & _on_host_clock(batch)] = ON_HOST_CLOCK
    kernels = role == KERNEL
    if kernels.any():
        tag[kernels] = symbols(batch, "track", intern)[kernels]
    met = role == COLLECTIVE
    if met.any():
        rows = batch.rows
        number, size = (ints(rows.column(f"communicator_{name}"), NONE) for name in ("sequence", "size"))
        group = symbols(batch, "communicator", intern) & GROUP_MASK
        known = met & (group != GROUP_MASK) & (number != NONE)
        size = np.where((size < 0) | (size > SIZE_MASK), 0, size)
        tag[known] = (((group << NUMBER_BITS) | (number & NUMBER_MASK)) << SIZE_BITS | size)[known]
    return tag


def _on_host_clock(batch: Batch) -> Bools:
    parts = batch.parts
    return np.repeat([part.clock == RAW_CLOCK for part in parts], [part.rows for part in parts])


def _processes(array: pa.Array, code: Callable[[int], int]) -> Ints:
    values = ints(array, NONE)
    if not len(values) or values.min() == values.max():
        return np.full(len(values), _process(int(values[0]), code) if len(values) else NO_CODE, np.int64)
    distinct, inverse = np.unique(values, return_inverse=True)
    return np.array([_process(int(value), code) for value in distinct], np.int64)[inverse]


def _process(value: int, code: Callable[[int], int]) -> int:
    return NO_CODE if value == NONE else code(value)


def _waits(array: pa.ListArray) -> tuple[Ints, Ints, Ints]:
    if array.null_count == len(array):
        none = np.zeros(len(array), np.int64)
        return none, none, none[:0]
    first = np.asarray(array.offsets.to_numpy(zero_copy_only=False)[:-1], np.int64)
    return first, first + ints(array.value_lengths(), 0), ints(array.values, NONE)


def concat(parts: Sequence[Rows]) -> Rows:
    """Rows of several chunks, one after the other."""
    if not parts:
        none = np.zeros(0, np.int64)
        return Rows(*(none for _ in fields(Rows)))
    shifts = np.cumsum([0, *(len(p.waits) for p in parts)])
    columns = {f.name: np.concatenate([getattr(p, f.name) for p in parts]) for f in fields(Rows)}
    lengths = [len(p) for p in parts]
    for name in ("wait_from", "wait_to"):
        columns[name] = columns[name] + np.repeat(shifts[:-1], lengths)
    return Rows(**columns)
