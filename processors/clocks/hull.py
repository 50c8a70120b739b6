"""Set-membership bounds on a clock's offset: where the truth must be, given probes and two assumptions.

Let g(x) be the target clock minus the nominal time of the source clock, at source time x. Each node (probe) says
lo ≤ g ≤ hi at its x. Assumed: |g'| ≤ rho, and for free-running oscillators |g''| ≤ curvature. Then, for nodes i, j:

- i < t < j:   g(t) ≤ interp(hi_i, hi_j) + curvature · (t − x_i)(x_j − t) / 2
- i < j < t:   g(t) ≤ hi_j + (hi_j − lo_i)(t − x_j)/(x_j − x_i) + curvature · (t − x_i)(t − x_j) / 2;
               mirrored before both
- always       g(t) ≤ hi_j + rho · |t − x_j|

and the same for the lower bound with signs turned. No symmetry of latency and no straight line is assumed. A chord's
error under bounded curvature is the classic interpolation remainder |g''| (t−a)(b−t)/2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What is believed of a class of clocks. ``curvature_per_s`` None: the rate may kink (disciplined clocks)."""

    rho: float = 100e-6
    curvature_per_s: float | None = 0.1e-6

    @property
    def curvature_per_ns(self) -> float | None:
        """Curvature in ns per ns²."""
        return None if self.curvature_per_s is None else self.curvature_per_s * 1e-9


class Node(NamedTuple):
    """A constraint: at source tick ``x`` the target clock stood in [``lo``, ``hi``] ns; ``local`` orders nodes."""

    x: int
    lo: int
    hi: int
    local: int


def bounds(nodes: Sequence[Node], t: int, source_hz: int, assumptions: Assumptions) -> tuple[int, float, float]:
    """(base, low, high): at source tick ``t`` the target is in [base + low, base + high] ns.

    ``base`` is an integer near the target's value, so that the floats are small. low > high means that the nodes
    contradict the assumptions.
    """
    base = nodes[len(nodes) // 2].lo
    x = np.array([(n.x - t) for n in nodes], np.float64) * (1e9 / source_hz)
    low = np.array([n.lo - base for n in nodes], np.float64) - x
    high = np.array([n.hi - base for n in nodes], np.float64) - x
    upper = _upper(x, low, high, assumptions)
    lower = -_upper(x, -high, -low, assumptions)
    return base, lower, upper


def _upper(x: Floats, low: Floats, high: Floats, assumptions: Assumptions) -> float:
    """The least upper bound at 0; ``x`` are the nodes' distances from there in ns, ascending."""
    best = float(np.min(high + assumptions.rho * np.abs(x)))
    curvature = assumptions.curvature_per_ns
    if curvature is None or len(x) < 2:
        return best
    before, after = x < 0, x > 0
    if before.any() and after.any():
        a, b = x[before][:, None], x[after][None, :]
        chord = (high[before][:, None] * b - high[after][None, :] * a) / (b - a)
        best = min(best, float(np.min(chord + curvature * (-a) * b / 2)))
    for side, sign in ((before, 1.0), (after, -1.0)):
        if np.count_nonzero(side) >= 2:
            best = min(best, _extrapolated(x[side] * sign, low[side], high[side], curvature))
    return best


def _extrapolated(x: Floats, low: Floats, high: Floats, curvature: float) -> float:
    """Upper bound at 0 from pairs that both stand on its negative side."""
    far, near = x[:, None], x[None, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        value = high[None, :] + (high[None, :] - low[:, None]) * (-near) / (near - far) + curvature * far * near / 2
    valid = far < near
    return float(np.min(np.where(valid, value, np.inf)))
