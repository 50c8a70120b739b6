"""Fleet time of a whole group, one cell of a second after the other.

A cell is decided for all hosts together: at its end the links, each good to its own bound, allow every host an interval
(`loops`). A link counts if no break falls into the cell. The cell waits for every link that was heard of lately, and
no longer than ``patience_ns`` by what members promised. Hosts that no such link reaches fall out of step and follow
their neighbours piece by piece (`catching`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from processors.clocks.catching import BOW_NS, DRIFT, KEEP_PIECES, Catching, late_ns, put, seal
from processors.clocks.emission import Sink
from processors.clocks.fixed import mul_q32_one
from processors.clocks.fleet_state import NS, FleetState, Group, HostClock, Incident
from processors.clocks.links import Edge, Key
from processors.clocks.loops import Links, Solution, solve
from processors.clocks.segments import Segment
from processors.clocks.utc import UtcCell, slew_ppb, utc_at, utc_cell

BURST_NS: Final = 50_000_000
MOVE_LIMIT_NS: Final = 10 * NS
"""A promise moves the group's time by no more: one wrong clock must not decide for all."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Times in ns of fleet time. ``quarantine_ns``: a link that lied is left out for so long after it last did."""

    limit_ns: int
    patience_ns: int
    silent_ns: int
    quarantine_ns: int = 60 * NS
    cell_ns: int = NS

    @property
    def fresh_ns(self) -> int:
        """A link (or host) that was not heard of for longer is waited for no more."""
        return self.limit_ns // 2

    @property
    def catching(self) -> Catching:
        """How hosts out of step go on."""
        return Catching(self.limit_ns, self.cell_ns)

    def begin(self, state: FleetState, group: Group) -> bool:
        """Find the first boundary: where UTC of the reference begins; without UTC, where anything is known."""
        host = state.hosts[group.reference]
        if host.run != host.top_run:
            host.run = host.top_run
        first = next((s for s in host.utc_segments if s.err_ns is not None), next(iter(host.utc_segments), None))
        if first is not None:
            start, group.fleet, group.utc_epoch = first.valid_from, first.at(first.valid_from), first.epoch
        elif not group.utc_usable and host.through is not None:
            start = (host.first if host.first is not None else host.through) - 5 * NS
            group.fleet = max(start, 0)
        else:
            return False
        host.cursor, host.value, host.err, host.in_step = start, group.fleet, 0, True
        # The first reading of all clocks is at about the same time: boundaries stand just after it.
        group.tick, group.ppb, host.target = start, 0, start + BURST_NS
        self.await_links(state, group)
        return True

    def hear(self, state: FleetState, group: Group, host: HostClock) -> None:
        """A member has promised something: time goes on."""
        promised = promised_ns(host)
        if promised is not None:
            group.now = promised if group.now is None else max(group.now, min(promised, group.now + MOVE_LIMIT_NS))

    def is_ready(self, state: FleetState, group: Group, *, flush: bool) -> bool:
        """True where the next cell can be decided, or must."""
        if group.tick is None:
            return False
        end = group.fleet + self._cell_ns(state, group)
        if flush:
            promised = [p for m in group.members if (p := promised_ns(state.hosts[m])) is not None]
            return group.fleet < max(promised, default=0) + self.limit_ns
        if group.now is None or group.now < end:
            return False
        return (not group.lag and not group.utc_lag) or group.now >= end + self.patience_ns

    def _cell_ns(self, state: FleetState, group: Group) -> int:
        """Length of the next cell by the reference."""
        root = state.hosts[group.reference]
        return self.cell_ns if root.cursor is None else root.target - root.cursor

    def follow(self, state: FleetState, group: Group, hosts: Iterable[str], sink: Sink) -> None:
        """Let hosts out of step catch up, and those behind them."""
        queue = [h for h in dict.fromkeys(hosts) if not state.hosts[h].in_step]
        waiting = set(queue)
        while queue:
            name = queue.pop(0)
            waiting.discard(name)
            host = state.hosts[name]
            if host.group != group.number or host.in_step or host.sealed:
                continue
            moved = self.catching.catch_up(state, group, host, sink)
            if host.in_step:
                host.target = _target(host, group, self._cell_ns(state, group))
            if moved:
                for other in (edge.other(name) for edge in host.edges):
                    if other not in waiting and not state.hosts[other].in_step:
                        waiting.add(other)
                        queue.append(other)

    def cell(self, state: FleetState, group: Group, sink: Sink) -> None:
        """Decide one cell."""
        self.follow(state, group, group.members, sink)
        assert group.tick is not None
        root = state.hosts[group.reference]
        hosts = [h for m in group.members if (h := state.hosts[m]).in_step]
        edges, links = _links(state, group, hosts)
        suspects = [i for i, e in enumerate(edges) if e.key in group.suspects]
        solution = solve(links, suspects, elsewhere=len(suspects) < len(group.suspects))
        length = self._cell_ns(state, group)
        end = group.fleet + length + group.ppb * length // NS
        utc = utc_cell(root, group, root.target, end)
        self._blame(state, group, edges, solution, end, sink)
        group.tick, group.fleet = root.target, end
        if group.handover_until <= end:
            group.handover = 0
        self._write(group, hosts, edges, links, solution, utc, sink)
        group.ppb = slew_ppb(utc_at(root, group.tick), end)
        for host in hosts:
            if host.in_step:
                host.target = _target(host, group, self.cell_ns)
        for host in (state.hosts[m] for m in group.members):
            if host.closed and not host.sealed and self._is_over(group, host):
                seal(host, group, sink)
        self._forget(state, group, hosts)

    def _write(self, group: Group, hosts: list[HostClock], edges: list[Edge], links: Links, solution: Solution,
               utc: UtcCell, sink: Sink) -> None:
        sure = _settled(links, edges, solution, hosts)
        reached = solution.bounds.reached.tolist()
        low, high, value = solution.bounds.low.tolist(), solution.bounds.high.tolist(), solution.value.tolist()
        late = late_ns(group)
        for i, host in enumerate(hosts):
            if not reached[i]:
                host.in_step = False
                continue
            start, first = host.cursor, host.value
            assert start is not None
            assert first is not None
            stop, last = host.target, group.fleet + value[i]
            rate = ((last - first) << 32) // (stop - start)
            if i == links.root:
                for a, b, epochs, utc_err, state in utc.parts:
                    host.epoch += epochs
                    put(host, group, sink, Segment(host.epoch, a, b, a, first + mul_q32_one(a - start, rate), rate,
                                                   1 + group.handover, _plus(utc_err, group.handover), state,
                                                   stop + late))
                host.err = 0
            else:
                err = max(high[i] - value[i], value[i] - low[i])
                bound = max(err, host.err or 0) + group.handover + BOW_NS + 2
                put(host, group, sink, Segment(
                    host.epoch, start, stop, start, first, rate, bound,
                    _plus(utc.err_ns, bound), "settled" if sure[i] and host.sure else "provisional", stop + late))
                host.err = err
            host.sure = sure[i]
            host.cursor, host.value = stop, last

    def _blame(self, state: FleetState, group: Group, edges: list[Edge], solution: Solution, end: int,
               sink: Sink) -> None:
        """Keep what lied out of the next cells, and say so."""
        for number in sorted(solution.lying):
            key = edges[number].key
            group.lying[key] = end + self.quarantine_ns
            group.suspects.clear()
            self._accuse(group, [key], end, "excluded", sink)
        if solution.suspects:
            named = [edges[i].key for i in sorted(solution.suspects)]
            seen = {e.key for e in edges}
            if any(k in seen and k not in named for k in group.suspects):  # fewer explain it now
                group.suspects.clear()
            fresh = not group.suspects
            for key in named:
                group.suspects.setdefault(key, end + self.quarantine_ns)
            if fresh:
                self._accuse(group, named, end, "one of these", sink)
        for key in [k for k, until in group.suspects.items() if until <= end]:
            del group.suspects[key]
        for key in [k for k, until in group.lying.items() if until <= end]:
            del group.lying[key]
        for incident in [i for i in group.incidents if i.kind == "clock_contradiction"]:
            if all((a, b) not in group.lying and (a, b) not in group.suspects for a, b in incident.evidence["links"]):
                incident.last_ns = end
                sink.over(group, incident)

    def _accuse(self, group: Group, keys: list[Key], end: int, how: str, sink: Sink) -> None:
        links = [list(k) for k in keys]
        if not any(i.kind == "clock_contradiction" and i.evidence["links"] == links for i in group.incidents):
            sink.begin(group, Incident("clock_contradiction", keys[0][0], end - self.cell_ns, end,
                                       {"links": links, "verdict": how, "reference": group.reference}))

    def await_links(self, state: FleetState, group: Group) -> None:
        """Note the links that the next cell waits for."""
        group.lag = {e.key for e in state.links_of(group) if self.is_awaited(state, e)}
        root = state.hosts[group.reference]
        group.utc_lag = self.is_utc_awaited(root)

    def is_utc_awaited(self, root: HostClock) -> bool:
        """True where the reference's UTC was read lately and is not decided to the end of the next cell."""
        if root.utc is None or not root.utc.nodes or root.utc.nodes[-1].x < root.target - self.fresh_ns:
            return False
        return not root.utc_segments or root.utc_segments[-1].valid_to <= root.target

    def is_awaited(self, state: FleetState, edge: Edge) -> bool:
        """True where the link was heard of lately and is not decided to the end of the next cell."""
        local, remote = state.hosts[edge.local], state.hosts[edge.remote]
        if local.group != remote.group or not self.is_fresh(state, edge):
            return False
        if remote.in_step:
            return edge.through is None or edge.through <= remote.target
        if not edge.stretches:
            return True
        last = edge.stretches[-1].pieces[-1]
        return last.at(last.valid_to) <= local.target

    def is_fresh(self, state: FleetState, edge: Edge) -> bool:
        """True where an exchange stands within ``fresh_ns`` of the next boundary of either host."""
        if not edge.pair.nodes or edge.runs != (state.hosts[edge.remote].run, state.hosts[edge.local].run):
            return False
        local, remote, node = state.hosts[edge.local], state.hosts[edge.remote], edge.pair.nodes[-1]
        return ((remote.in_step and node.x >= remote.target - self.fresh_ns)
                or (local.in_step and node.local >= local.target - self.fresh_ns))

    def _is_over(self, group: Group, host: HostClock) -> bool:
        """True where a host that closed needs no map any more."""
        promised = promised_ns(host)
        return promised is not None and promised + self.limit_ns + 2 * self.cell_ns <= group.fleet

    def _forget(self, state: FleetState, group: Group, hosts: list[HostClock]) -> None:
        for host in hosts:
            behind = any(not state.hosts[e.other(host.name)].in_step for e in host.edges)
            keep = KEEP_PIECES if behind else 4
            if len(host.pieces) > 2 * keep:
                del host.pieces[:-keep]
            if len(host.utc_segments) > 32:
                del host.utc_segments[:-16]
            for edge in host.edges:
                if edge.local == host.name and edge.stretches and len(edge.stretches[0].pieces) > 8:
                    remote = state.hosts[edge.remote]
                    if remote.cursor is not None and host.cursor is not None:
                        edge.forget(remote.cursor, host.cursor)


def promised_ns(host: HostClock) -> int | None:
    """Fleet time of a host's newest promise, by its newest piece; None: it has no map."""
    if host.through is None or not host.pieces or host.through_run != host.run:
        return None if host.value is None or host.through is None or host.cursor is None \
            or host.through_run != host.run else host.value + host.through - host.cursor
    return host.pieces[-1].at(host.through)


def _plus(one: int | None, other: int) -> int | None:
    return None if one is None else one + other


def _target(host: HostClock, group: Group, cell_ns: int) -> int:
    """Tick of the host about the end of the next cell; for the reference exactly a cell on."""
    assert host.cursor is not None
    assert host.value is not None
    if host.name == group.reference or not host.pieces:
        return host.cursor + cell_ns
    rate = host.pieces[-1].rate_q32
    end = group.fleet + cell_ns + group.ppb * cell_ns // NS
    return max(host.cursor + ((end - host.value) << 32) // rate, host.cursor + 1)


def _links(state: FleetState, group: Group, hosts: list[HostClock]) -> tuple[list[Edge], Links]:
    """Links without a break in the cell, as intervals between p of local and remote: fleet time at the target tick
    less the end of the cell."""
    place = {h.name: i for i, h in enumerate(hosts)}
    edges: list[Edge] = []
    rows: list[tuple[int, int, int, int]] = []
    for local in hosts:
        for edge in local.edges:
            if edge.local != local.name or edge.key in group.lying:
                continue
            at = place.get(edge.remote)
            if at is None:
                continue
            remote = hosts[at]
            assert remote.cursor is not None
            stretch = edge.across(remote.cursor, remote.target, remote.run, local.run)
            if stretch is None:
                continue
            tick, err, _ = stretch.read(True, remote.target)
            away = tick - local.target
            slack = err + err // DRIFT + abs(away) // DRIFT + 2
            edges.append(edge)
            rows.append((place[local.name], at, away - slack, away + slack))
    columns = np.array(rows, np.int64).reshape(-1, 4).T.copy()
    return edges, Links(len(hosts), place[group.reference], *columns)


def _settled(links: Links, edges: list[Edge], solution: Solution, hosts: list[HostClock]) -> list[bool]:
    """Of each host whether every link on the path that bounds it is settled there."""
    settled = [e.across(hosts[b].cursor or 0, hosts[b].target, hosts[b].run, hosts[a].run)
               for e, a, b in zip(edges, links.a.tolist(), links.b.tolist(), strict=True)]
    good = [s is not None and s.read(True, hosts[b].target).settled
            for s, b in zip(settled, links.b.tolist(), strict=True)]
    via, a, b = solution.bounds.via.tolist(), links.a.tolist(), links.b.tolist()
    known: dict[int, bool] = {links.root: True}
    for start in range(links.count):
        path: list[int] = []
        at = start
        while at not in known and via[at] >= 0 and len(path) <= links.count:
            path.append(at)
            at = a[via[at]] if b[via[at]] == at else b[via[at]]
        sure = known.get(at, False)
        for node in reversed(path):
            sure = known[node] = sure and good[via[node]]
    return [known.get(i, False) for i in range(links.count)]
