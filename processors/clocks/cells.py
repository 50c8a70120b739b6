"""Cells of a map: where they end, when they are decided, and what is emitted; what begins a new epoch."""

from __future__ import annotations

from bisect import bisect_right

from processors.clocks.bursts import carried
from processors.clocks.hull import Ints, Node
from processors.clocks.nominal import NS
from processors.clocks.segments import Segment, State
from processors.clocks.state import Pair, PairRules

LONG_CELLS = 60


def ns(seconds: float) -> int:
    """Whole ns in ``seconds``."""
    return round(seconds * NS)


def decide(pair: Pair, rules: PairRules, local: int) -> None:
    """Decide every cell for which the nodes, or the time that has passed by target time ``local``, suffice."""
    while pair.cell_from is not None and pair.nodes:
        end = _cell_end(pair, rules, pair.cell_from)
        end_time = pair.nominal.time(end)
        deadline = end_time + ns(rules.limit_s)
        first = bisect_right(pair.ticks, end)
        usable = bisect_right(pair.times, deadline)
        settles = first + rules.settle_nodes
        if usable >= settles:
            last = pair.nodes[settles - 1]
            state: State = "provisional" if end <= pair.nodes[0].x else "settled"
            _emit(pair, rules, end, pair.times[settles - 1], state, last.local)
        else:
            if pair.suspect is not None and end > pair.nodes[-1].x:
                return
            overdue = _local_at(pair, max(usable, 1), end, end_time) + ns(rules.limit_s + rules.burst_s)
            if overdue > local:
                return
            _emit(pair, rules, end, max(deadline, pair.times[0]), "provisional", overdue)
        _forget(pair, rules)


def start_epoch(pair: Pair, node: Node, reason: str, rules: PairRules) -> None:
    """Decide what is left of the old epoch, put a gap up to ``node``, and begin anew with it."""
    last = pair.nodes[-1]
    _end_epoch(pair, last, node.local, _gap_end(pair, last, node, rules), rules, unsure=reason == "step")
    pair.note(reason, node.x, node.local)
    pair.epoch += 1
    pair.clear()
    pair.nominal.restart(node.x)
    pair.append(node)
    pair.standing = reason == "stuck"
    # What a clock shows while it stands has no time.
    pair.cell_from = node.x + 1 if pair.standing else node.x


def change_hz(pair: Pair, hz: int, rules: PairRules) -> None:
    """The source counts at another frequency from the next node on, which begins an epoch."""
    if pair.nodes:
        last = pair.nodes[-1]
        _end_epoch(pair, last, last.local, pair.nominal.tick(pair.times[-1] + ns(rules.limit_s)), rules, unsure=False)
        pair.note("hz_changed", last.x, last.local)
        pair.epoch += 1
    pair.begin(hz)


def _end_epoch(pair: Pair, last: Node, local: int, gap_to: int, rules: PairRules, *, unsure: bool) -> None:
    """Decide what is left up to the ``last`` node, and a gap from there."""
    # A rate that a second node does not confirm is no ground for a bound.
    state: State = "gap" if len(pair.nodes) == 1 and unsure else "provisional"
    while pair.cell_from is not None and pair.cell_from < last.x:
        _emit(pair, rules, min(_cell_end(pair, rules, pair.cell_from), last.x), pair.times[-1], state, local)
    if pair.cell_from is not None and pair.cell_from < gap_to:
        _put_gap(pair, gap_to, last, local)


def stand(pair: Pair, node: Node) -> None:
    """It still stands: a gap of one tick says how far the target has come meanwhile."""
    assert pair.cell_from is not None
    pair.clear()
    pair.append(node)
    _put_gap(pair, pair.cell_from + 1, node, node.local)
    pair.cell_from += 1


def contradicts(pair: Pair, node: Node, rules: PairRules) -> bool:
    """True where no clock within the assumptions shows ``node`` after the nodes that there are."""
    recent = pair.constraints()[-2 * rules.memory_nodes:]
    base, low, high = pair.bounds(node.x, recent, rules)
    return base + high < node.lo - 2 or node.hi + 2 < base + low


def _put_gap(pair: Pair, end: int, anchor: Node, local: int) -> None:
    assert pair.cell_from is not None
    pair.segments.append(Segment(pair.epoch, pair.cell_from, end, anchor.x, (anchor.lo + anchor.hi) // 2,
                                 pair.nominal.rate_q32(anchor.x), None, None, "gap", local))


def _gap_end(pair: Pair, last: Node, node: Node, rules: PairRules) -> int:
    """First source tick that the old epoch cannot have shown between its last node and the new one."""
    if rules.steady_source or node.local < last.local:
        return node.x if node.x > last.x else pair.nominal.tick(pair.times[-1] + ns(rules.limit_s))
    passed = max(node.hi - last.lo, 0)
    reach = pair.nominal.tick(pair.times[-1] + passed + int(passed * rules.assumptions.rho) + 2) + 1
    return max(node.x, reach)


def _cell_end(pair: Pair, rules: PairRules, start: int) -> int:
    """The next node if it stands within two cells, else one cell on; no further than where the rate changes.

    Cells grow with the distance from the last node, so that a silence of any length, or a stamp from far away, takes
    few of them.
    """
    time, cell = pair.nominal.time(start), ns(rules.cell_s)
    following = bisect_right(pair.ticks, start)
    if following and time - pair.times[following - 1] > LONG_CELLS * cell:
        cell = max(cell, (time - pair.times[following - 1]) // LONG_CELLS * 2)
    if following < len(pair.nodes) and pair.times[following] - time <= 2 * cell:
        end = pair.nodes[following].x
    else:
        end = max(pair.nominal.tick(time + cell), start + 1)
    change = pair.nominal.next_change(start)
    return end if change is None else min(end, change)


def _local_at(pair: Pair, usable: int, end: int, end_time: int) -> int:
    """Target time of tick ``end`` by the nearest of the first ``usable`` nodes, good to the drift."""
    near = min(bisect_right(pair.ticks, end, hi=usable), usable - 1)
    if near and end_time - pair.times[near - 1] <= abs(pair.times[near] - end_time):
        near -= 1
    return pair.nodes[near].hi + end_time - pair.times[near]


def _forget(pair: Pair, rules: PairRules) -> None:
    """Keep ``memory_nodes`` nodes before the open cell; those later ones that are needed stay."""
    assert pair.cell_from is not None
    before = bisect_right(pair.ticks, pair.cell_from)
    if before > rules.memory_nodes:
        pair.forget(before - rules.memory_nodes)


def _emit(pair: Pair, rules: PairRules, end: int, until: int, state: State, decided_at: int) -> None:
    """The cell up to ``end``, by the constraints up to nominal time ``until``."""
    start = pair.cell_from
    assert start is not None
    if pair.standing:
        state = "gap"
    every = pair.constraints()
    used = every[:int(every[:, 0].searchsorted(until, side="right"))]
    low0, high0 = pair.edge or _edge(pair, rules, used, start)
    low1, high1 = pair.edge = _edge(pair, rules, used, end)
    # The halves are kept in doubled units, so that the middle of two integers is exact.
    middle0, middle1 = low0 + high0, low1 + high1
    rate = ((middle1 - middle0) * (1 << 31)) // (end - start)
    length_ns = pair.nominal.time(end) - pair.nominal.time(start) + 2
    curvature = rules.assumptions.curvature_per_ns
    bow = length_ns * rules.assumptions.rho / 2
    if curvature is not None:
        bow = min(bow, length_ns * length_ns * curvature / 8)
    err = (max(high0 - low0, high1 - low1) + 1) // 2 + round(bow) + pair.tick_ns + 2
    pair.segments.append(Segment(pair.epoch, start, end, start, middle0 // 2, rate, None if state == "gap" else err,
                                 None, state, decided_at))
    pair.cell_from = end


def _edge(pair: Pair, rules: PairRules, used: Ints, x: int) -> tuple[int, int]:
    """Integer bounds of the target at ``x``; where nodes contradict each other, all that they allow by rho alone."""
    base, low, high = pair.bounds(x, used, rules)
    if low <= high:
        return base + int(low // 1), base - int(-high // 1)
    all_carried = [carried(pair, n, x, rules) for n in pair.nodes]
    nearest = min(pair.nodes, key=lambda n: abs(n.x - x))
    kept = carried(pair, nearest, x, rules)
    inside = [c for c in all_carried if c[0] <= kept[1] and kept[0] <= c[1]]
    return min(c[0] for c in inside), max(c[1] for c in inside)
