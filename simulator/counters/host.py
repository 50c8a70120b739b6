"""Counters of a host's serving processes: demand, and waiting for a processor."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from simulator.counters.descriptors import PERIOD_NS
from simulator.counters.readings import Readings

Ints = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Demand:
    """Requests of one rank, one entry a change, ascending in time (ns); the first is not later than any reading."""

    time_ns: Ints
    running: Ints
    waiting: Ints


def demand_readings(demand: Demand, rank: int, from_ns: int, to_ns: int) -> Readings:
    """Requests at the ends of periods in ``(from, to]``, by the last change not later; ValueError before the first."""
    readings = Readings()
    for at in round_times(from_ns, to_ns):
        row = int(np.searchsorted(demand.time_ns, at, side="right")) - 1
        if row < 0:
            raise ValueError(f"rank {rank}: demand is not known before {at} ns")
        readings.add(at, "requests_running", str(rank), value=float(demand.running[row]))
        readings.add(at, "requests_waiting", str(rank), value=float(demand.waiting[row]))
    return readings


class RunWait:
    """Time in which a rank's thread was ready and had no processor, added up."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._total_ns = 0

    def read(self, ended_ns: Ints, waited_ns: Ints, from_ns: int, to_ns: int) -> Readings:
        """``waited_ns`` of waits that ended at ``ended_ns``, in ``(from, to]``; a wait counts when it has ended."""
        readings = Readings()
        order = np.argsort(ended_ns, kind="stable")
        summed = np.concatenate([[0], np.cumsum(waited_ns[order])])
        for at in round_times(from_ns, to_ns):
            total = self._total_ns + int(summed[np.searchsorted(ended_ns[order], at, side="right")])
            readings.add(at, "cpu_run_wait_us", str(self._rank), raw=total // 1_000)
        self._total_ns += int(summed[-1])
        return readings


def round_times(from_ns: int, to_ns: int) -> range:
    """Ends of periods in ``(from, to]``."""
    first = from_ns // PERIOD_NS + 1
    return range(first * PERIOD_NS, to_ns + 1, PERIOD_NS)
