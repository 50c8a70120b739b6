"""Set-membership bounds on a clock's offset: where the truth must be, given probes and two assumptions.

Let g(w) be the target clock minus the nominal time w of the source clock. Each node says lo ≤ g + w ≤ hi at its w.
Assumed: |g'| ≤ rho, and for free-running oscillators |g''| ≤ curvature. Then, for nodes i, j:

- i < t < j:   g(t) ≤ interp(hi_i, hi_j) + curvature · (t − w_i)(w_j − t) / 2
- i < j < t:   g(t) ≤ hi_j + (hi_j − lo_i)(t − w_j)/(w_j − w_i) + curvature · (t − w_i)(t − w_j) / 2;
               mirrored before both
- always       g(t) ≤ hi_j + rho · |t − w_j|

and the same for the lower bound with signs turned. No symmetry of latency and no straight line is assumed. A chord's
error under bounded curvature is the classic interpolation remainder |g''| (t−a)(b−t)/2. A node may be half open. Where
a known change of rate stands between i, j and t only rho holds: what a rate is said to be is not that exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]

OPEN: Final = 1 << 62
"""``hi`` of a node without an upper end; ``lo`` of one without a lower end is −OPEN."""


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is believed of a class of clocks. ``curvature_per_s`` None: the rate may kink (disciplined clocks).

    Both hold for the difference of two clocks, and so are the sum of what each of them may do. 0.5 ppm/s: crystals of
    0.5 ppm/K that both warm by 0.5 K/s, in opposite directions. Five times less would narrow bounds by 0.05 µs over
    PCIe and 0.2 µs over a network.
    """

    rho: float = 100e-6
    curvature_per_s: float | None = 0.5e-6

    @property
    def curvature_per_ns(self) -> float | None:
        """Curvature in ns per ns²."""
        return None if self.curvature_per_s is None else self.curvature_per_s * 1e-9


class Node(NamedTuple):
    """A constraint: at source tick ``x`` the target clock stood in [``lo``, ``hi``] ns, showing ``local`` thereabouts.

    ``at``: when it was measured, on the clock of who measured; None: that is ``local``.
    """

    x: int
    lo: int
    hi: int
    local: int
    at: int | None = None

    @property
    def is_half(self) -> bool:
        """True where one end is open."""
        return self.hi >= OPEN or self.lo <= -OPEN


def table(nominal: Sequence[int], nodes: Sequence[Node], pieces: Sequence[int] | None = None) -> Ints:
    """(n, 4) of nodes, as `edges` takes them: nominal time, lo and hi in ns, number of the piece of constant rate."""
    rows = [(w, n.lo, n.hi, piece) for w, n, piece in zip(nominal, nodes, pieces or [0] * len(nodes), strict=True)]
    return np.array(rows, np.int64)


def bounds(nodes: Sequence[Node], t: int, source_hz: int, assumptions: Assumptions) -> tuple[int, float, float]:
    """(base, low, high): at source tick ``t`` the target is in [base + low, base + high] ns.

    ``base`` is an integer near the target's value, so that the floats are small. low > high means that the nodes
    contradict the assumptions. Nominal times are rounded down to the ns: nodes have to allow for it in ``lo``.
    """
    nominal = [n.x * 1_000_000_000 // source_hz for n in nodes]
    return bounds_of(table(nominal, nodes), t * 1_000_000_000 // source_hz, assumptions)


def bounds_of(nodes: Ints, t: int, assumptions: Assumptions, piece: int = 0) -> tuple[int, float, float]:
    """`bounds` at nominal time ``t`` (ns), which lies in ``piece``, of a `table`."""
    curvature = assumptions.curvature_per_ns
    base, low, high = edges(nodes, t, piece, assumptions.rho, -1.0 if curvature is None else curvature)
    return int(base), low, high


@numba.njit(cache=True)
def edges(nodes: Ints, t: int, piece: int, rho: float, curvature: float) -> tuple[np.int64, float, float]:
    """The least upper and greatest lower bound at ``t`` relative to a base; ``curvature`` < 0: the rate may kink.

    ``nodes`` ascend in their first column. All pairs are tried: n² / 2 steps.
    """
    count = nodes.shape[0]
    base = np.int64(0)
    for i in range(count - 1, -1, -1):
        if nodes[i, 1] > -OPEN and nodes[i, 2] < OPEN:
            base = nodes[i, 1]
            break
    x, low, high = np.empty(count), np.empty(count), np.empty(count)
    upper, lower = np.inf, -np.inf
    for i in range(count):
        x[i] = float(nodes[i, 0] - t)
        low[i] = float(nodes[i, 1] - base) - x[i] if nodes[i, 1] > -OPEN else -np.inf
        high[i] = float(nodes[i, 2] - base) - x[i] if nodes[i, 2] < OPEN else np.inf
        upper = min(upper, high[i] + rho * abs(x[i]))
        lower = max(lower, low[i] - rho * abs(x[i]))
    if curvature < 0:
        return base, lower, upper
    for i in range(count):
        for j in range(i + 1, count):
            a, b = x[i], x[j]
            if a >= b or a == 0 or b == 0 or nodes[i, 3] != piece or nodes[j, 3] != piece:
                continue
            bow = curvature * abs(a) * abs(b) / 2
            if a < 0 < b:
                upper = min(upper, (high[i] * b - high[j] * a) / (b - a) + bow)
                lower = max(lower, (low[i] * b - low[j] * a) / (b - a) - bow)
            elif b < 0:
                reach = -b / (b - a)
                upper = min(upper, high[j] + (high[j] - low[i]) * reach + bow)
                lower = max(lower, low[j] + (low[j] - high[i]) * reach - bow)
            else:
                reach = a / (b - a)
                upper = min(upper, high[i] + (high[i] - low[j]) * reach + bow)
                lower = max(lower, low[i] + (low[i] - high[j]) * reach - bow)
    return base, lower, upper
