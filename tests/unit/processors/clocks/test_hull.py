"""Bounds of a clock from probes: against the formulas written out, and against clocks whose truth is known."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from processors.clocks.hull import Assumptions, Node, bounds

NS = 1_000_000_000
RULES = Assumptions()
RHO = Fraction(RULES.rho)
CURVATURE = Fraction(RULES.curvature_per_ns or 0)

SPACED = st.lists(st.tuples(st.integers(1_000_000, 3 * NS), st.integers(0, 20_000), st.integers(0, 20_000)),
                  min_size=1, max_size=7)


def least_upper(points: list[tuple[int, int, int]], curved: bool) -> Fraction:
    """The module's three formulas at 0, one pair of (x, low, high) after the other."""
    found = [high + RHO * abs(x) for x, _, high in points]
    for (xi, low_i, high_i), (xj, _, high_j) in permutations(points, 2):
        if not curved:
            continue
        if xi < 0 < xj:
            line = high_i + Fraction((high_j - high_i) * -xi, xj - xi)
            found.append(line + CURVATURE * -xi * xj / 2)
        if xi < xj < 0 or 0 < xj < xi:
            slope = Fraction(high_j - low_i, abs(xj - xi))
            found.append(high_j + slope * abs(xj) + CURVATURE * abs(xi) * abs(xj) / 2)
    return min(found)


def nodes_of(spaced: list[tuple[int, int, int]], start: int) -> list[Node]:
    x, nodes = start, []
    for step, below, above in spaced:
        x += step
        nodes.append(Node(x, x + 5 - below, x + 5 + above, x))
    return nodes


@settings(deadline=None)  # the kernel is compiled once
@given(SPACED, st.integers(-3 * NS, 12 * NS), st.booleans(), st.sampled_from([0, 1 << 50, (1 << 62) - 10**12]))
def test_bounds_are_those_of_the_formulas_written_out(
        spaced: list[tuple[int, int, int]], at: int, curved: bool, start: int) -> None:
    nodes = nodes_of(spaced, start)
    assumed = RULES if curved else Assumptions(curvature_per_s=None)
    base, low, high = bounds(nodes, start + at, NS, assumed)
    t = start + at
    points = [(n.x - t, n.lo - n.x, n.hi - n.x) for n in nodes]
    upper = least_upper(points, curved) + t
    lower = -least_upper([(x, -h, -lo) for x, lo, h in points], curved) + t
    assert abs(base + Fraction(high) - upper) < Fraction(1, 100)
    assert abs(base + Fraction(low) - lower) < Fraction(1, 100)


@settings(max_examples=150, deadline=None)
@given(SPACED, st.integers(-3 * NS, 12 * NS), st.floats(-80e-6, 80e-6), st.floats(0, 0.09e-6),
       st.floats(40, 400), st.floats(0, 2 * math.pi), st.sampled_from([NS, 100_000_000, 19_200_000]))
def test_the_truth_is_never_outside(spaced: list[tuple[int, int, int]], at: int, rate: float, curvature: float,
                                    period_s: float, phase: float, hz: int) -> None:
    omega = 2 * math.pi / period_s
    amplitude = min(curvature / omega**2, 15e-6 / omega)

    def deviation_ns(x: int) -> float:
        seconds = x / hz
        return (rate * seconds + amplitude * math.sin(omega * seconds + phase)) * NS

    x, nodes = 0, []
    for step, below, above in spaced:
        x += step * hz // NS
        true = x * NS / hz + deviation_ns(x)
        nodes.append(Node(x, math.floor(true) - below - 1, math.ceil(true) + above, x))
    t = at * hz // NS
    base, low, high = bounds(nodes, t, hz, RULES)
    # Nominal times are rounded down to the ns.
    assert base + low - 0.01 <= t * NS / hz + deviation_ns(t) <= base + high + 1.01


def test_disjoint_nodes_show_as_crossed_bounds() -> None:
    nodes = [Node(0, 0, 100, 100), Node(NS, NS + 200_000, NS + 200_100, NS)]
    _, low, high = bounds(nodes, NS // 2, NS, RULES)
    assert low > high


def test_a_clock_that_may_kink_is_bounded_by_drift_alone() -> None:
    nodes = [Node(0, -10, 10, 0), Node(2 * NS, 2 * NS - 10, 2 * NS + 10, 2 * NS)]
    base, low, high = bounds(nodes, NS, NS, Assumptions(curvature_per_s=None))
    assert (base + low, base + high) == (NS - 100_010, NS + 100_010)
