"""The one step that makes fleet time: hosts elect a reference, and all are mapped to it together.

Fleet time is the reference's MONOTONIC_RAW carried to UTC by a map that slews by at most 5 ppm towards the reference's
REALTIME. Hosts that exchange stamps, directly or over others, are one group. Their maps are decided cell by cell from
all links at once (`grid`); who is the reference, and what happens when that changes, is in `membership`.

What is published follows from the samples and promises in the order of their topic, whatever way they were batched:
samples are only fitted, and cells are decided at heartbeats.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from fleetscope.contracts.batch import Batch
from fleetscope.contracts.topics import CLOCK_LINKS
from fleetscope.snapshots import dump, load
from fleetscope.step import Output, TopicPartition
from processors.clocks.emission import RAW_CLOCK, Sink
from processors.clocks.fleet_state import NS, FleetState, Group, HostClock
from processors.clocks.grid import Grid, promised_ns
from processors.clocks.links import Edge
from processors.clocks.membership import Membership
from processors.clocks.pair import Pair, PairRules, add_probes, advance, finish
from processors.clocks.probes import Exchange, assumptions_for, exchanges, local_to_remote, remote_to_local

VERSION: Final = 2
UTC_CLOCK: Final = "realtime"
RUN_SLACK_NS: Final = 2 * NS
"""A stretch that begins this long before a clock's new run may belong to it."""


@dataclass(frozen=True, slots=True)
class FleetClockStep:
    """``elect_after`` readings of UTC by a host of a group start its election; ``no_utc_s`` without any elect a
    reference that has none. A cell waits ``patience_s`` beyond the limit of the rules for links that lag, and a host's
    own links are decided without it when it has been silent for ``silent_s``."""

    rules: PairRules = PairRules()
    elect_after: int = 3
    silent_s: float = 30.0
    patience_s: float = 3.0
    no_utc_s: float = 15.0
    utc_tolerance_s: float = 1.0

    name: str = "fleet_clocks"
    inputs: tuple[str, ...] = (CLOCK_LINKS.name,)
    broadcast: tuple[str, ...] = ()

    def start(self) -> FleetState:
        """Nothing known."""
        return FleetState()

    def on_batch(self, state: FleetState, batch: Batch) -> tuple[FleetState, list[Output]]:
        """Samples are fitted; heartbeats move time on, and only they decide something."""
        if not _is_new(state, batch):
            return state, []
        sink = Sink()
        if batch.header.contract == "clock_samples":
            self._samples(state, batch)
        elif batch.header.contract == "heartbeats":
            self._beat(state, batch, sink)
        return state, sink.outputs(state)

    def on_end(self, state: FleetState) -> list[Output]:
        """Decide what is left."""
        sink = Sink()
        over = {n for n, group in state.groups.items() if self._all_closed(state, group)}
        for host in state.hosts.values():
            host.closed = True
        for host in list(state.hosts.values()):
            self._membership.admit(state, host, sink, now=True)
        for host in state.hosts.values():
            if host.utc is not None:
                finish(host.utc, self._utc_rules())
                _take_utc(host)
            for edge in host.edges:
                if edge.local == host.name:
                    finish(edge.pair, self._raw_rules())
                    self._take(state, edge)
        for number in sorted(state.groups):
            if number in state.groups:
                self._work(state, state.groups[number], sink, flush=True)
            if number in state.groups and number not in over:
                self._membership.finish(state, state.groups[number], sink)
        return sink.outputs(state)

    def held(self, state: FleetState) -> Mapping[TopicPartition, int]:
        """Nothing waits: samples are part of the fits."""
        return {}

    def snapshot(self, state: FleetState) -> bytes:
        """All of the state: it has no waiting rows."""
        return dump(self.name, VERSION, state.plain())

    def restore(self, data: bytes) -> FleetState:
        """From ``snapshot``."""
        return FleetState.of_plain(load(data, self.name, VERSION))

    @property
    def _grid(self) -> Grid:
        return _membership(self).grid

    @property
    def _membership(self) -> Membership:
        return _membership(self)

    def _utc_rules(self) -> PairRules:
        return _rules(self.rules, UTC_CLOCK)

    def _raw_rules(self) -> PairRules:
        return _rules(self.rules, RAW_CLOCK)

    # samples

    def _samples(self, state: FleetState, batch: Batch) -> None:
        found, bad = exchanges(batch.rows, batch.header.flushed_ticks)
        state.bad_samples += bad
        me = state.host(batch.header.host)
        links: dict[str, list[Exchange]] = {}
        for exchange in found:
            if exchange.local_clock != RAW_CLOCK:
                state.bad_samples += 1
            elif exchange.remote_clock == UTC_CLOCK and exchange.remote_host in (None, me.name):
                self._utc(me, exchange)
            elif exchange.remote_clock == RAW_CLOCK and exchange.remote_host not in (None, me.name):
                links.setdefault(str(exchange.remote_host), []).append(exchange)
            else:
                state.bad_samples += 1
        rules = self._raw_rules()
        for remote, probes in links.items():
            edge = state.edge(me.name, remote)
            add_probes(edge.pair, [remote_to_local(e) for e in probes], rules)

    def _utc(self, host: HostClock, exchange: Exchange) -> None:
        probe = local_to_remote(exchange)
        host.note_reading(probe.x, (probe.lo + probe.hi) // 2)
        if host.keeps_utc:
            if host.utc is None:
                host.utc = Pair(NS)
            add_probes(host.utc, [probe], self._utc_rules())
            host.utc_seen = len(host.utc.nodes) + host.utc.steps

    # time

    def _beat(self, state: FleetState, batch: Batch, sink: Sink) -> None:
        rows = batch.rows.to_pydict()
        told = [(through, closed) for contract, through, closed
                in zip(rows["contract"], rows["through_ticks"], rows["closed"], strict=True)
                if contract == "clock_samples"]
        if not told:
            return
        host = state.host(batch.header.host)
        for through, closed in told:
            self._promise(state, host, through, closed)
        self._advance(state, host)
        self._membership.admit(state, host, sink)
        if host.group is not None:
            for other in [e.other(host.name) for e in host.edges]:
                self._membership.admit(state, state.hosts[other], sink)
            group = state.groups[host.group]
            self._grid.hear(state, group, host)
            self._touch(state, group, host, sink)
            # Where all have closed nobody's promise moves time on: what they sent last must not wait for that.
            self._work(state, group, sink, flush=self._all_closed(state, group))

    @staticmethod
    def _all_closed(state: FleetState, group: Group) -> bool:
        return all(state.hosts[m].closed for m in group.members)

    def _promise(self, state: FleetState, host: HostClock, through: int, closed: bool) -> None:
        """Every sample before ``through`` has been published."""
        if host.through is not None and through < host.through - NS:  # the host's clock began again
            if host.through_run == host.top_run:
                host.top_run += 1
                host.run_since = promised_ns(host)
            host.through_run, host.through, host.first = host.top_run, None, through
        host.first = through if host.first is None else host.first
        host.through = through if host.through is None else max(through, host.through)
        if host.sealed and not closed:
            host.sealed = False
        host.closed = closed

    def _advance(self, state: FleetState, host: HostClock) -> None:
        """Bring the fits of what the host measures as far as it promised."""
        assert host.through is not None
        if host.utc is not None:
            if host.closed:
                finish(host.utc, self._utc_rules())
            elif last := host.utc.burst or (host.utc.nodes[-1] if host.utc.nodes else None):
                advance(host.utc, last.hi + host.through - last.x, self._utc_rules())
            _take_utc(host)
        for edge in host.edges:
            if edge.local == host.name:
                if host.closed:
                    finish(edge.pair, self._raw_rules())
                else:
                    advance(edge.pair, host.through, self._raw_rules())
                self._take(state, edge)

    def _take(self, state: FleetState, edge: Edge) -> None:
        """Fetch what was decided of a link, and which run of either clock it belongs to."""

        def begun(name: str, run: int, other: str, tick: int) -> int:
            host = state.hosts[name]
            since = _fleet_time(state.hosts[other], tick)
            if run > host.top_run:
                host.top_run, host.run_since = run, since
                for known in host.edges:
                    if known is not edge:
                        _adopt(state, known, host)
            elif run < host.top_run and (since is None or host.run_since is None
                                         or since >= host.run_since - RUN_SLACK_NS):
                return host.top_run
            return run

        edge.take(begun)
        for name in (edge.local, edge.remote):  # a break that was no fall may have shown a run known from elsewhere
            host = state.hosts[name]
            if edge.runs[name == edge.local] < host.top_run:
                _adopt(state, edge, host)

    def _touch(self, state: FleetState, group: Group, host: HostClock, sink: Sink) -> None:
        """What the host's promise decided: links that lag no longer, neighbours that can catch up."""
        if group.tick is None and self._grid.begin(state, group):
            self._membership.begun(group, sink)
        if host.name == group.reference:
            group.utc_lag = group.utc_lag and self._grid.is_utc_awaited(host)
        behind = []
        for edge in host.edges:
            if edge.local == host.name:
                if edge.key in group.lag and not self._grid.is_awaited(state, edge):
                    group.lag.discard(edge.key)
                behind += [n for n in (edge.local, edge.remote) if not state.hosts[n].in_step]
        self._grid.follow(state, group, behind, sink)

    def _work(self, state: FleetState, group: Group, sink: Sink, *, flush: bool = False) -> None:
        """Decide the cells that can be decided; with ``flush`` all as far as the limit beyond what was promised."""
        grid, membership = self._grid, self._membership
        if group.tick is None and grid.begin(state, group):
            membership.begun(group, sink)
        membership.cut_run(state, group, sink)
        while group.number in state.groups and grid.is_ready(state, group, flush=flush):
            if state.hosts[group.reference].sealed and not membership.replace_sealed(state, group, sink):
                break
            grid.cell(state, group, sink)
            if not flush:
                membership.review(state, group, sink)
            self._hurry_silent(state, group)
            if group.number in state.groups:
                grid.await_links(state, group)

    def _hurry_silent(self, state: FleetState, group: Group) -> None:
        """Links of hosts that have said nothing for long are decided by the others' time."""
        for name in group.members:
            host = state.hosts[name]
            if host.in_step or host.closed or host.through is None or host.cursor is None or host.value is None:
                continue
            silent = host.cursor + group.fleet - host.value - self._grid.silent_ns
            if silent > host.through:
                host.through = silent
                self._advance(state, host)


@lru_cache(maxsize=64)
def _membership(step: FleetClockStep) -> Membership:
    limit_ns = round(step.rules.limit_s * NS)
    grid = Grid(limit_ns, limit_ns + round(step.patience_s * NS), round(step.silent_s * NS))
    return Membership(grid, step.elect_after, round(step.no_utc_s * NS), round(step.utc_tolerance_s * NS))


@lru_cache(maxsize=64)
def _rules(rules: PairRules, clock: str) -> PairRules:
    """MONOTONIC_RAW, the source, is never stepped."""
    return replace(rules, assumptions=assumptions_for(clock), steady_source=True)


def _take_utc(host: HostClock) -> None:
    assert host.utc is not None
    for piece in host.utc.take():
        if host.utc_segments and piece.valid_from < host.utc_segments[-1].valid_from:
            host.utc_segments.clear()  # the host's clock began again
        host.utc_segments.append(piece)


def _fleet_time(host: HostClock, tick: int) -> int | None:
    """Fleet time by the host's newest piece; None: it has no map yet."""
    return host.pieces[-1].at(tick) if host.pieces else None


def _adopt(state: FleetState, edge: Edge, host: HostClock) -> None:
    """The newest stretch of a link belongs to the host's new run where it began no earlier than that did."""
    if not edge.stretches:
        return
    stretch, remote = edge.stretches[-1], edge.remote == host.name
    began = _fleet_time(state.hosts[edge.other(host.name)], stretch.span(not remote)[0])
    slack = RUN_SLACK_NS if len(edge.stretches) > 1 else 0  # the first one began with the link, not with a break
    if began is None or host.run_since is None or began < host.run_since - slack:
        return
    if remote:
        stretch.remote_run, edge.runs = host.top_run, (host.top_run, edge.runs[1])
    else:
        stretch.local_run, edge.runs = host.top_run, (edge.runs[0], host.top_run)


def _is_new(state: FleetState, batch: Batch) -> bool:
    header = batch.header
    if batch.origin is not None:
        at = TopicPartition(batch.origin.topic, batch.origin.partition)
        if batch.origin.offset < state.next_offset.get(at, 0) and header.row0 == 0:
            return False
        state.next_offset[at] = max(state.next_offset.get(at, 0), batch.origin.offset + 1)
    total = header.rows if header.row0 + len(batch) <= header.rows else None
    return bool(state.ledger.add(state.lives.enter(header).stream, header.sequence, header.row0, len(batch), total))
