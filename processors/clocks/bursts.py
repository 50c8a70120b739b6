"""Probes of a burst into one node: unwrapped, as coarse as the counter is, without those that contradict the others."""

from __future__ import annotations

from math import gcd

from processors.clocks.hull import Node
from processors.clocks.nominal import NS
from processors.clocks.state import Pair, PairRules


def carried(pair: Pair, node: Node, x: int, rules: PairRules) -> tuple[int, int]:
    """The node's interval at ``x`` close by, widened by the drift that is possible."""
    return _shifted(node, pair.nominal.time(x) - pair.nominal.time(node.x), rules.assumptions.rho)


def _shifted(node: Node, by_ns: int, rho: float) -> tuple[int, int]:
    slack = int(abs(by_ns) * rho) + 2
    return node.lo + by_ns - slack, node.hi + by_ns + slack


def unwrapped(pair: Pair, face: int, local: int, rules: PairRules) -> int | None:
    """The tick that a counter of ``pair.bits`` shows as ``face`` at target time ``local``; None: it cannot show that.

    The multiple of the period is the nearest to what the newest probe predicts. Where the prediction is off by half a
    period or more, an epoch is forced.
    """
    period = 1 << pair.bits
    if not 0 <= face < period:
        return None
    if pair.seen is None:
        return face
    x, then = pair.seen
    time = pair.nominal.time(x)
    expected = pair.nominal.tick(time + local - then)
    unsure = pair.nominal.tick(time + int(abs(local - then) * rules.assumptions.rho) + NS // 100) - x
    if unsure >= period // 2:
        pair.forced = "wrap"
    return face + (expected - face + period // 2) // period * period


def unwrapped_all(pair: Pair, probes: list[Node], rules: PairRules) -> list[Node]:
    """The probes with their ticks unwrapped; impossible ones are counted and left."""
    found = []
    for probe in probes:
        x = unwrapped(pair, probe.x, probe.local, rules)
        if x is None:
            pair.note("absurd", probe.x, probe.local)
        else:
            found.append(probe._replace(x=x))
    return found


def merged(pair: Pair, probes: list[Node], rules: PairRules) -> tuple[Node, int]:
    """What the probes say together, at the x of the tightest, and how many agree in that.

    Where they do not agree, the largest group of those that do is taken, of equal ones that which fits the nodes
    before, then the earliest. The others are counted as outliers. None agrees (0) where most show one tick and cannot
    have been read within it: the clock stands still.
    """
    _note_grain(pair, probes)
    lag = pair.tick_ns - -(-NS // pair.source_hz)
    if lag:
        probes = [p._replace(lo=p.lo - lag) for p in probes]
    node = _intersection(pair, probes, rules)
    if node is not None:
        return node, len(probes)
    still = _standing(pair, probes, rules)
    if still is not None:
        return still, 0
    groups = [[q for q in probes if _agree(pair, p, q, rules)] for p in probes]
    last = pair.nodes[-1] if pair.nodes else None
    best = max(groups, key=lambda g: (len(g), last is not None and _agree(pair, last, g[0], rules)))
    node = _intersection(pair, best, rules)
    while node is None:  # they agree with one of them, not with each other
        best = sorted(best, key=lambda p: p.hi - p.lo)[:-1]
        node = _intersection(pair, best, rules)
    kept = set(best)
    for probe in probes:
        if probe not in kept:
            pair.note("outlier", probe.x, probe.local)
    return node, len(best)


def _intersection(pair: Pair, probes: list[Node], rules: PairRules) -> Node | None:
    tight = min(probes, key=_width)
    if len(probes) == 1:
        return tight
    x, lo, hi, local, at = tight
    rho, time = rules.assumptions.rho, pair.nominal.time
    counts_ns = pair.source_hz == NS and not pair.nominal.changes
    here = time(x)
    for probe in probes:
        if probe is tight:
            continue
        by = x - probe.x if counts_ns else here - time(probe.x)
        slack = int(abs(by) * rho) + 2
        lo = max(lo, probe.lo + by - slack)
        hi = min(hi, probe.hi + by + slack)
        local = max(local, probe.local)
    return None if lo > hi else Node(x, lo, hi, local, at)


def _width(node: Node) -> int:
    return node.hi - node.lo


def _standing(pair: Pair, probes: list[Node], rules: PairRules) -> Node | None:
    ticks = sorted(p.x for p in probes)
    same = [p for p in probes if p.x == ticks[len(ticks) // 2]]
    if 2 * len(same) <= len(probes) or _intersection(pair, same, rules) is not None:
        return None
    return same[-1]


def _agree(pair: Pair, a: Node, b: Node, rules: PairRules) -> bool:
    lo, hi = carried(pair, a, b.x, rules)
    return lo <= b.hi and b.lo <= hi


def _note_grain(pair: Pair, probes: list[Node]) -> None:
    """Counters that advance by several ticks are coarser than they say; distances of their stamps have a divisor.

    Stamps that are more than 1 ms off from the burst's middle one are wrong and are no evidence.
    """
    count, x, local, grain, regular_ns = pair.grain
    if grain == 1:
        return
    middle = sorted(probes, key=lambda p: p.x)[len(probes) // 2]
    for probe in probes:
        passed = probe.local - middle.local
        off = abs((probe.x - middle.x) * NS // pair.source_hz - passed)
        if off <= abs(passed) + probe.hi - probe.lo + NS // 1_000:
            if not count:
                x, local = probe.x, probe.local
            grain, regular_ns = gcd(grain, probe.x - x), gcd(regular_ns, probe.local - local)
            count += 1
    pair.grain = count, x, local, grain, regular_ns
