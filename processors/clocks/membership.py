"""Groups of hosts that share a fleet time: how they form, change their reference, come apart and join."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from processors.clocks.catching import holding, put, seal
from processors.clocks.election import camp, has_majority, parts
from processors.clocks.emission import Sink
from processors.clocks.fleet_state import NS, FleetState, Group, HostClock, Incident
from processors.clocks.grid import Grid, promised_ns
from processors.clocks.links import Edge

NAMED_HOSTS = 64
"""Hosts that an incident lists by name."""


@dataclass(frozen=True, slots=True)
class Membership:
    """``elect_after`` readings of UTC by a host start the election of its group; ``no_utc_ns`` without any reading
    elect a reference that has none. ``tolerance_ns``: clocks of UTC that agree are no further apart. ``standby`` hosts
    have their UTC fitted besides the reference. ``handover_ns``: so long the bound between the fleet times of two
    references is part of every bound. A reference is given up after ``outvoted_cells`` in which most others had
    another UTC."""

    grid: Grid
    elect_after: int = 3
    no_utc_ns: int = 15 * NS
    tolerance_ns: int = NS
    standby: int = 4
    handover_ns: int = 60 * NS
    outvoted_cells: int = 5

    # forming

    def admit(self, state: FleetState, host: HostClock, sink: Sink, *, now: bool = False) -> None:
        """Let the host into the group of a neighbour, or start the election of those it is linked with."""
        if host.group is not None:
            return
        linked = any(state.hosts[e.other(host.name)].group is not None for e in host.edges)
        old = host.first is not None and host.through is not None and host.through - host.first >= self.no_utc_ns
        ready = host.utc_seen >= self.elect_after
        if not (linked or now or host.closed or old or ready):
            return
        if state.admit_after and not (linked or now):  # looking at all that are linked costs as much as they are
            state.admit_after -= 1
            return
        loose, neighbours = _loose(state, host)
        if neighbours:
            self._join(state, state.groups[min(neighbours)], loose)
            return
        if ready and not now and host.utc_seen < 2 * self.elect_after:  # the more vote the better
            ready = all(state.hosts[m].readings for m in loose if state.hosts[m].through is not None)
        if not (ready or now or host.closed or old):
            state.admit_after = len(loose)
            return
        candidates = {m: state.hosts[m] for m in loose if _has_utc(state.hosts[m])}
        if not candidates and not (now or host.closed or old):
            state.admit_after = len(loose)
            return
        self._found(state, loose, _offsets_by_raw(state, host, candidates), sink)

    def _found(self, state: FleetState, members: list[str], offsets: dict[str, int], sink: Sink) -> None:
        chosen = camp(offsets, self.tolerance_ns)
        heard = [m for m in members if state.hosts[m].through is not None] or members
        reference = min(chosen or heard)
        state.groups_made += 1
        group = state.groups[state.groups_made] = Group(state.groups_made, reference, utc_usable=bool(chosen))
        self._join(state, group, members)
        self._set_standby(state, group)
        if self.grid.begin(state, group):
            self.begun(group, sink)

    def begun(self, group: Group, sink: Sink) -> None:
        """Fleet time of the group has begun."""
        if not group.utc_usable:
            sink.begin(group, Incident("clock_without_utc", group.reference, group.fleet, group.fleet,
                                       {"reference": group.reference}))

    def _join(self, state: FleetState, group: Group, members: Iterable[str]) -> None:
        for name in members:
            host = state.hosts[name]
            host.group = group.number
            group.members.append(name)
            self.grid.hear(state, group, host)

    def _set_standby(self, state: FleetState, group: Group) -> None:
        """Who has its UTC fitted: the reference and the next in line."""
        names = sorted(m for m in group.members if state.hosts[m].readings and m != group.reference)
        kept = {group.reference, *names[:self.standby]}
        for name in group.members:
            host = state.hosts[name]
            host.keeps_utc = name in kept
            if not host.keeps_utc:
                host.utc, host.utc_segments = None, []

    # changing

    def review(self, state: FleetState, group: Group, sink: Sink) -> None:
        """After a cell: partitions, silent and lying references, other groups that came into reach."""
        if self._merge(state, group):
            return
        live = {m for m in group.members if self.is_live(state, group, state.hosts[m])}
        fresh = [e.key for e in state.links_of(group) if self.grid.is_fresh(state, e)]
        connected = parts([m for m in group.members if not state.hosts[m].sealed], fresh)
        own = next((p for p in connected if group.reference in p), [])
        best = max(connected, key=lambda p: (sum(m in live for m in p), group.reference in p), default=own)
        if best is not own and sum(m in live for m in best) > sum(m in live for m in own):
            if self._reelect(state, group, best, live, "unreachable", sink):
                own = best
        elif group.reference not in live and state.hosts[group.reference].sealed:
            self._reelect(state, group, best, live, "closed", sink)
        self._check_utc(state, group, own, live, sink)
        speaking = {m for m in live if (promised_ns(state.hosts[m]) or 0) >= group.fleet}
        self._report_partitions(group, connected, set(own), speaking, sink)

    def is_live(self, state: FleetState, group: Group, host: HostClock) -> bool:
        """True where the host has promised something lately."""
        promised = promised_ns(host)
        return (promised is not None and not host.sealed and host.run == host.top_run
                and promised >= group.fleet - self.grid.fresh_ns)

    def _reelect(self, state: FleetState, group: Group, among: Iterable[str], live: set[str], why: str,
                 sink: Sink) -> bool:
        able = [m for m in among if m in live and m != group.reference and state.hosts[m].value is not None
                and not state.hosts[m].closed]
        if not able:
            return False
        voters = self._offsets(state, group, live)
        agreed = camp(voters, self.tolerance_ns)
        able.sort(key=lambda m: (not state.hosts[m].in_step, m not in agreed, not state.hosts[m].utc_segments, m))
        self._hand_over(state, group, state.hosts[able[0]], why, sink)
        offset = voters.get(able[0])
        if offset is not None and abs(offset) > self.tolerance_ns:
            self._move(state, group, offset)
        return True

    def replace_sealed(self, state: FleetState, group: Group, sink: Sink) -> bool:
        """Another reference for one whose map has ended."""
        live = {m for m in group.members if self.is_live(state, group, state.hosts[m])}
        return self._reelect(state, group, group.members, live, "closed", sink)

    def finish(self, state: FleetState, group: Group, sink: Sink) -> None:
        """Nothing comes any more: end every map and what is still reported."""
        for name in group.members:
            seal(state.hosts[name], group, sink)
        for incident in list(group.incidents):
            sink.over(group, incident)

    def _hand_over(self, state: FleetState, group: Group, host: HostClock, why: str, sink: Sink) -> None:
        """Fleet time goes on as this host's map has it. What that is unsure by belongs to every bound for a while."""
        assert host.cursor is not None
        assert host.value is not None
        incident = Incident("clock_reference_changed", host.name, host.value, host.value + self.handover_ns,
                            {"from": group.reference, "to": host.name, "why": why, "bound_ns": host.err})
        if not host.in_step:
            for member in group.members:
                state.hosts[member].in_step = False
        group.reference, group.tick, group.fleet = host.name, host.cursor, host.value
        group.handover += host.err or 0
        group.handover_until = host.value + self.handover_ns
        group.utc_epoch, group.outvoted, group.ppb = None, 0, 0
        host.in_step, host.err, host.target = True, 0, host.cursor + self.grid.cell_ns
        self._set_standby(state, group)
        sink.begin(group, incident)
        sink.over(group, incident)

    def _move(self, state: FleetState, group: Group, by_ns: int) -> None:
        """Fleet time jumps: it was that of a clock which most others contradict, or of none."""
        group.fleet += by_ns
        group.now = None if group.now is None else group.now + by_ns
        group.handover = group.handover_until = 0
        for name in group.members:
            host = state.hosts[name]
            if host.value is not None:
                host.value += by_ns
            host.epoch += 1
            cut_off(host)

    def _check_utc(self, state: FleetState, group: Group, own: Iterable[str], live: set[str], sink: Sink) -> None:
        """Name the hosts whose UTC most others contradict; a reference among them is replaced."""
        offsets = self._offsets(state, group, live)
        if not group.utc_usable:
            agreed = camp(offsets, self.tolerance_ns)
            able = [m for m in sorted(agreed) if state.hosts[m].in_step]
            if able:
                host = state.hosts[able[0]]
                if host.name != group.reference:
                    self._hand_over(state, group, host, "has UTC", sink)
                self._set_standby(state, group)
                self._move(state, group, offsets[host.name])
                group.utc_usable = True
                for incident in [i for i in group.incidents if i.kind == "clock_without_utc"]:
                    sink.over(group, incident)
            return
        agreed = camp(offsets, self.tolerance_ns)
        outvoted = {m for m in offsets if m not in agreed} if has_majority(len(agreed), len(offsets)) else set()
        self._note_dispute(group, len(agreed), len(offsets), sink)
        known = {i.host: i for i in group.incidents if i.kind == "clock_utc_outvoted"}
        for name in sorted(outvoted - known.keys()):
            sink.begin(group, Incident("clock_utc_outvoted", name, group.fleet, group.fleet,
                                       {"offset_ns": offsets[name], "agreed": len(agreed), "asked": len(offsets)}))
        for name, incident in sorted(known.items()):
            incident.last_ns = group.fleet
            if name in agreed:
                sink.over(group, incident)
        group.outvoted = group.outvoted + 1 if group.reference in outvoted else 0
        if group.outvoted >= self.outvoted_cells:
            self._reelect(state, group, [m for m in own if m in agreed], live, "outvoted", sink)

    def _note_dispute(self, group: Group, agreed: int, asked: int, sink: Sink) -> None:
        """Say so where no majority agrees on UTC: the reference's is then as good as any."""
        open_one = next((i for i in group.incidents if i.kind == "clock_utc_disputed"), None)
        if agreed < asked and not has_majority(agreed, asked):
            if open_one is None:
                open_one = Incident("clock_utc_disputed", group.reference, group.fleet, group.fleet,
                                    {"agreed": agreed, "asked": asked, "reference": group.reference})
                sink.begin(group, open_one)
            open_one.last_ns = group.fleet
        elif open_one is not None:
            sink.over(group, open_one)

    def _offsets(self, state: FleetState, group: Group, live: set[str]) -> dict[str, int]:
        """UTC − fleet time of the live members, by their newest reading."""
        found = {}
        for name in group.members:
            host = state.hosts[name]
            reading = next((r for r in reversed(host.readings) if host.cursor is not None and r[0] < host.cursor), None)
            at = None if reading is None or name not in live else holding(host.pieces, reading[0])
            if reading is not None and at is not None and host.pieces[at].err_ns is not None:
                found[name] = reading[1] - host.pieces[at].at(reading[0])
        return found

    def _report_partitions(self, group: Group, connected: list[list[str]], own: set[str], speaking: set[str],
                           sink: Sink) -> None:
        known = {i.host: i for i in group.incidents if i.kind == "clock_partition"}
        apart = {p[0]: p for p in connected if own and not own & set(p) and any(m in speaking for m in p)}
        for first, part in sorted(apart.items()):
            if not any(set(part) & set(i.evidence["hosts"]) for i in known.values()):
                sink.begin(group, Incident("clock_partition", first, group.fleet - self.grid.fresh_ns, group.fleet, {
                    "hosts": part[:NAMED_HOSTS], "count": len(part), "reference": group.reference}))
        for first, incident in sorted(known.items()):
            incident.last_ns = group.fleet
            if first in own or first not in speaking:
                sink.over(group, incident)

    def _merge(self, state: FleetState, group: Group) -> bool:
        """Go over to a larger group that a link leads to."""
        found: list[Group] = []
        for name in group.members:
            for edge in state.hosts[name].edges:
                number = state.hosts[edge.other(name)].group
                if number not in (group.number, None) and edge.stretches and edge.open:
                    found.append(state.groups[number])
        found = [g for g in found if _rank(g) > _rank(group)]
        if not found:
            return False
        target = max(found, key=_rank)
        for name in group.members:
            host = state.hosts[name]
            host.group, host.in_step, host.value, host.moved = target.number, False, None, True
            host.epoch += 1
            cut_off(host)
        target.members += group.members
        del state.groups[group.number]
        self._set_standby(state, target)
        for name in group.members:
            self.grid.hear(state, target, state.hosts[name])
        return True

    def cut_run(self, state: FleetState, group: Group, sink: Sink) -> None:
        """The reference's clock began again and nobody took over: fleet time goes on from its UTC."""
        host = state.hosts[group.reference]
        if host.run == host.top_run or host.cursor is None:
            return
        if any(m != host.name and self.is_live(state, group, state.hosts[m]) for m in group.members):
            return  # one of them is elected
        later = [s for s in host.utc_segments if s.err_ns is not None]
        if not later:
            return
        start = later[0]
        if host.utc_segments[-1].valid_to >= host.cursor:
            return  # still those of the old run
        last = host.pieces[-1]
        put(host, group, sink, replace(last, valid_from=host.cursor, valid_to=host.cursor + self.grid.limit_ns,
                                       err_ns=None, utc_err_ns=None, state="gap"))
        group.fleet = max(group.fleet, start.at(start.valid_from))
        host.run, host.pieces, host.cursor, host.value = host.top_run, [], start.valid_from, group.fleet
        host.epoch += 1
        group.tick, host.target, group.utc_epoch = host.cursor, host.cursor + self.grid.cell_ns, start.epoch
        self.grid.await_links(state, group)


def cut_off(host: HostClock) -> None:
    """Of the map so far only its end is kept, without a bound: nobody is to be mapped by it."""
    if host.pieces:
        host.pieces = [replace(host.pieces[-1], err_ns=None, utc_err_ns=None, state="gap")]


def _rank(group: Group) -> tuple[bool, int, int]:
    return group.utc_usable, len(group.members), -group.number


def _has_utc(host: HostClock) -> bool:
    return host.utc is not None and bool(host.utc.nodes or host.utc.burst)


def _loose(state: FleetState, host: HostClock) -> tuple[list[str], set[int]]:
    """Hosts without a group that are linked with ``host``, itself included, and the groups they are linked with."""
    found, queue, groups = {host.name: None}, [host.name], set()
    while queue:
        name = queue.pop()
        for other in (e.other(name) for e in state.hosts[name].edges):
            number = state.hosts[other].group
            if number is not None:
                groups.add(number)
            elif other not in found:
                found[other] = None
                queue.append(other)
    return list(found), groups


def _offsets_by_raw(state: FleetState, start: HostClock, hosts: dict[str, HostClock]) -> dict[str, int]:
    """UTC against the MONOTONIC_RAW of ``start``, good to the drift since the newest exchanges."""
    shift, queue = {start.name: 0}, [start.name]
    while queue:
        name = queue.pop(0)
        for edge in state.hosts[name].edges:
            other = edge.other(name)
            away = None if other in shift else _away(edge)
            if away is not None:
                shift[other] = shift[name] + (away if name == edge.local else -away)
                queue.append(other)
    return {m: h.readings[-1][1] - h.readings[-1][0] - shift[m] for m, h in hosts.items()
            if h.readings and m in shift}


def _away(edge: Edge) -> int | None:
    """Local − remote by the newest exchange."""
    node = edge.pair.burst or (edge.pair.nodes[-1] if edge.pair.nodes else None)
    return None if node is None else node.local - node.x
