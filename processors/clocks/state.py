"""What is kept of one pair of clocks, and the rules it is fitted by."""

from __future__ import annotations

from bisect import insort
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from processors.clocks.hull import OPEN, Assumptions, Ints, Node, bounds_of, table
from processors.clocks.nominal import Change, Nominal
from processors.clocks.segments import Segment

KEPT_EVENTS: Final = 64

EPOCH_REASONS: Final = {
    "step": "a probe outside the bounds: a clock stepped, or its rate left what is assumed",
    "reset": "the source began again while the target went on",
    "reboot": "the clock of the measuring side began again",
    "stuck": "the source stood still while the target went on",
    "wrap": "silent so long that the wraps of a narrow counter cannot be told",
    "hz_changed": "the source is said to have another nominal frequency than before",
    "late_rate": "a change of rate became known after probes that follow it",
}
"""Why an epoch began."""
REFUSALS: Final = {
    "duplicate": "a probe that was taken before",
    "disordered": "a probe measured before one that was taken",
    "crossed": "a probe whose ends are crossed",
    "absurd": "a stamp that the counter cannot show, or a rate that cannot be",
    "outlier": "a probe that its burst or its neighbours contradict",
    "causality": "an order of events that the bounds exclude",
}
"""Why a probe was left out."""


@dataclass(frozen=True, slots=True)
class PairRules:
    """How a pair is fitted. Times in seconds of the source clock's nominal time.

    ``steady_source``: the source clock never steps, so that a step is the target's and no source tick comes twice.
    ``hold_s``: a burst waits so long for probes that are out of order. ``behind_s``: probes that come from before what
    was taken are disorder, until they have been ascending for so long: then the measuring clock began again.
    """

    assumptions: Assumptions = Assumptions()
    burst_s: float = 0.05
    settle_nodes: int = 2
    limit_s: float = 10.0
    cell_s: float = 1.0
    before_s: float = 5.0
    memory_nodes: int = 16
    steady_source: bool = False
    hold_s: float = 0.25
    behind_s: float = 1.5


class Rate(NamedTuple):
    """From source tick ``x`` on the source runs ``ppb`` faster than nominal; ``local``: target time (ns) then."""

    x: int
    ppb: int
    local: int
    at: int | None = None


class Event(NamedTuple):
    """Something named that happened to a pair: a key of EPOCH_REASONS or REFUSALS, where, and when by the target."""

    reason: str
    x: int
    local: int


Arrival = Node | Rate


def _room(rows: int = 64) -> Ints:
    return np.empty((rows, 4), np.int64)


@dataclass(slots=True)
class Pair:
    """State of one pair; ``source_hz`` ticks a second, the target counts ns. A counter of fewer ``bits`` wraps."""

    source_hz: int
    bits: int = 64
    epoch: int = 0
    nodes: list[Node] = field(default_factory=list)
    halves: list[Node] = field(default_factory=list)
    """One-sided constraints that say more than the nodes, ascending."""
    pending: list[Arrival] = field(default_factory=list)
    """What came of the newest burst, ascending in the moment of measurement."""
    behind: list[Node] = field(default_factory=list)
    """Probes from before what was taken, as long as none came that is not."""
    suspect: Node | None = None
    """A lone probe outside the bounds: the next one tells whether it is wrong or the clock stepped."""
    cell_from: int | None = None
    edge: tuple[int, int] | None = None
    """Bounds of the target at ``cell_from``, as the cell before ended: the map has no jumps inside an epoch."""
    standing: bool = False
    """The newest node shows the tick of the one before."""
    forced: str | None = None
    """Why the next node begins an epoch whatever it shows."""
    done: int | None = None
    """Moment of the newest probe that was taken out of ``pending``."""
    seen: tuple[int, int] | None = None
    """Source tick and target time of that probe: what unwraps the next."""
    grain: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    """Probes seen, tick and target time of the first, and the greatest common divisors of the distances from it."""
    counts: dict[str, int] = field(default_factory=dict)
    nominal: Nominal = field(init=False)
    segments: list[Segment] = field(default_factory=list)
    """Decided and not yet taken by the caller."""
    events: list[Event] = field(default_factory=list)
    """The newest, until the caller takes them."""
    times: list[int] = field(default_factory=list, compare=False)
    """Nominal time of each node."""
    ticks: list[int] = field(default_factory=list, compare=False)
    """Its tick."""
    _table: Ints = field(default_factory=_room, compare=False, repr=False)
    _filled: int = field(default=-1, compare=False, repr=False)
    """Rows of ``_table`` that hold the constraints; -1: it is to be made anew."""

    def __post_init__(self) -> None:
        self.nominal = Nominal(self.source_hz)

    @property
    def steps(self) -> int:
        """Epochs begun after the first."""
        return sum(self.counts.get(reason, 0) for reason in EPOCH_REASONS)

    @property
    def disordered(self) -> int:
        """Probes that were repeats, out of order or impossible."""
        return sum(self.counts.get(reason, 0) for reason in ("duplicate", "disordered", "crossed"))

    @property
    def burst(self) -> Node | None:
        """The newest probe that is not in a node yet."""
        return next((p for p in reversed(self.pending) if isinstance(p, Node)), None)

    @property
    def tick_ns(self) -> int:
        """By how much a stamp may lag: a tick, or the grain of a counter that advances by several, rounded up."""
        return self.nominal.longest_ns(self.coarse)

    @property
    def coarse(self) -> int:
        """By how many ticks the counter advances at a time, as far as its stamps show."""
        probes, _, _, grain, regular_ns = self.grain
        if probes < 4 or grain <= 1:
            return 1
        # Probes as regular as the stamps show their own rhythm, not the counter's.
        return grain if regular_ns * 2 < self.nominal.longest_ns(grain) else 1

    def note(self, reason: str, x: int, local: int) -> None:
        """Count what happened, and keep it as an event."""
        self.counts[reason] = self.counts.get(reason, 0) + 1
        self.events.append(Event(reason, x, local))
        del self.events[:-KEPT_EVENTS]

    def take(self) -> list[Segment]:
        """The segments decided since the last call."""
        taken, self.segments = self.segments, []
        return taken

    def take_events(self) -> list[Event]:
        """What happened since the last call; of more than KEPT_EVENTS the newest."""
        taken, self.events = self.events, []
        return taken

    def append(self, node: Node) -> None:
        """A node later than the others."""
        time, at = self.nominal.time(node.x), self._filled
        self.nodes.append(node)
        self.times.append(time)
        self.ticks.append(node.x)
        if self.halves or not 0 <= at < len(self._table):
            self._filled = -1
        else:
            self._table[at] = time, node.lo, node.hi, self.nominal.piece(node.x)
            self._filled += 1

    def add_half(self, half: Node, keep: int) -> None:
        """A one-sided constraint; the latest ``keep`` of them stay."""
        insort(self.halves, half, key=lambda n: n.x)
        del self.halves[:-keep]
        self._filled = -1

    def forget(self, count: int) -> None:
        """Drop the oldest ``count`` nodes and what stands before the rest."""
        del self.nodes[:count]
        del self.times[:count]
        del self.ticks[:count]
        first = self.ticks[0]
        if self.halves or self.nominal.changes or self._filled < 0:
            self.halves = [h for h in self.halves if h.x >= first]
            self.nominal.forget_before(min(first, self.cell_from if self.cell_from is not None else first))
            self._filled = -1
        else:
            self._filled -= count
            self._table[:self._filled] = self._table[count:count + self._filled].copy()

    def begin(self, hz: int) -> None:
        """Another frequency: nothing known holds any more."""
        self.clear()
        self.source_hz, self.nominal = hz, Nominal(hz)
        self.cell_from = self.done = self.seen = self.forced = None
        self.standing, self.grain = False, (0, 0, 0, 0, 0)

    def clear(self) -> None:
        """Forget all constraints."""
        self.nodes, self.times, self.ticks, self.halves, self.edge = [], [], [], [], None
        self._filled = -1

    def widen(self, by_ns: int) -> None:
        """Every constraint so far is less sure than it was by ``by_ns``."""
        self.nodes = [n._replace(lo=n.lo - by_ns, hi=n.hi + by_ns) for n in self.nodes]
        self.halves = [n._replace(lo=n.lo if n.lo <= -OPEN else n.lo - by_ns, hi=n.hi if n.hi >= OPEN else n.hi + by_ns)
                       for n in self.halves]
        self._filled = -1

    def constraints(self) -> Ints:
        """All of them as `hull.edges` takes them."""
        if self._filled < 0:
            every, times = self.nodes, self.times
            if self.halves:
                every = sorted((*self.nodes, *self.halves), key=lambda n: n.x)
                times = [self.nominal.time(n.x) for n in every]
            pieces = [self.nominal.piece(n.x) for n in every] if self.nominal.changes else None
            self._filled = len(every)
            if self._filled > len(self._table):
                self._table = _room(2 * self._filled)
            self._table[:self._filled] = table(times, every, pieces)
        return self._table[:self._filled]

    def bounds(self, x: int, nodes: Ints, rules: PairRules) -> tuple[int, float, float]:
        """`hull.bounds` at tick ``x`` by some of the `constraints`."""
        return bounds_of(nodes, self.nominal.time(x), rules.assumptions, self.nominal.piece(x))

    def plain(self) -> dict[str, Any]:
        """State as JSON has it, without decided segments and events."""
        return {
            "hz": self.source_hz, "bits": self.bits, "epoch": self.epoch, "nodes": [list(n) for n in self.nodes],
            "halves": [list(n) for n in self.halves],
            "pending": [[isinstance(p, Rate), *p] for p in self.pending], "behind": [list(n) for n in self.behind],
            "suspect": None if self.suspect is None else list(self.suspect), "cell_from": self.cell_from,
            "edge": None if self.edge is None else list(self.edge), "standing": self.standing, "forced": self.forced,
            "done": self.done, "seen": None if self.seen is None else list(self.seen), "grain": list(self.grain),
            "counts": dict(self.counts), "changes": [list(c) for c in self.nominal.changes],
        }

    @classmethod
    def of_plain(cls, data: dict[str, Any]) -> Pair:
        """From ``plain``."""
        pair = cls(data["hz"], data["bits"], data["epoch"])
        pair.nominal.changes = [Change(*c) for c in data["changes"]]
        for node in data["nodes"]:
            pair.append(Node(*node))
        pair.halves = [Node(*n) for n in data["halves"]]
        pair.pending = [Rate(*p) if is_rate else Node(*p) for is_rate, *p in data["pending"]]
        pair.behind = [Node(*n) for n in data["behind"]]
        pair.suspect = None if data["suspect"] is None else Node(*data["suspect"])
        pair.cell_from, pair.standing, pair.forced = data["cell_from"], data["standing"], data["forced"]
        pair.edge = None if data["edge"] is None else (data["edge"][0], data["edge"][1])
        pair.done = data["done"]
        pair.seen = None if data["seen"] is None else (data["seen"][0], data["seen"][1])
        probes, x, local, grain, regular = data["grain"]
        pair.grain = (probes, x, local, grain, regular)
        pair.counts = dict(data["counts"])
        return pair
