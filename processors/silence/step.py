"""`silence`: says in each silent host's own log that it is silent, and when it is heard again.

What a host promised cannot come true without it: rows that wait for its next clock readings, batches counted and not
come. Only the time of others can end that wait. This step reads the beats of all hosts in one order and publishes what
follows next to the silent host's own heartbeats: so `align` meets it at one place of a durable log, and its rows stay a
function of that log.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final

from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.derived import SILENCES
from fleetscope.contracts.topics import CLOCK_LINKS, RAW_TOPICS
from fleetscope.incarnations import Incarnations
from fleetscope.ledger import Ledger
from fleetscope.snapshots import dump, load
from fleetscope.step import Output, TopicPartition
from processors.silence.watch import Beat, Fleet, Limits, Told

VERSION: Final = 1


@dataclass(slots=True)
class State:
    """What was read, and who was heard when; ``sequences``: next numbers of what is published, by host."""

    fleet: Fleet = field(default_factory=Fleet)
    ledger: Ledger = field(default_factory=Ledger)
    lives: Incarnations = field(default_factory=Incarnations)
    sequences: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SilenceStep:
    """``missed``: a host is silent after so many of its usual intervals between beats: a consumer of Kafka is taken
    for dead after at least three, too. ``gone_s``: nobody waits longer for its readings. ``closed_s``: after a host
    ended regularly nobody waits longer for batches on their way."""

    missed: int = 3
    gone_s: float = 60.0
    closed_s: float = 10.0

    name: ClassVar[str] = "silence"
    inputs: ClassVar[tuple[str, ...]] = (CLOCK_LINKS.name,)
    broadcast: ClassVar[tuple[str, ...]] = ()

    def start(self) -> State:
        """Nobody known."""
        return State()

    def on_batch(self, state: State, batch: Batch) -> tuple[State, list[Output]]:
        """Heartbeats move the time of the fleet on; the rest is nothing to this step."""
        header = batch.header
        if header.contract != "heartbeats":
            return state, []
        total = header.rows if header.row0 + len(batch) <= header.rows else None
        stream = state.lives.enter(header).stream
        limits = Limits(self.missed, self.gone_s, self.closed_s)
        told: list[Told] = []
        for start, stop in state.ledger.add(stream, header.sequence, header.row0, len(batch), total):
            rows = batch.rows.slice(start - header.row0, stop - start)
            times, closed = rows.column("time_ticks").to_pylist(), rows.column("closed").to_pylist()
            for time, ends in zip(times, closed, strict=True):
                told += state.fleet.beat(Beat(header.host, header.epoch, time, ends), limits)
        return state, [_output(state, item) for item in told]

    def on_end(self, state: State) -> list[Output]:
        """Whoever is silent then stays so."""
        return []

    def held(self, state: State) -> Mapping[TopicPartition, int]:
        """Nothing waits."""
        return {}

    def snapshot(self, state: State) -> bytes:
        """All of the state."""
        return dump(self.name, VERSION, {"fleet": state.fleet.plain(), "ledger": state.ledger.to_plain(),
                                         "lives": state.lives.to_plain(), "sequences": state.sequences})

    def restore(self, data: bytes) -> State:
        """From ``snapshot``; raises ValueError for bytes of another step or version."""
        plain = load(data, self.name, VERSION)
        return State(Fleet.of_plain(plain["fleet"]), Ledger.from_plain(plain["ledger"]),
                     Incarnations.from_plain(plain["lives"]), plain["sequences"])


def _output(state: State, told: Told) -> Output:
    sequence = state.sequences.get(told.host, 0)
    state.sequences[told.host] = sequence + 1
    rows = from_rows(SILENCES, [{"state": told.state, "last_ticks": told.last, "now_ticks": told.now}])
    header = Header(SILENCES.name, SILENCES.version, told.host, "silence", 0, sequence, 1)
    return Output(RAW_TOPICS["heartbeats"].name, Batch(header, rows))
