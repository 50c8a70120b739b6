"""Exposed collectives and transfers of a window."""

from __future__ import annotations

import numpy as np

from processors.windows.intervals import Bools, Floats
from processors.windows.works import COLLECTIVE, D2H, H2D, Account, Peaks, Sweep, Works, charge, utilisation


def charge_collectives(result: Account, sweep: Sweep, works: Works, peaks: Peaks) -> None:
    """Time in which bytes move goes to the network, the rest is waiting for the last member."""
    chosen = works.placed & (works.kind == COLLECTIVE)
    time = sweep.share(COLLECTIVE)[chosen]
    bound = _moving(result, works, chosen, peaks.bus_bytes_per_s, otherwise=0.0)
    used = time * bound
    charge(result, sweep.total(COLLECTIVE), np.array([used.sum(), (time - used).sum()]),
           ("collective_network", "collective_wait"))


def charge_transfers(result: Account, sweep: Sweep, works: Works, peaks: Peaks) -> None:
    """Time at the path's ceiling by direction, then what others on the path took; the rest is set-up and latency.
    Without a ceiling or a size all of it goes to the direction."""
    time = sweep.share(H2D)
    used, queued = [], 0.0
    for kind, peak in ((H2D, peaks.h2d_bytes_per_s), (D2H, peaks.d2h_bytes_per_s)):
        chosen = works.placed & (works.kind == kind)
        bound = _moving(result, works, chosen, peak, otherwise=1.0)
        used.append(float((time[chosen] * bound).sum()))
        if works.shared is not None:
            lost = works.shared[chosen] / np.maximum(works.stop - works.start, 1)[chosen]
            queued += float((time[chosen] * np.clip(lost, 0.0, 1.0 - bound)).sum())
    all_of = float(time[works.placed & (works.kind >= H2D)].sum())
    charge(result, sweep.total(H2D), np.array([*used, queued, max(all_of - sum(used) - queued, 0.0)]),
           ("pcie_h2d", "pcie_d2h", "pcie_queueing", "pcie_small"))


def _moving(result: Account, works: Works, chosen: Bools, peak: float | None, *, otherwise: float) -> Floats:
    """Share of each work's time at the ceiling of its path, ``otherwise`` where no ceiling is known."""
    duration = (works.stop - works.start)[chosen]
    bound, known = utilisation(works.bytes[chosen], peak, duration)
    bound = np.where(known, bound, otherwise)
    if works.ceiling is not None:
        own = works.ceiling[chosen]
        bound = np.where(np.isnan(own), bound, own / np.maximum(duration, 1))
        known = known & np.isnan(own)
    result.counter_errors += int((known & (bound > 1.0)).sum())
    return np.minimum(bound, 1.0)
