"""What the windows step remembers of each host, and its plain form without the rows that wait."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from fleetscope.contracts.batch import StreamKey
from fleetscope.ledger import Ledger
from fleetscope.snapshots import dump, load
from fleetscope.step import TopicPartition
from processors.windows.chunks import Chunk
from processors.windows.inventory import Device, Entry, Inventory
from processors.windows.readings import Readings, forget

VERSION: Final = 3
RECOGNISED: Final = 256
"""At least so many of the latest sequences of a stream are recognised when they are repeated."""

_SCALARS: Final = ("watermarks", "edge_ns", "known_from_ns", "last_end_ns", "alive_ns", "late", "repeated", "sequence",
                   "offset", "empty_run", "last", "last_known_share", "last_received", "issued", "requests",
                   "asked_last", "seen", "losses", "readings")
"""Fields of a host that are plain as they are."""


@dataclass(slots=True)
class Host:
    """One host. ``edge_ns`` is the start of the next window to close, None before the first row was placed.

    By window start ``received`` counts rows, ``coverage`` [received, dropped, lost, redelivered] of producers, and
    ``no_numbers`` readings that are none, by device. ``late`` and ``repeated`` rows wait for the next window to tell
    them. ``last`` holds the last window's rows, so that what comes after a host closed can still be told. ``alive_ns``
    is the highest ordinary watermark of any topic. ``readings``: those of the counters that accounting looks at,
    from as long before ``edge_ns`` as a window looks back.

    For windows that are asked for again: ``issued`` is the highest revision given, ``requests`` the next number,
    ``asked_last`` whether the last window was asked for, ``seen`` the last offset with rows by topic, ``losses``
    [from, to, received, dropped, lost, redelivered] by stream, ``told`` [known to or 0, late, repeated, then coverage
    of other times] by window start where a window told more than its own rows say, ``touched`` late rows by window
    start, of the batch being taken.
    """

    watermarks: dict[str, int] = field(default_factory=dict)
    edge_ns: int | None = None
    known_from_ns: int | None = None
    last_end_ns: int = 0
    alive_ns: int = 0
    received: dict[int, int] = field(default_factory=dict)
    coverage: dict[int, list[int]] = field(default_factory=dict)
    no_numbers: dict[int, dict[str, int]] = field(default_factory=dict)
    late: int = 0
    repeated: int = 0
    sequence: int = 0
    offset: int = 0
    empty_run: int = 0
    inventory: Inventory = field(default_factory=Inventory)
    announced: list[Entry] = field(default_factory=list)
    readings: Readings = field(default_factory=dict)
    step_ranks: set[tuple[str, int]] = field(default_factory=set)
    step_jobs: set[str] = field(default_factory=set)
    last: list[dict[str, Any]] = field(default_factory=list)
    last_known_share: float = 1.0
    last_received: int = 0
    issued: int = 0
    requests: int = 0
    asked_last: bool = False
    seen: dict[str, int] = field(default_factory=dict)
    losses: dict[str, list[list[int]]] = field(default_factory=dict)
    told: dict[int, list[int]] = field(default_factory=dict)
    touched: dict[int, int] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    chunks: list[Chunk] = field(default_factory=list)
    reread: Ledger = field(default_factory=Ledger)
    words: dict[str, int] = field(default_factory=dict)
    processes: dict[int, int] = field(default_factory=dict)

    def code(self, word: str) -> int:
        """The code of a device or job name; for this run only."""
        return self.words.setdefault(word, len(self.words))

    def process_code(self, process: int) -> int:
        """The code of a process id; for this run only."""
        return self.processes.setdefault(process, len(self.processes))

    def release(self, lookback_ns: int) -> None:
        """Drop rows no window needs any more, and identities that cannot do harm if they come again."""
        edge = self.edge_ns
        if edge is None:
            return
        forget(self.readings, edge - lookback_ns)
        self.chunks = [c for c in (chunk.trimmed(edge) for chunk in self.chunks) if c is not None]
        lowest: dict[StreamKey, int] = {}
        for chunk in self.chunks:
            for stream, sequence in chunk.lowest.items():
                lowest[stream] = min(sequence, lowest.get(stream, sequence))
        for stream in self.ledger:
            top = (self.ledger.max_sequence(stream) or 0) + 1 - RECOGNISED
            self.ledger.forget(stream, min(top, lowest.get(stream, top)))


@dataclass(slots=True)
class State:
    """``next_offset``: one past the last message counted; ``catching_up``: partitions whose rows are being read again
    after a restart, with the lowest offset that was still needed. Until they are through no window closes."""

    hosts: dict[str, Host] = field(default_factory=dict)
    next_offset: dict[TopicPartition, int] = field(default_factory=dict)
    catching_up: dict[TopicPartition, int] = field(default_factory=dict)

    def held(self) -> dict[TopicPartition, int]:
        """Lowest offset of each partition from which rows still wait."""
        lowest = dict(self.catching_up)
        for host in self.hosts.values():
            for chunk in host.chunks:
                if chunk.topic is not None:
                    lowest[chunk.topic] = min(chunk.offset, lowest.get(chunk.topic, chunk.offset))
        return lowest


def _pairs(values: dict[int, Any]) -> list[list[Any]]:
    return [[key, values[key]] for key in sorted(values)]


def _positions(values: dict[TopicPartition, int]) -> list[list[Any]]:
    return [[*at, values[at]] for at in sorted(values)]


def _host_plain(host: Host) -> dict[str, Any]:
    return {name: getattr(host, name) for name in _SCALARS} | {
        "received": _pairs(host.received), "coverage": _pairs(host.coverage), "told": _pairs(host.told),
        "no_numbers": [[start, sorted(host.no_numbers[start].items())] for start in sorted(host.no_numbers)],
        "announced": sorted(host.announced),
        "step_ranks": sorted(host.step_ranks), "step_jobs": sorted(host.step_jobs), "ledger": host.ledger.to_plain(),
        "devices": {name: [device.job, device.rank] for name, device in host.inventory.devices.items()},
        "numbers": host.inventory.numbers, "since": host.inventory.since,
        "parents": host.inventory.parents,
    }


def _host(plain: dict[str, Any]) -> Host:
    inventory = Inventory({name: Device(job, rank) for name, (job, rank) in plain["devices"].items()},
                          plain["numbers"], plain["since"], plain["parents"])
    scalars = {name: plain[name] for name in _SCALARS}
    return Host(**scalars, received=dict(plain["received"]), coverage=dict(plain["coverage"]), told=dict(plain["told"]),
                no_numbers={start: dict(counts) for start, counts in plain["no_numbers"]},
                inventory=inventory, announced=[tuple(entry) for entry in plain["announced"]],
                step_ranks={tuple(pair) for pair in plain["step_ranks"]}, step_jobs=set(plain["step_jobs"]),
                ledger=Ledger.from_plain(plain["ledger"]))


def snapshot(state: State, window_ns: int) -> bytes:
    """The state without the rows that wait."""
    return dump("windows", VERSION, {
        "window_ns": window_ns, "hosts": {name: _host_plain(host) for name, host in state.hosts.items()},
        "next_offset": _positions(state.next_offset), "held": _positions(state.held())})


def restore(data: bytes, window_ns: int) -> State:
    """The state of ``snapshot``; rows from the held offsets on are expected to come again.

    ValueError for bytes of another step, version or window length.
    """
    plain = load(data, "windows", VERSION)
    if plain["window_ns"] != window_ns:
        raise ValueError(f"windows: the snapshot is of windows of {plain['window_ns']} ns, not of {window_ns} ns")

    def positions(values: Iterable[tuple[str, int, int]]) -> dict[TopicPartition, int]:
        return {TopicPartition(topic, partition): offset for topic, partition, offset in values}

    return State({name: _host(host) for name, host in plain["hosts"].items()}, positions(plain["next_offset"]),
                 positions(plain["held"]))
