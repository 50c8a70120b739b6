"""Where the time of one device in one window went: every nanosecond in exactly one of ``STATES``. Pure.

Precedence: kernel > exposed collective > exposed transfer > work of unknown place > idle.

- A moment with n works of the ruling class is shared by them in equal parts, so that overlapping kernels divide the
  time they cover and never count it twice.
- Kernel of duration d with t_r = work_r / peak_r: the share max(t_r) / d goes to the binding resource, the rest to
  ``latency``. Where a resource cannot be judged (work or peak not stated) the rest is ``kernel_unattributed``.
- Work without a bound on its time (``placed`` false) cannot be laid on the time axis: what its best guess covers, and
  no placed work does, is ``unknown``.
- An idle gap is charged by the next work: before the end of its submission ``host`` (``no_demand`` where the host had
  no step open), afterwards ``dependency`` until the awaited work ended, then ``launch_overhead``. Both ends of a gap
  are of the device's clock; the submission is of the host's, so a piece that it cuts off and that is shorter than
  twice the error bound is ``unresolved``.
- The gap at the end of a window has no next work yet: the earliest submission that still waits takes its place. Rows
  that start after the window are never used, so that the result does not depend on what else has arrived.
"""

from __future__ import annotations

import numpy as np

from processors.windows.idle import HostWork, charge_idle
from processors.windows.intervals import Bools, Ints, Union
from processors.windows.kernels import NOTHING, charge_kernels
from processors.windows.readings import Counted
from processors.windows.transfers import charge_collectives, charge_transfers
from processors.windows.works import D2H, H2D, INT64_MAX, KERNEL, UNPLACED, Account, Peaks, Works, canonical, sweep_of


def account(start_ns: int, stop_ns: int, works: Works, demand: Union, pending_ns: int | None, peaks: Peaks,
            known: tuple[int, int] | None = None, counted: Counted = NOTHING, host: HostWork | None = None) -> Account:
    """Account for ``[start_ns, stop_ns)``.

    ``demand``: when the host had a step open for this device; ``pending_ns``: end of the earliest submission in the
    window whose work has not started before its end; ``known``: part of the window that was observed, all else is
    ``unknown``; ``counted``: what the device's counters saw; ``host``: what the threads that feed it did.
    """
    low, high = (start_ns, stop_ns) if known is None else (max(start_ns, known[0]), min(stop_ns, known[1]))
    result = Account()
    if high > low:
        works = canonical(works.split_at_arrival())
        touching = works.take((works.stop > low) & (works.start < high) & (works.stop > works.start))
        sweep = sweep_of(low, high, touching)
        charge_kernels(result, sweep, touching, peaks, counted)
        charge_collectives(result, sweep, touching, peaks)
        charge_transfers(result, sweep, touching, peaks)
        charge_idle(result, sweep, touching, demand, pending_ns, high, host)
        result.states["unknown"] += sweep.total(UNPLACED)
    result.states["unknown"] += (stop_ns - start_ns) - max(high - low, 0)
    _quantities(result, works, start_ns, stop_ns)
    return result


def _quantities(result: Account, works: Works, start_ns: int, stop_ns: int) -> None:
    began = (works.start >= start_ns) & (works.start < stop_ns)
    kernel = works.kind == KERNEL
    result.kernels = int((began & kernel).sum())
    result.transfers = int((began & (works.kind >= H2D)).sum())
    result.flops = _inside(works, kernel, works.flops, start_ns, stop_ns)
    result.memory_bytes = _inside(works, kernel, works.bytes, start_ns, stop_ns)
    result.h2d_bytes = _inside(works, works.kind == H2D, works.bytes, start_ns, stop_ns)
    result.d2h_bytes = _inside(works, works.kind == D2H, works.bytes, start_ns, stop_ns)


def _inside(works: Works, chosen: Bools, amount: Ints, start_ns: int, stop_ns: int) -> int | None:
    """Amounts by share of time inside; pieces of one work in neighbouring windows add up to it exactly."""
    known = chosen & (amount >= 0)
    if not known.any():
        return None
    whole = known & (works.start >= start_ns) & (works.stop <= stop_ns) & (works.start < stop_ns)
    total = int(amount[whole].sum(dtype=np.float64)) if amount.max() > 1 << 48 else int(amount[whole].sum())
    # Python integers: amount times nanoseconds passes int64
    for index in np.flatnonzero(known & ~whole):
        start, stop, value = int(works.start[index]), int(works.stop[index]), int(amount[index])
        if stop > start:
            length = stop - start
            total += (value * (min(max(stop_ns, start), stop) - start)) // length
            total -= (value * (min(max(start_ns, start), stop) - start)) // length
    return min(total, INT64_MAX)
