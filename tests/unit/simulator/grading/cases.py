"""Small truths with known answers: one host whose fleet time is true time plus START_NS."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from fleetscope.contracts.derived import STATE_NAMES
from simulator.causes import CODE, NAMES
from simulator.clocks import NS, RAW, Clock, Ints
from simulator.grading.bottleneck import Given
from simulator.grading.fleet_time import HostTime
from simulator.grading.shares import BIN_NS, RowCounts
from simulator.segments import FleetMap
from simulator.truth import Causes

START_NS = 1_767_225_600 * NS
SLOT_NS = NS // 10


def host_time(late_ns: int = 0, *, err_ns: int | None = 1_000, seconds: int = 1_000, leap_at_ns: int | None = None,
              leap_ns: int = 0) -> HostTime:
    """A clock that shows true time and a piece that puts it ``late_ns`` after START_NS; a second one after a leap."""
    until = seconds * NS
    first = {"epoch": 0, "version": 0, "valid_from_ticks": 0, "valid_to_ticks": until, "src0_ticks": 0,
             "dst0_ticks": START_NS + late_ns, "rate_q32": 1 << 32, "err_ns": err_ns}
    pieces = [first]
    if leap_at_ns is not None:
        pieces = [{**first, "valid_to_ticks": leap_at_ns},
                  {**first, "valid_from_ticks": leap_at_ns, "dst0_ticks": START_NS + late_ns + leap_ns}]
    table = pa.table({name: pa.array([piece[name] for piece in pieces], pa.int64()) for name in first})
    return HostTime(Clock(RAW, NS, 0), FleetMap(table), START_NS)


def slots(*seconds: dict[str, float], host: str = "a", device: str = "dev0") -> Causes:
    """Ten slots for each of ``seconds``, each with the same shares of causes; what is left is no demand."""
    rows = []
    for shares in seconds:
        ns = np.zeros(len(NAMES), dtype=np.int64)
        for name, share in shares.items():
            ns[CODE[name]] = round(share * SLOT_NS)
        ns[CODE["no_demand"]] += SLOT_NS - ns.sum()
        rows += [ns] * 10
    start = np.arange(len(rows), dtype=np.int64) * SLOT_NS
    return Causes(host, device, start, np.full(len(rows), SLOT_NS), np.array(rows))


def window(**shares: float) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Shares of STATE_NAMES; what is left is no demand."""
    values = np.zeros(len(STATE_NAMES))
    for name, share in shares.items():
        values[STATE_NAMES.index(name)] = share
    values[STATE_NAMES.index("no_demand")] += 1.0 - values.sum()
    return values


def given(*windows: tuple[str, dict[str, float]], host: str = "a", device: str = "dev0") -> Given:
    """Verdict and shares of the seconds from START_NS on."""
    return Given(NS, {(host, device, START_NS + second * NS): (window(**shares), cause)
                      for second, (cause, shares) in enumerate(windows)})


def all_rows(seconds: int, missed: Ints | None = None) -> RowCounts:
    """A hundred rows in every bin; ``missed`` of them by bin."""
    made = np.full(seconds * NS // BIN_NS + 1, 100, dtype=np.int64)
    return RowCounts(made, np.zeros_like(made) if missed is None else missed)
