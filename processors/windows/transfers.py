"""Exposed collectives and transfers of a window."""

from __future__ import annotations

import numpy as np

from processors.windows.works import COLLECTIVE, D2H, H2D, Account, Peaks, Sweep, Works, charge, utilisation


def charge_collectives(result: Account, sweep: Sweep, works: Works, peaks: Peaks) -> None:
    chosen = works.placed & (works.kind == COLLECTIVE)
    time = sweep.share(COLLECTIVE)[chosen]
    bound, _ = utilisation(works.bytes[chosen], peaks.bus_bytes_per_s, (works.stop - works.start)[chosen])
    result.counter_errors += int((bound > 1.0).sum())
    used = time * np.minimum(bound, 1.0)
    charge(result, sweep.total(COLLECTIVE), np.array([used.sum(), (time - used).sum()]),
            ("collective_network", "collective_wait"))


def charge_transfers(result: Account, sweep: Sweep, works: Works, peaks: Peaks) -> None:
    """Time at the link's ceiling by direction; without a ceiling or a size all of it goes to the direction."""
    time = sweep.share(H2D)
    used = []
    for kind, peak in ((H2D, peaks.h2d_bytes_per_s), (D2H, peaks.d2h_bytes_per_s)):
        chosen = works.placed & (works.kind == kind)
        bound, known = utilisation(works.bytes[chosen], peak, (works.stop - works.start)[chosen])
        result.counter_errors += int((bound > 1.0).sum())
        used.append(float((time[chosen] * np.where(known, np.minimum(bound, 1.0), 1.0)).sum()))
    all_of = float(time[works.placed & (works.kind >= H2D)].sum())
    charge(result, sweep.total(H2D), np.array([*used, max(all_of - sum(used), 0.0)]),
            ("pcie_h2d", "pcie_d2h", "pcie_small"))
