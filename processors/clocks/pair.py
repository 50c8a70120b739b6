"""One pair of clocks, streaming: probes in, decided segments out.

Probes close together make a node. The map is cut into cells at the nodes (and each second where nodes are further
apart, and where a known rate changes). A cell is decided as soon as ``settle_nodes`` nodes stand after it, from exactly
the nodes up to those: settled. Where they do not come within ``limit_s`` it is decided from what came by then:
provisional, with the wider bound that follows. So a cell is a function of the probes alone, whatever way they were
batched, and is decided once.

A node that contradicts the bounds proves a step or a reset: a new epoch begins there, and between the last node and it
stands a gap without a bound. One that rests on a single probe needs the next node to confirm it: stamps can be wrong. A
source clock that stepped back shows some ticks twice: the gap reaches as far as the old clock can have come, and so
overlaps the new epoch.

One-sided constraints (of two events whose order is known) tighten the bounds and decide nothing.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable

from processors.clocks.bursts import merged, unwrapped, unwrapped_all
from processors.clocks.cells import change_hz, contradicts, decide, ns, stand, start_epoch
from processors.clocks.hull import Node
from processors.clocks.nominal import MAX_PPB, MIN_PPB
from processors.clocks.state import (
    EPOCH_REASONS,
    REFUSALS,
    Arrival,
    Event,
    Pair,
    PairRules,
    Rate,
)

__all__ = ["EPOCH_REASONS", "REFUSALS", "Event", "Pair", "PairRules", "Rate", "add_probes", "advance",
           "change_frequency", "finish", "restart"]


def add_probes(pair: Pair, probes: Iterable[Arrival], rules: PairRules) -> None:
    """Take probes, one-sided constraints and changes of rate, nearly in the order of their measurement.

    What was measured before something that was taken is a repeat or out of order: it is counted and left.
    """
    for probe in probes:
        if isinstance(probe, Node) and probe.hi < probe.lo:
            pair.note("crossed", probe.x, probe.local)
        else:
            _admit(pair, probe, rules)


def restart(pair: Pair, rules: PairRules) -> None:
    """The clock of the measuring side began again: what comes now is a new epoch, whatever it shows."""
    while pair.pending:
        _close_burst(pair, rules)
    pair.behind.clear()
    if pair.suspect is not None:
        _confirm(pair, rules)
    if pair.nodes:
        pair.forced = "reboot"
    pair.done = pair.seen = None
    pair.grain = (0, 0, 0, *pair.grain[3:])


def change_frequency(pair: Pair, hz: int, rules: PairRules) -> None:
    """Probes say from now on that the source has ``hz`` ticks a second."""
    while pair.pending:
        _close_burst(pair, rules)
    if pair.suspect is not None:
        _confirm(pair, rules)
    pair.behind.clear()
    change_hz(pair, hz, rules)


def advance(pair: Pair, local: int, rules: PairRules) -> None:
    """All probes measured before ``local`` (target clock, ns) have been given."""
    while pair.pending and local - pair.pending[0].local > ns(2 * rules.burst_s):
        _close_burst(pair, rules)
    if pair.suspect is not None and local - pair.suspect.local > ns(rules.limit_s):
        _confirm(pair, rules)
    decide(pair, rules, local)


def finish(pair: Pair, rules: PairRules) -> None:
    """No probe comes any more: decide up to the last node and ``limit_s`` beyond it, provisionally."""
    while pair.pending:
        _close_burst(pair, rules)
    if pair.suspect is not None:
        _confirm(pair, rules)
    if pair.nodes:
        decide(pair, rules, pair.nodes[-1].local + ns(2 * rules.limit_s))


def _moment(arrival: Arrival) -> int:
    return arrival.local if arrival.at is None else arrival.at


def _admit(pair: Pair, arrival: Arrival, rules: PairRules) -> None:
    moment, pending = _moment(arrival), pair.pending
    if pair.done is not None and moment <= pair.done:
        _take_behind(pair, arrival, rules)
        return
    if not pending or moment > _moment(pending[-1]):
        pending.append(arrival)
    elif arrival in pending:
        pair.note("duplicate", arrival.x, arrival.local)
        return
    elif _moment(pending[-1]) - moment > ns(rules.burst_s + rules.hold_s):
        _take_behind(pair, arrival, rules)
        return
    else:
        insort(pending, arrival, key=_moment)
    pair.behind.clear()
    while _moment(pending[-1]) - _moment(pending[0]) > ns(rules.burst_s + rules.hold_s):
        _close_burst(pair, rules)


def _take_behind(pair: Pair, arrival: Arrival, rules: PairRules) -> None:
    """Measured before what was taken: a repeat, out of order, or the measuring clock began again.

    That is sure where the other clock went on; else when such probes, ascending, have come for ``behind_s``.
    """
    if not isinstance(arrival, Node):
        pair.note("disordered", arrival.x, arrival.local)
        return
    last = pair.burst or (pair.nodes[-1] if pair.nodes else None)
    if pair.done is not None and _moment(arrival) == pair.done and (last is None or arrival.x <= last.x):
        pair.note("duplicate", arrival.x, arrival.local)
        return
    fell = last is None or (arrival.local <= last.local and (arrival.x <= last.x or pair.bits < 64))
    if fell:
        if pair.behind and _moment(arrival) <= _moment(pair.behind[-1]):
            pair.behind.clear()
        pair.behind.append(arrival)
        pair.note("disordered", arrival.x, arrival.local)
        if _moment(arrival) - _moment(pair.behind[0]) < ns(rules.behind_s):
            return
        pair.counts["disordered"] -= len(pair.behind)
    again = pair.behind if fell else [arrival]
    pair.behind = []
    restart(pair, rules)
    for probe in again:
        _admit(pair, probe, rules)


def _close_burst(pair: Pair, rules: PairRules) -> None:
    """Take what belongs to the oldest burst out of ``pending``: changes of rate first, then the node, then the rest."""
    until = _moment(pair.pending[0]) + ns(rules.burst_s)
    count = sum(1 for p in pair.pending if _moment(p) <= until)
    taken = pair.pending[:count]
    del pair.pending[:count]
    pair.done = _moment(taken[-1])
    decide(pair, rules, taken[0].local)  # what was due before is not decided by what comes now
    for arrival in taken:
        if isinstance(arrival, Rate):
            _change_rate(pair, arrival, rules)
    probes = [p for p in taken if isinstance(p, Node)]
    if pair.bits < 64:
        probes = unwrapped_all(pair, probes, rules)
    whole = [p for p in probes if not p.is_half]
    if whole:
        node, agreeing = merged(pair, whole, rules)
        _place(pair, node, agreeing, rules)
    for probe in probes:
        if probe.is_half:
            _take_half(pair, probe, rules)
    if whole:
        decide(pair, rules, node.local)


def _place(pair: Pair, node: Node, agreeing: int, rules: PairRules) -> None:
    """The node after the others, or at the beginning of a new epoch."""
    if not pair.nodes:
        before = ns(rules.before_s) if pair.epoch == 0 else 0
        pair.cell_from = pair.nominal.tick(pair.nominal.time(node.x) - before)
        pair.forced = None
        _accept(pair, node)
        return
    if pair.suspect is not None:
        suspect = pair.suspect
        if node.local - suspect.local > ns(rules.limit_s) or _why_new(pair, node, rules) is not None:
            _confirm(pair, rules)
        else:
            pair.note("outlier", suspect.x, suspect.local)
            pair.suspect = None
    reason = pair.forced or ("stuck" if agreeing == 0 else _why_new(pair, node, rules))
    if reason is None and pair.standing:
        reason = "step"  # it may have gone on at any time since, however little it lost
    if reason is None:
        _accept(pair, node)
    elif reason == "stuck" and pair.standing:
        stand(pair, node)
    elif agreeing == 1 and pair.forced is None and reason != "stuck" and not pair.standing:
        pair.suspect = node
    else:
        start_epoch(pair, node, reason, rules)
        pair.forced = None
        pair.seen = node.x, node.local


def _accept(pair: Pair, node: Node) -> None:
    pair.append(node)
    pair.seen = node.x, node.local


def _confirm(pair: Pair, rules: PairRules) -> None:
    """The suspect was right."""
    suspect, pair.suspect = pair.suspect, None
    assert suspect is not None
    start_epoch(pair, suspect, _why_new(pair, suspect, rules) or "step", rules)
    pair.seen = suspect.x, suspect.local


def _why_new(pair: Pair, node: Node, rules: PairRules) -> str | None:
    """The reason for which the node cannot belong to the epoch; None: it can."""
    last = pair.nodes[-1]
    if node.x == last.x and node.local > last.local:
        return "stuck"
    if node.x <= last.x:
        return "reboot" if rules.steady_source or node.local < last.local else "reset"
    return "step" if contradicts(pair, node, rules) else None


def _change_rate(pair: Pair, rate: Rate, rules: PairRules) -> None:
    x = unwrapped(pair, rate.x, rate.local, rules) if pair.bits < 64 else rate.x
    changes, last = pair.nominal.changes, pair.nodes[-1] if pair.nodes else None
    if x is None or not MIN_PPB <= rate.ppb <= MAX_PPB:
        pair.note("absurd", rate.x, rate.local)
        return
    if rate.ppb == (changes[-1].ppb if changes else 0):
        return
    if last is not None and x < last.x:
        # The nodes since were taken at the wrong rate: what they say together is nothing.
        pair.forced = "late_rate"
        x = last.x + 1
    if changes and x <= changes[-1].x:
        pair.note("disordered", rate.x, rate.local)
        return
    pair.widen(pair.nominal.change(x, rate.ppb, pair.coarse))


def _take_half(pair: Pair, half: Node, rules: PairRules) -> None:
    """Keep a one-sided constraint where it says more than is known, up to ``memory_nodes`` of them."""
    if not pair.nodes or half.x < pair.nodes[0].x or pair.standing or pair.suspect is not None:
        return
    base, low, high = pair.bounds(half.x, pair.constraints(), rules)
    if half.lo > base + high + 2 or half.hi < base + low - 2:
        pair.note("causality", half.x, half.local)
    elif half.lo > base + low or half.hi < base + high:
        pair.add_half(half, rules.memory_nodes)
