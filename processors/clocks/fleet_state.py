"""What the fleet clock step keeps: hosts, links between them, and the groups that share a fleet time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from fleetscope.incarnations import Incarnations
from fleetscope.ledger import Ledger
from fleetscope.step import TopicPartition
from processors.clocks.links import Edge, Key
from processors.clocks.pair import Pair
from processors.clocks.segments import Segment

NS = 1_000_000_000
KEPT_READINGS = 16


@dataclass(slots=True)
class HostClock:
    """What is known of a host's reference clock, and how far its map to fleet time has come.

    The map is decided below tick ``cursor`` (None: it has not begun), where fleet time is ``value`` ± ``err`` (None
    after a gap). ``in_step``: the cursor stands at the group's newest boundary, and ``target`` is the tick of the next.
    ``run``: how often its clock began again, for the map; ``top_run`` for what is known; ``through_run`` for what was
    promised.
    """

    name: str
    utc: Pair | None = None
    utc_segments: list[Segment] = field(default_factory=list)
    utc_seen: int = 0
    keeps_utc: bool = True
    """Its UTC is fitted: it is the reference, or may be."""
    readings: list[tuple[int, int]] = field(default_factory=list)
    """Newest readings of UTC, half a second apart or more: MONOTONIC_RAW and REALTIME."""
    first: int | None = None
    """The first promise."""
    through: int | None = None
    closed: bool = False
    group: int | None = None
    run: int = 0
    top_run: int = 0
    through_run: int = 0
    run_since: int | None = None
    """Fleet time at which the newest run began; None: not known."""
    epoch: int = 0
    cursor: int | None = None
    value: int | None = None
    err: int | None = None
    sure: bool = False
    """``err`` rests on settled links alone."""
    in_step: bool = False
    target: int = 0
    pieces: list[Segment] = field(default_factory=list)
    """The newest of its map in this run."""
    sealed: bool = False
    """The map was ended: its producer closed."""
    moved: bool = False
    """It came over from another fleet time: the map may jump once."""
    edges: list[Edge] = field(default_factory=list, compare=False)

    def note_reading(self, raw: int, real: int) -> None:
        """Keep a reading of UTC."""
        if not self.readings or not 0 <= raw - self.readings[-1][0] < NS // 2:
            self.readings.append((raw, real))
            del self.readings[:-KEPT_READINGS]

    def plain(self) -> dict[str, Any]:
        """State as JSON has it."""
        made = {name: getattr(self, name) for name in _PLAIN}
        return {**made, "utc": None if self.utc is None else [self.utc.plain(),
                                                              [s.plain() for s in self.utc.segments]],
                "utc_segments": [s.plain() for s in self.utc_segments], "pieces": [s.plain() for s in self.pieces],
                "readings": [list(r) for r in self.readings]}

    @classmethod
    def of_plain(cls, data: dict[str, Any]) -> HostClock:
        """From ``plain``."""
        made = cls(**{name: data[name] for name in _PLAIN})
        if data["utc"] is not None:
            made.utc = Pair.of_plain(data["utc"][0])
            made.utc.segments = [Segment.of_plain(s) for s in data["utc"][1]]
        made.utc_segments = [Segment.of_plain(s) for s in data["utc_segments"]]
        made.pieces = [Segment.of_plain(s) for s in data["pieces"]]
        made.readings = [(raw, real) for raw, real in data["readings"]]
        return made


_PLAIN = ("name", "utc_seen", "keeps_utc", "first", "through", "closed", "group", "run", "top_run", "through_run",
          "run_since", "epoch", "cursor", "value", "err", "sure", "in_step", "target", "sealed", "moved")


@dataclass(slots=True)
class Incident:
    """Something wrong that is not over. ``last_ns``: when it was seen last, in fleet time."""

    kind: str
    host: str
    start_ns: int
    last_ns: int
    evidence: dict[str, Any]


@dataclass(slots=True)
class Group:
    """Hosts that share a fleet time. ``tick`` of the reference is fleet time ``fleet``: the newest boundary decided.

    ``ppb``: rate of fleet time against the reference in the next cell. ``now``: how far, in fleet time, any member has
    promised. ``handover``: bound between fleet times of this reference and of the one before, counted until
    ``handover_until``.
    """

    number: int
    reference: str
    tick: int | None = None
    fleet: int = 0
    ppb: int = 0
    now: int | None = None
    utc_usable: bool = True
    handover: int = 0
    handover_until: int = 0
    utc_epoch: int | None = None
    outvoted: int = 0
    """Cells in a row in which the others' UTC was against the reference's."""
    lying: dict[Key, int] = field(default_factory=dict)
    """Links that are left out, until this fleet time."""
    suspects: dict[Key, int] = field(default_factory=dict)
    incidents: list[Incident] = field(default_factory=list)
    members: list[str] = field(default_factory=list)
    lag: set[Key] = field(default_factory=set)
    """Links that the next cell waits for."""
    utc_lag: bool = False

    def plain(self) -> dict[str, Any]:
        """State as JSON has it."""
        made = {name: getattr(self, name) for name in _GROUP}
        return {**made, "lying": [[*k, v] for k, v in sorted(self.lying.items())],
                "suspects": [[*k, v] for k, v in sorted(self.suspects.items())], "lag": sorted(self.lag),
                "incidents": [[i.kind, i.host, i.start_ns, i.last_ns, i.evidence] for i in self.incidents]}

    @classmethod
    def of_plain(cls, data: dict[str, Any]) -> Group:
        """From ``plain``."""
        made = cls(**{name: data[name] for name in _GROUP})
        made.lying = {(a, b): v for a, b, v in data["lying"]}
        made.suspects = {(a, b): v for a, b, v in data["suspects"]}
        made.lag = {(a, b) for a, b in data["lag"]}
        made.incidents = [Incident(*i) for i in data["incidents"]]
        return made


_GROUP = ("number", "reference", "tick", "fleet", "ppb", "now", "utc_usable", "handover", "handover_until", "outvoted",
          "utc_epoch", "members", "utc_lag")


@dataclass(slots=True)
class FleetState:
    """State of the fleet clock step."""

    hosts: dict[str, HostClock] = field(default_factory=dict)
    edges: dict[Key, Edge] = field(default_factory=dict)
    groups: dict[int, Group] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    lives: Incarnations = field(default_factory=Incarnations)
    next_offset: dict[TopicPartition, int] = field(default_factory=dict)
    bad_samples: int = 0
    groups_made: int = 0
    admit_after: int = 0
    """Heartbeats of hosts without a group to let pass before an election is tried again."""
    sequences: dict[str, int] = field(default_factory=dict)

    def host(self, name: str) -> HostClock:
        """The host called ``name``."""
        if name not in self.hosts:
            self.hosts[name] = HostClock(name)
        return self.hosts[name]

    def edge(self, local: str, remote: str) -> Edge:
        """The link that ``local`` measures."""
        found = self.edges.get((local, remote))
        if found is None:
            one, other = self.host(local), self.host(remote)
            found = self.edges[local, remote] = Edge(local, remote, Pair(NS), runs=(other.top_run, one.top_run))
            one.edges.append(found)
            other.edges.append(found)
        return found

    def links_of(self, group: Group) -> Iterator[Edge]:
        """Links measured by members of the group."""
        for name in group.members:
            for edge in self.hosts[name].edges:
                if edge.local == name:
                    yield edge

    def plain(self) -> dict[str, Any]:
        """State as JSON has it."""
        return {"hosts": [h.plain() for h in self.hosts.values()],
                "edges": [e.plain() for e in self.edges.values()],
                "groups": [g.plain() for g in self.groups.values()],
                "ledger": self.ledger.to_plain(), "lives": self.lives.to_plain(), "bad": self.bad_samples,
                "made": self.groups_made, "admit_after": self.admit_after,
                "sequences": self.sequences,
                "next": [[*at, offset] for at, offset in sorted(self.next_offset.items())]}

    @classmethod
    def of_plain(cls, data: dict[str, Any]) -> FleetState:
        """From ``plain``."""
        state = cls(ledger=Ledger.from_plain(data["ledger"]), lives=Incarnations.from_plain(data["lives"]),
                    bad_samples=data["bad"], groups_made=data["made"], admit_after=data["admit_after"],
                    sequences=dict(data["sequences"]),
                    next_offset={TopicPartition(t, p): o for t, p, o in data["next"]})
        state.hosts = {h["name"]: HostClock.of_plain(h) for h in data["hosts"]}
        for plain in data["edges"]:
            edge = Edge.of_plain(plain)
            state.edges[edge.key] = edge
        for edge in state.edges.values():
            state.hosts[edge.local].edges.append(edge)
            state.hosts[edge.remote].edges.append(edge)
        state.groups = {g["number"]: Group.of_plain(g) for g in data["groups"]}
        return state
