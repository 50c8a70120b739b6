"""What `align` keeps of one host."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace
from typing import Any

from fleetscope.contracts.batch import Batch
from fleetscope.errors import Origin
from fleetscope.incarnations import Incarnations
from fleetscope.ledger import Ledger
from processors.align.progress import LaneKey, Progress
from processors.clocks.pair import Pair
from processors.clocks.segments import Segment, SegmentMap


@dataclass(slots=True)
class LocalClock:
    """A clock of the host other than its reference clock, with the pair's fit and the map that came of it.

    ``producer``, in its ``epoch``, measures it; ``closed``: it said that it measures no more; ``sealed``: the map was
    ended for that.
    """

    pair: Pair
    producer: str
    map: SegmentMap = field(default_factory=SegmentMap)
    closed: bool = False
    sealed: bool = False
    epoch: int = 0

    def wraps_at(self, bits: int) -> None:
        """Its counter has so many bits."""
        self.pair.bits = bits
        self.map.count_bits(bits)

    def reopen(self) -> None:
        """Its producer measures again."""
        if self.sealed:
            self.map.reopen()
        self.closed = self.sealed = False


@dataclass(slots=True)
class Host:
    """One host of a partition. ``waiting`` holds decoded batches until their clocks are decided; not in snapshots."""

    name: str
    fleet: SegmentMap
    ledger: Ledger = field(default_factory=Ledger)
    lives: Incarnations = field(default_factory=Incarnations)
    clocks: dict[str, LocalClock] = field(default_factory=dict)
    progress: Progress = field(default_factory=Progress)
    waiting: dict[LaneKey, deque[Batch]] = field(default_factory=dict)
    reread: dict[Origin, list[tuple[int, int]]] = field(default_factory=dict)
    """After a restart: row ranges of messages that were waiting and will be read again."""
    beats: list[Batch] = field(default_factory=list)
    """Pieces of a heartbeat that is not whole yet; a message is taken whole, so this is empty at every snapshot."""
    sequences: dict[str, int] = field(default_factory=dict)
    """Next sequence of derived topics."""
    bits: dict[str, int] = field(default_factory=dict)
    """Width of the counters that the inventory states."""
    silences: list[tuple[str, int, int]] = field(default_factory=list)
    """What others say of its silence and fleet time has not reached yet: see `quiet`."""
    clock_events: list[tuple[str, str, int, int]] = field(default_factory=list)
    """Steps and gaps of its clocks that fleet time has not reached yet: see `clock_events`."""
    silent_ns: int | None = None
    silent_told_ns: int = 0
    """Since when the host is silent, and when that could be told, in fleet time."""
    samples_through: int | None = None
    bad_samples: int = 0
    gathering: int = 0
    """Rows that came since it was last looked what can go out; not in snapshots."""

    def named(self, batch: Batch) -> Batch:
        """The batch under the name of the process that sent it."""
        header = self.lives.enter(batch.header)
        return batch if header is batch.header else replace(batch, header=header)

    def next_sequence(self, topic: str) -> int:
        """Number the next derived batch for ``topic``."""
        number = self.sequences.get(topic, 0)
        self.sequences[topic] = number + 1
        return number

    def plain(self) -> dict[str, Any]:
        """State as JSON has it; of waiting batches only where they stand."""
        waiting: dict[Origin, list[list[int]]] = {o: [list(r) for r in rows] for o, rows in self.reread.items()}
        for queue in self.waiting.values():
            for batch in queue:
                if batch.origin is not None:
                    row0 = batch.header.row0
                    waiting.setdefault(batch.origin, []).append([row0, row0 + len(batch)])
        return {
            "name": self.name, "ledger": self.ledger.to_plain(), "lives": self.lives.to_plain(),
            "progress": self.progress.plain(),
            "clocks": {k: [c.pair.plain(), c.producer, [s.plain() for s in c.map.segments], c.closed,
                           c.sealed, c.epoch]
                       for k, c in self.clocks.items()},
            "waiting": [[o.topic, o.partition, o.offset, rows] for o, rows in sorted(waiting.items(), key=_by_origin)],
            "sequences": self.sequences, "samples_through": self.samples_through, "bad_samples": self.bad_samples,
            "bits": self.bits, "silences": self.silences,
            "clock_events": self.clock_events, "silent": [self.silent_ns, self.silent_told_ns],
        }

    @classmethod
    def of_plain(cls, data: dict[str, Any], fleet: SegmentMap) -> Host:
        """From ``plain``; ``fleet`` is filled from its own topic."""
        host = cls(data["name"], fleet, Ledger.from_plain(data["ledger"]), Incarnations.from_plain(data["lives"]),
                   progress=Progress.of_plain(data["progress"]), sequences=data["sequences"],
                   samples_through=data["samples_through"], bad_samples=data["bad_samples"], bits=data["bits"])
        host.silences = [(state, last, now) for state, last, now in data["silences"]]
        host.clock_events = [(kind, clock, start, end) for kind, clock, start, end in data["clock_events"]]
        host.silent_ns, host.silent_told_ns = data["silent"]
        for name, (plain, producer, segments, closed, sealed, epoch) in data["clocks"].items():
            pair = Pair.of_plain(plain)
            made = SegmentMap((Segment.of_plain(s) for s in segments), pair.bits)
            host.clocks[name] = LocalClock(pair, producer, made, closed, sealed, epoch)
        for topic, partition, offset, rows in data["waiting"]:
            host.reread[Origin(topic, partition, offset)] = [(a, b) for a, b in rows]
        return host


def _by_origin(item: tuple[Origin, object]) -> tuple[str, int, int]:
    origin = item[0]
    return origin.topic, origin.partition, origin.offset
