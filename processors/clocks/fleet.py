"""The one step that makes fleet time: hosts elect a reference, every other host is mapped to it.

Fleet time is the reference's MONOTONIC_RAW carried to UTC by a map that slews by at most 5 ppm towards the reference's
REALTIME. Hosts that exchange stamps, directly or over others, are one component and share a reference; a host without
exchanges is its own. Maps over several hops are composed piece by piece and their bounds add.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fleetscope.contracts.batch import Batch, Header
from fleetscope.contracts.topics import CLOCK_LINKS, FLEET_SEGMENTS
from fleetscope.incarnations import Incarnations
from fleetscope.ledger import Ledger
from fleetscope.snapshots import dump, load
from fleetscope.step import Output, TopicPartition
from processors.clocks.compose import beyond, compose, slew
from processors.clocks.pair import Pair, PairRules, add_probes, advance, finish
from processors.clocks.probes import Exchange, assumptions_for, exchanges, local_to_remote, remote_to_local
from processors.clocks.segments import Segment, SegmentMap, segment_rows

VERSION: Final = 1
RAW_CLOCK: Final = "monotonic_raw"
UTC_CLOCK: Final = "realtime"
FLEET_CLOCK: Final = "fleet"
KEEP_S: Final = 30


@dataclass(slots=True)
class Edge:
    """Exchanges measured by ``local`` with ``remote``; before the election they are kept, afterwards fitted."""

    local: str
    remote: str
    waiting: list[Exchange] = field(default_factory=list)
    pair: Pair | None = None
    towards_local: bool = True


@dataclass(slots=True)
class HostClock:
    """What is known of a host. ``reference`` None: not elected yet; equal to its own id: it is the reference."""

    utc: Pair = field(default_factory=lambda: Pair(1_000_000_000))
    utc_seen: int = 0
    reference: str | None = None
    parent: tuple[str, str] | None = None
    """Key of the edge towards the parent."""
    through: int | None = None
    closed: bool = False
    fleet_at: int | None = None
    pending: list[Segment] = field(default_factory=list)
    map: SegmentMap = field(default_factory=SegmentMap)
    sealed: bool = False
    """The end of a closed host's map was said."""
    sequence: int = 0


@dataclass(slots=True)
class FleetState:
    """State of the fleet clock step."""

    hosts: dict[str, HostClock] = field(default_factory=dict)
    edges: dict[tuple[str, str], Edge] = field(default_factory=dict)
    ledger: Ledger = field(default_factory=Ledger)
    lives: Incarnations = field(default_factory=Incarnations)
    next_offset: dict[TopicPartition, int] = field(default_factory=dict)
    bad_samples: int = 0


@dataclass(frozen=True, slots=True)
class FleetClockStep:
    """``elect_after`` readings of UTC by any host of a component start its election: the lowest host id wins.

    ``silent_s``: others wait for a host that says nothing no longer than this; then its map goes on provisionally.
    """

    rules: PairRules = PairRules()
    elect_after: int = 3
    silent_s: float = 60.0

    name: str = "fleet_clocks"
    inputs: tuple[str, ...] = (CLOCK_LINKS.name,)
    broadcast: tuple[str, ...] = ()

    def start(self) -> FleetState:
        """Nothing known."""
        return FleetState()

    def on_batch(self, state: FleetState, batch: Batch) -> tuple[FleetState, list[Output]]:
        """Samples are fitted, heartbeats move time on."""
        if not _is_new(state, batch):
            return state, []
        if batch.header.contract == "clock_samples":
            self._samples(state, batch)
        elif batch.header.contract == "heartbeats":
            self._beat(state, batch)
        self._elect(state)
        return state, self._emit(state)

    def on_end(self, state: FleetState) -> list[Output]:
        """Decide what is left."""
        for host in state.hosts.values():
            host.closed = True
        self._elect(state, now=True)
        for host in state.hosts.values():
            finish(host.utc, self._utc_rules())
        for edge in state.edges.values():
            if edge.pair:
                finish(edge.pair, self._raw_rules())
        return self._emit(state)

    def held(self, state: FleetState) -> Mapping[TopicPartition, int]:
        """Nothing waits: kept exchanges are part of the snapshot."""
        return {}

    def snapshot(self, state: FleetState) -> bytes:
        """All of the state: it has no waiting rows."""
        return dump(self.name, VERSION, _plain(state))

    def restore(self, data: bytes) -> FleetState:
        """From ``snapshot``."""
        return _of_plain(load(data, self.name, VERSION))

    def _utc_rules(self) -> PairRules:
        return replace(self.rules, assumptions=assumptions_for(UTC_CLOCK), steady_source=True)

    def _raw_rules(self) -> PairRules:
        """MONOTONIC_RAW is never stepped."""
        return replace(self.rules, steady_source=True)

    def _samples(self, state: FleetState, batch: Batch) -> None:
        found, bad = exchanges(batch.rows, batch.header.flushed_ticks)
        state.bad_samples += bad
        me = batch.header.host
        for exchange in found:
            host = state.hosts.setdefault(me, HostClock())
            if exchange.local_clock != RAW_CLOCK:
                state.bad_samples += 1
            elif exchange.remote_clock == UTC_CLOCK and exchange.remote_host in (None, me):
                add_probes(host.utc, [local_to_remote(exchange)], self._utc_rules())
                host.utc_seen = len(host.utc.nodes) + host.utc.steps
            elif exchange.remote_clock == RAW_CLOCK and exchange.remote_host not in (None, me):
                remote = str(exchange.remote_host)
                state.hosts.setdefault(remote, HostClock())
                edge = state.edges.setdefault((me, remote), Edge(me, remote))
                edge.waiting.append(exchange)
                self._feed(edge)
            else:
                state.bad_samples += 1

    def _feed(self, edge: Edge) -> None:
        if edge.pair is None:
            del edge.waiting[:-4096]  # bounded while no reference is elected
            return
        convert = remote_to_local if edge.towards_local else local_to_remote
        add_probes(edge.pair, [convert(e) for e in edge.waiting], self._raw_rules())
        edge.waiting.clear()

    def _beat(self, state: FleetState, batch: Batch) -> None:
        host = state.hosts.setdefault(batch.header.host, HostClock())
        rows = batch.rows.to_pydict()
        for contract, through, closed in zip(rows["contract"], rows["through_ticks"], rows["closed"], strict=True):
            if contract == "clock_samples":
                host.through = max(through, host.through or through)
                host.closed = closed
        self._advance(state, batch.header.host)
        self._pull(state, batch.header.host)

    def _pull(self, state: FleetState, name: str) -> None:
        """Move the neighbours of ``name`` in the tree on, if they have been silent for long by its clock."""
        host = state.hosts[name]
        if host.through is None or host.closed:
            return
        keys = [h.parent for n, h in state.hosts.items() if h.parent is not None and (n == name or name in h.parent)]
        for key in keys:
            edge, other = state.edges[key], _other(key, name)
            if edge.pair is None or not edge.pair.nodes:
                continue
            last = edge.pair.nodes[-1]
            source = edge.remote if edge.towards_local else edge.local
            now = last.hi + host.through - last.x if source == name else last.x + host.through - last.hi
            silent = now - round(self.silent_s * 1_000_000_000)
            if silent > (state.hosts[other].through or silent) and not state.hosts[other].closed:
                state.hosts[other].through = silent
                self._advance(state, other)

    def _advance(self, state: FleetState, name: str) -> None:
        """The host ``name`` has published every sample before ``through``."""
        host = state.hosts[name]
        if host.through is None:
            return
        if host.closed:
            finish(host.utc, self._utc_rules())
        elif host.utc.nodes:
            last = host.utc.nodes[-1]
            advance(host.utc, last.hi + host.through - last.x, self._utc_rules())
        for edge in state.edges.values():
            if edge.local != name or edge.pair is None:
                continue
            if host.closed:
                finish(edge.pair, self._raw_rules())
            elif edge.towards_local:
                advance(edge.pair, host.through, self._raw_rules())
            elif edge.pair.nodes:
                last = edge.pair.nodes[-1]
                advance(edge.pair, last.hi + host.through - last.x, self._raw_rules())

    def _elect(self, state: FleetState, *, now: bool = False) -> None:
        for name in sorted(state.hosts):
            host = state.hosts[name]
            if host.reference is not None or (host.utc_seen < self.elect_after and not (now or host.closed)):
                continue
            members = _component(state, name)
            elected = [state.hosts[m].reference for m in members if state.hosts[m].reference]
            candidates = [m for m in members if state.hosts[m].utc.nodes or state.hosts[m].utc.burst]
            if elected or candidates:
                self._span(state, str(elected[0]) if elected else min(candidates))

    def _span(self, state: FleetState, reference: str) -> None:
        """A breadth-first tree of the component from the reference; hosts already in it stay where they are."""
        state.hosts[reference].reference = reference
        queue = deque(sorted(n for n, h in state.hosts.items() if h.reference == reference))
        while queue:
            parent = queue.popleft()
            for key in sorted(state.edges):
                if parent not in key:
                    continue
                child = key[0] if key[1] == parent else key[1]
                host, edge = state.hosts[child], state.edges[key]
                if host.reference is not None or not edge.waiting:
                    continue
                host.reference, host.parent = reference, key
                edge.towards_local = edge.remote == child
                edge.pair = Pair(1_000_000_000)
                self._feed(edge)
                queue.append(child)
        for name in sorted(state.hosts):
            if state.hosts[name].reference == reference:
                self._advance(state, name)

    def _emit(self, state: FleetState) -> list[Output]:
        outputs: list[Output] = []
        for name in _parents_first(state):
            host = state.hosts[name]
            if host.reference is None:
                continue
            if host.reference == name:
                ready, host.fleet_at = slew(host.utc.take(), host.fleet_at)
            else:
                assert host.parent is not None
                host.utc.take()  # only the reference's UTC counts
                pair = state.edges[host.parent].pair
                assert pair is not None
                host.pending.extend(pair.take())
                parent = state.hosts[_other(host.parent, name)]
                ready = compose(host.pending, parent.map, final=parent.closed)
            if host.closed and not host.pending and not host.sealed and (ready or host.map.segments):
                ready.append(beyond((ready or host.map.segments)[-1]))
                host.sealed = True
            elif not host.closed:
                host.sealed = False
            if ready:
                host.map.extend(ready)
                host.map.forget_before(host.map.segments[-1].valid_from - KEEP_S * 1_000_000_000)
                outputs.append(_output(name, host, ready))
        return outputs


def _is_new(state: FleetState, batch: Batch) -> bool:
    header = batch.header
    if batch.origin is not None:
        at = TopicPartition(batch.origin.topic, batch.origin.partition)
        if batch.origin.offset < state.next_offset.get(at, 0) and header.row0 == 0:
            return False
        state.next_offset[at] = max(state.next_offset.get(at, 0), batch.origin.offset + 1)
    total = header.rows if header.row0 + len(batch) <= header.rows else None
    return bool(state.ledger.add(state.lives.enter(header).stream, header.sequence, header.row0, len(batch), total))


def _other(key: tuple[str, str], name: str) -> str:
    return key[0] if key[1] == name else key[1]


def _component(state: FleetState, name: str) -> list[str]:
    found, queue = {name}, [name]
    while queue:
        at = queue.pop()
        for key in state.edges:
            if at in key and (other := _other(key, at)) not in found:
                found.add(other)
                queue.append(other)
    return sorted(found)


def _parents_first(state: FleetState) -> list[str]:
    def depth(name: str) -> int:
        parent = state.hosts[name].parent
        return 0 if parent is None else 1 + depth(_other(parent, name))

    return sorted(state.hosts, key=lambda n: (depth(n), n))


def _output(name: str, host: HostClock, segments: list[Segment]) -> Output:
    rows = segment_rows(name, RAW_CLOCK, str(host.reference), FLEET_CLOCK, segments)
    header = Header("segments", 1, name, f"fleet_clocks/{name}", 0, host.sequence, len(segments), clock=RAW_CLOCK)
    host.sequence += 1
    return Output(FLEET_SEGMENTS.name, Batch(header, rows))


def _plain(state: FleetState) -> dict[str, Any]:
    return {
        "hosts": {name: {
            "utc": h.utc.plain(), "segments": [s.plain() for s in h.utc.segments], "utc_seen": h.utc_seen,
            "reference": h.reference, "parent": h.parent, "through": h.through, "closed": h.closed,
            "fleet_at": h.fleet_at, "pending": [s.plain() for s in h.pending],
            "map": [s.plain() for s in h.map.segments], "sealed": h.sealed, "sequence": h.sequence,
        } for name, h in state.hosts.items()},
        "edges": [{
            "local": e.local, "remote": e.remote, "towards_local": e.towards_local,
            "waiting": [[getattr(x, f) for f in Exchange.__dataclass_fields__] for x in e.waiting],
            "pair": None if e.pair is None else e.pair.plain(),
        } for _, e in sorted(state.edges.items())],
        "ledger": state.ledger.to_plain(), "lives": state.lives.to_plain(), "bad": state.bad_samples,
        "next": [[*at, offset] for at, offset in sorted(state.next_offset.items())],
    }


def _of_plain(data: dict[str, Any]) -> FleetState:
    state = FleetState(ledger=Ledger.from_plain(data["ledger"]), lives=Incarnations.from_plain(data["lives"]),
                       bad_samples=data["bad"],
                       next_offset={TopicPartition(t, p): o for t, p, o in data["next"]})
    for name, h in data["hosts"].items():
        utc = Pair.of_plain(h["utc"])
        utc.segments = [Segment.of_plain(s) for s in h["segments"]]
        state.hosts[name] = HostClock(
            utc, h["utc_seen"], h["reference"], tuple(h["parent"]) if h["parent"] else None, h["through"], h["closed"],
            h["fleet_at"], [Segment.of_plain(s) for s in h["pending"]],
            SegmentMap(Segment.of_plain(s) for s in h["map"]), h["sealed"], h["sequence"])
    for e in data["edges"]:
        state.edges[e["local"], e["remote"]] = Edge(
            e["local"], e["remote"], [Exchange(*x) for x in e["waiting"]],
            None if e["pair"] is None else Pair.of_plain(e["pair"]), e["towards_local"])
    return state
