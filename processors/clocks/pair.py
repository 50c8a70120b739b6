"""One pair of clocks, streaming: probes in, decided segments out.

Probes close together make a node. The map is cut into cells at the nodes (and each second where nodes are further
apart). A cell is decided as soon as ``settle_nodes`` nodes stand after it, from exactly the nodes up to those: settled.
Where they do not come within ``limit_s`` it is decided from what came by then: provisional, with the wider bound that
follows. So a cell is a function of the probes alone, whatever way they were batched, and is decided once.

A node that contradicts the bounds proves a step or a reset: a new epoch begins there, and between the last node and it
stands a gap without a bound. A source clock that stepped back shows some ticks twice: the gap reaches as far as the old
clock can have come, and so overlaps the new epoch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from processors.clocks.hull import Assumptions, Node, bounds
from processors.clocks.segments import Segment, State

NS = 1_000_000_000
LONG_CELLS = 60


@dataclass(frozen=True, slots=True)
class PairRules:
    """How a pair is fitted. Times in seconds of the source clock.

    ``steady_source``: the source clock never steps, so that a step is the target's and no source tick comes twice.
    """

    assumptions: Assumptions = Assumptions()
    burst_s: float = 0.05
    settle_nodes: int = 2
    limit_s: float = 10.0
    cell_s: float = 1.0
    before_s: float = 5.0
    memory_nodes: int = 16
    steady_source: bool = False


@dataclass(slots=True)
class Pair:
    """State of one pair; ``source_hz`` ticks a second, the target counts ns."""

    source_hz: int
    epoch: int = 0
    nodes: list[Node] = field(default_factory=list)
    burst: Node | None = None
    burst_start: int = 0
    cell_from: int | None = None
    edge: tuple[int, int] | None = None
    """Bounds of the target at ``cell_from``, as the cell before ended: the map has no jumps inside an epoch."""
    steps: int = 0
    disordered: int = 0
    segments: list[Segment] = field(default_factory=list)
    """Decided and not yet taken by the caller."""

    def ticks(self, seconds: float) -> int:
        """Source ticks in ``seconds``."""
        return round(seconds * self.source_hz)

    def take(self) -> list[Segment]:
        """The segments decided since the last call."""
        taken, self.segments = self.segments, []
        return taken

    def plain(self) -> dict[str, Any]:
        """State as JSON has it."""
        return {"hz": self.source_hz, "epoch": self.epoch, "nodes": [list(n) for n in self.nodes],
                "burst": None if self.burst is None else list(self.burst), "burst_start": self.burst_start,
                "cell_from": self.cell_from,
                "edge": None if self.edge is None else list(self.edge), "steps": self.steps,
                "disordered": self.disordered}

    @classmethod
    def of_plain(cls, data: dict[str, Any]) -> Pair:
        """From ``plain``."""
        return cls(data["hz"], data["epoch"], [Node(*n) for n in data["nodes"]],
                   None if data["burst"] is None else Node(*data["burst"]), data["burst_start"], data["cell_from"],
                   None if data["edge"] is None else (data["edge"][0], data["edge"][1]), data["steps"],
                   data["disordered"])


def add_probes(pair: Pair, probes: Iterable[Node], rules: PairRules) -> None:
    """Take probes in the order of their measurement.

    Where neither clock has moved on, the probe is a repeat or out of order: it is counted and left. Where one alone
    falls, that clock stepped.
    """
    for probe in probes:
        latest = pair.burst or (pair.nodes[-1] if pair.nodes else None)
        if probe.hi < probe.lo or (
                latest is not None and probe.local <= latest.local and probe.x <= latest.x):
            pair.disordered += 1
            continue
        if pair.burst is None:
            pair.burst, pair.burst_start = probe, probe.x
        elif 0 <= probe.x - pair.burst_start <= pair.ticks(rules.burst_s) and _agree(pair, probe, rules):
            pair.burst = _merge(pair, probe, rules)
        else:
            _close_burst(pair, rules)
            pair.burst, pair.burst_start = probe, probe.x


def advance(pair: Pair, local: int, rules: PairRules) -> None:
    """All probes measured before ``local`` (target clock, ns) have been given."""
    if pair.burst is not None and local - pair.burst.local > rules.burst_s * 2 * NS:
        _close_burst(pair, rules)
        pair.burst = None
    _decide(pair, rules, local)


def finish(pair: Pair, rules: PairRules) -> None:
    """No probe comes any more: decide up to the last node and ``limit_s`` beyond it, provisionally."""
    if pair.burst is not None:
        _close_burst(pair, rules)
        pair.burst = None
    if pair.nodes:
        _decide(pair, rules, pair.nodes[-1].local + round(2 * rules.limit_s * NS))


def _drift(pair: Pair, ticks: int, rules: PairRules) -> int:
    return round(abs(ticks) * (NS / pair.source_hz) * rules.assumptions.rho) + 1


def _carried(pair: Pair, node: Node, x: int, rules: PairRules) -> tuple[int, int]:
    """The node's interval at ``x`` close by, widened by the drift that is possible."""
    shift = round((x - node.x) * (NS / pair.source_hz))
    slack = _drift(pair, x - node.x, rules)
    return node.lo + shift - slack, node.hi + shift + slack


def _agree(pair: Pair, probe: Node, rules: PairRules) -> bool:
    assert pair.burst is not None
    lo, hi = _carried(pair, pair.burst, probe.x, rules)
    return lo <= probe.hi and probe.lo <= hi


def _merge(pair: Pair, probe: Node, rules: PairRules) -> Node:
    """Both constraints, at the x of the tighter one."""
    assert pair.burst is not None
    tight, other = sorted((pair.burst, probe), key=lambda n: n.hi - n.lo)
    lo, hi = _carried(pair, other, tight.x, rules)
    return Node(tight.x, max(tight.lo, lo), min(tight.hi, hi), max(tight.local, other.local))


def _close_burst(pair: Pair, rules: PairRules) -> None:
    node = pair.burst
    assert node is not None
    if pair.nodes and _contradicts(pair, node, rules):
        _start_epoch(pair, node, rules)
    pair.nodes.append(node)
    if pair.cell_from is None:
        pair.cell_from = node.x - pair.ticks(rules.before_s)
    _decide(pair, rules, node.local)


def _contradicts(pair: Pair, node: Node, rules: PairRules) -> bool:
    if node.x <= pair.nodes[-1].x:
        return True
    base, low, high = bounds(pair.nodes[-rules.memory_nodes:], node.x, pair.source_hz, rules.assumptions)
    return base + high < node.lo - 1 or node.hi + 1 < base + low


def _start_epoch(pair: Pair, node: Node, rules: PairRules) -> None:
    """Decide what is left of the old epoch, put a gap up to ``node``, and forget the old nodes."""
    last = pair.nodes[-1]
    while pair.cell_from is not None and pair.cell_from < last.x:
        _emit(pair, rules, min(_cell_end(pair, rules, pair.cell_from), last.x), pair.nodes, "provisional", node.local)
    gap_to = _gap_end(pair, last, node, rules)
    if pair.cell_from is not None and pair.cell_from < gap_to:
        anchor = (last.x, (last.lo + last.hi) // 2, round(NS / pair.source_hz * (1 << 32)))
        pair.segments.append(Segment(pair.epoch, pair.cell_from, gap_to, *anchor, None, None, "gap", node.local))
    pair.epoch += 1
    pair.steps += 1
    pair.nodes = []
    pair.cell_from = node.x
    pair.edge = None


def _gap_end(pair: Pair, last: Node, node: Node, rules: PairRules) -> int:
    """First source tick that the old epoch cannot have shown between its last node and the new one."""
    if rules.steady_source:
        return node.x if node.x > last.x else last.x + pair.ticks(rules.limit_s)
    passed = max(node.hi - last.lo, 0) * pair.source_hz // NS + 1
    return max(node.x, last.x + passed + _drift(pair, passed, rules) * pair.source_hz // NS + 1)


def _cell_end(pair: Pair, rules: PairRules, start: int) -> int:
    """The next node if it stands within two cells, else one cell on.

    Cells grow with the distance from the last node, so that a silence of any length, or a stamp from far away, takes
    few of them.
    """
    cell, before, following = pair.ticks(rules.cell_s), None, None
    for node in pair.nodes:
        if start < node.x:
            following = node.x
            break
        before = node.x
    if before is not None and start - before > LONG_CELLS * cell:
        cell = max(cell, (start - before) // LONG_CELLS * 2)
    if following is not None and following - start <= 2 * cell:
        return following
    return start + cell


def _decide(pair: Pair, rules: PairRules, local: int) -> None:
    """Decide every cell for which the nodes, or the time that has passed, suffice."""
    while pair.cell_from is not None and pair.nodes:
        start = pair.cell_from
        end = _cell_end(pair, rules, start)
        deadline = end + pair.ticks(rules.limit_s)
        after = [n for n in pair.nodes if n.x > end and n.x <= deadline]
        if len(after) >= rules.settle_nodes:
            last = after[rules.settle_nodes - 1]
            used = [n for n in pair.nodes if n.x <= last.x]
            before_first = end <= pair.nodes[0].x
            _emit(pair, rules, end, used, "provisional" if before_first else "settled", last.local)
        else:
            used = [n for n in pair.nodes if n.x <= deadline]
            overdue = _local_at(pair, used, end) + round((rules.limit_s + rules.burst_s) * NS)
            if overdue > local:
                return
            _emit(pair, rules, end, used, "provisional", overdue)
        _forget(pair, rules)


def _local_at(pair: Pair, nodes: list[Node], x: int) -> int:
    """Target time of source tick ``x`` by the nearest of ``nodes``, good to the drift."""
    node = min(nodes, key=lambda n: abs(n.x - x))
    return node.hi + round((x - node.x) * (NS / pair.source_hz))


def _forget(pair: Pair, rules: PairRules) -> None:
    """Keep ``memory_nodes`` nodes before the open cell; those later ones that are needed stay."""
    assert pair.cell_from is not None
    before = sum(1 for n in pair.nodes if n.x <= pair.cell_from)
    if before > rules.memory_nodes:
        del pair.nodes[:before - rules.memory_nodes]


def _emit(pair: Pair, rules: PairRules, end: int, nodes: list[Node], state: State, decided_at: int) -> None:
    start = pair.cell_from
    assert start is not None
    low0, high0 = pair.edge or _edge(pair, rules, nodes, start)
    low1, high1 = pair.edge = _edge(pair, rules, nodes, end)
    # The halves are kept in doubled units, so that the middle of two integers is exact.
    middle0, middle1 = low0 + high0, low1 + high1
    rate = ((middle1 - middle0) * (1 << 31)) // (end - start)
    dst0 = middle0 // 2
    length_ns = (end - start) * NS / pair.source_hz
    curvature = rules.assumptions.curvature_per_ns
    bow = length_ns * length_ns * curvature / 8 if curvature is not None else length_ns * rules.assumptions.rho / 2
    tick = -(-NS // pair.source_hz)
    err = (max(high0 - low0, high1 - low1) + 1) // 2 + round(bow) + tick + 2
    pair.segments.append(Segment(pair.epoch, start, end, start, dst0, rate, err, None, state, decided_at))
    pair.cell_from = end


def _edge(pair: Pair, rules: PairRules, nodes: list[Node], t: int) -> tuple[int, int]:
    """Integer bounds of the target at ``t``; where nodes contradict each other, all that they allow by rho alone."""
    base, low, high = bounds(nodes, t, pair.source_hz, rules.assumptions)
    if low > high:
        carried = [_carried(pair, n, t, rules) for n in nodes]
        nearest = min(nodes, key=lambda n: abs(n.x - t))
        kept = _carried(pair, nearest, t, rules)
        inside = [c for c in carried if c[0] <= kept[1] and kept[0] <= c[1]]
        return min(c[0] for c in inside), max(c[1] for c in inside)
    return base + _floor(low), base + _ceil(high)


def _floor(value: float) -> int:
    return int(value // 1)


def _ceil(value: float) -> int:
    return -int(-value // 1)

