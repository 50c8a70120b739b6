"""What the core did as batches of the `spans` contract: codes become words, true time becomes ticks of a clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fleetscope.contracts.batch import constant_symbol, record_batch
from fleetscope.contracts.raw import SPANS
from simulator.clocks import Clock
from simulator.engine.program import MATRIX_TRACK
from simulator.engine.world import DeviceSpans, HostSpans
from simulator.work.names import ACTIVITY, NAME, NAMES

Ints = NDArray[np.int64]
S = TypeVar("S", HostSpans, DeviceSpans)

HOST_TRACKS: Final = ("host_api", "driver", "cpu_thread")
DEVICE_TRACKS: Final = ("engine:vector", "engine:matrix", "pcie_h2d", "pcie_d2h", "collective")
STREAMS: Final = ("compute", "vector", "copy", "copy_back", "collective")
"""By queue."""
FIRST_PROCESS: Final = 4_000
"""Process that drives device d of a host is this plus d."""
_SYMBOL: Final = pa.dictionary(pa.int32(), pa.string())
_SUBMIT: Final = NAME["submit"]
_ACTIVITIES: Final = tuple(dict.fromkeys(ACTIVITY.values()))
_ACTIVITY: Final = np.array([_ACTIVITIES.index(ACTIVITY[name]) if name in ACTIVITY else -1 for name in NAMES],
                            np.int64)
"""By code of a name: index in _ACTIVITIES, −1 for none."""
_REQUEST_SHIFT: Final = 40
"""A request of the fleet is its replica shifted by this, plus its number in the replica."""


@dataclass(frozen=True, slots=True)
class Seats:
    """What every rank of a world is, by rank of the world."""

    process: Ints
    job: Ints
    """Index in ``jobs``."""
    rank: Ints
    """Rank in the job."""
    replica: Ints
    jobs: tuple[tuple[str, str], ...]
    """(job, team)."""
    groups: tuple[str, ...]
    """Communicators by index in the world."""
    members: tuple[int, ...] = ()
    """Their sizes."""


def host_rows(parts: Sequence[tuple[HostSpans, Seats]], clock: Clock) -> pa.RecordBatch:
    """The host's own work on its reference clock; each part comes from a world with processes of this host."""
    spans = [part for part, _ in parts]
    start = clock.read(_joined([part.start for part in spans]))
    names = _joined([np.where(part.name < 0, _SUBMIT, part.name) for part in spans])
    rows = {
        "track": _symbols(_joined([part.track for part in spans]), HOST_TRACKS),
        "name": _symbols(names, NAMES), "activity": _symbols(_ACTIVITY[names], _ACTIVITIES),
        "start_ticks": pa.array(start),
        "duration_ticks": pa.array(clock.passed(start, clock.read(_joined([part.end for part in spans])))),
        "correlation_id": _integers(_joined([part.correlation for part in spans])),
        "step": _integers(_joined([part.step for part in spans])),
        **_who(parts),
    }
    return record_batch(SPANS, rows, len(start))


def device_rows(spans: DeviceSpans, seats: Seats, clock: Clock, device: str) -> pa.RecordBatch:
    """The work of one device on its own clock."""
    start = clock.read(spans.start)
    count = len(start)
    rows = {
        "device": constant_symbol(device, count), "track": _symbols(_track(spans.queue, spans.flags), DEVICE_TRACKS),
        "name": _symbols(spans.name, NAMES), "start_ticks": pa.array(start),
        "duration_ticks": pa.array(clock.passed(start, clock.read(spans.end))),
        "correlation_id": _integers(spans.correlation), "stream": _symbols(spans.queue, STREAMS),
        "wait_ids": _waits(spans.wait), "bytes": _integers(spans.bytes), "flops": _integers(spans.flops),
        "step": _integers(spans.step), **_who([(spans, seats)]),
    }
    if seats.groups and (spans.communicator >= 0).any():
        rows["communicator"] = _symbols(spans.communicator, seats.groups)
        size = np.array(seats.members, dtype=np.int64)
        rows["communicator_size"] = _integers(np.where(spans.communicator < 0, -1, size[spans.communicator]))
        rows["communicator_sequence"] = _integers(np.where(spans.communicator < 0, -1, spans.sequence))
    return record_batch(SPANS, rows, count)


def taken(spans: S, index: NDArray[Any]) -> S:
    """Rows by index or mask."""
    return type(spans)(*(getattr(spans, field.name)[index] for field in fields(spans)))


def _track(queue: Ints, flags: Ints) -> Ints:
    """Code in DEVICE_TRACKS."""
    by_queue = np.array([0, 0, 2, 3, 4], dtype=np.int64)
    track = by_queue[queue]
    return np.asarray(np.where(track == 0, (flags & MATRIX_TRACK) // MATRIX_TRACK, track))


def _who(parts: Sequence[tuple[HostSpans | DeviceSpans, Seats]]) -> dict[str, pa.Array]:
    """Process, job, rank, team and request of the rows of all parts."""
    count = sum(len(spans) for spans, _ in parts)
    pairs = sorted({pair for _, seats in parts for pair in seats.jobs})
    if len(pairs) == 1:
        (name, team), = pairs
        who = {"job": constant_symbol(name, count), "team": constant_symbol(team, count)}
    else:
        code = {pair: index for index, pair in enumerate(pairs)}
        job = _joined([np.array([code[pair] for pair in seats.jobs])[seats.job][spans.rank] for spans, seats in parts])
        who = {"job": _symbols(job, [name for name, _ in pairs]), "team": _symbols(job, [team for _, team in pairs])}
    return {
        **who,
        "process_id": pa.array(_joined([seats.process[spans.rank] for spans, seats in parts])),
        "rank": pa.array(_joined([seats.rank[spans.rank] for spans, seats in parts])),
        "request_id": _requests(_joined([spans.request for spans, _ in parts]),
                                _joined([seats.replica[spans.rank] for spans, seats in parts])),
    }


def _joined(parts: Sequence[Ints]) -> Ints:
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


def _integers(values: Ints) -> pa.Array:
    absent = values < 0
    return pa.array(values, mask=absent) if absent.any() else pa.array(values)


def _symbols(codes: Ints, words: Sequence[str]) -> pa.Array:
    """A symbol column that carries only the words in use, in order of their codes; −1 is null."""
    used = np.bincount(codes + 1, minlength=len(words) + 1) > 0
    place = (np.cumsum(used[1:]) - 1).astype(np.int32)
    known = [word for word, there in zip(words, used[1:], strict=True) if there]
    if len(known) == 1 and not used[0]:
        return constant_symbol(known[0], len(codes))
    indices = place[codes]
    array = pa.array(indices, mask=codes < 0) if used[0] else pa.array(indices)
    return pa.DictionaryArray.from_arrays(array, pa.array(known, pa.string()))


def _requests(request: Ints, replica: Ints) -> pa.Array:
    """``req-<replica>-<number>``; rows of one request mostly follow each other, so words are looked up by run."""
    count = len(request)
    if (request < 0).all():
        return pa.nulls(count, _SYMBOL)
    codes = np.where(request < 0, -1, (replica << _REQUEST_SHIFT) | request)
    heads = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]])) if count else np.zeros(0, np.int64)
    known, inverse = np.unique(codes[heads], return_inverse=True)
    absent = int(np.count_nonzero(known < 0))  # −1 sorts first and takes index 0
    words = [f"req-{int(code) >> _REQUEST_SHIFT}-{int(code) & ((1 << _REQUEST_SHIFT) - 1)}" for code in known[absent:]]
    indices = np.repeat(inverse - absent, np.diff(np.append(heads, count))).astype(np.int32)
    array = pa.array(indices, mask=indices < 0) if absent else pa.array(indices)
    return pa.DictionaryArray.from_arrays(array, pa.array(words, pa.string()))


def _waits(waits: Ints) -> pa.Array:
    has = waits >= 0
    offsets = np.zeros(len(waits) + 1, dtype=np.int32)
    np.cumsum(has, out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(waits[has]), mask=pa.array(~has))
