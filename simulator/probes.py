"""Clock probes: bursts of exchanges between clocks, as a host's agent makes them, and what spoils them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fleetscope.contracts.batch import constant_symbol, record_batch
from fleetscope.contracts.raw import CLOCK_SAMPLES
from simulator.clocks import NS, Clock, Ints
from simulator.faults.settings import Latency, Probing

_STARTUP_NS: Final = 2_000_000
_GAP_NS: Final = 2_000
"""Between two exchanges of a burst."""
_ABSURD: Final = (-1, 1, 0xFFFF_FFFF, 1 << 61)
"""Stamps that no clock shows, within what the contract allows."""
_NAN_BITS: Final = 0x7FF8_0000_0000_0000


@dataclass(frozen=True, slots=True)
class Path:
    """Latency of one direction. ``slower``: (from, to, extra ns, mean of what comes on top) of its congestion."""

    latency: Latency
    slower: tuple[tuple[int, int, float, float], ...] = ()

    def draw(self, rng: np.random.Generator, count: int, at_ns: int) -> Ints:
        """Latencies of ``count`` messages sent about true time ``at_ns``, in whole ns."""
        latency = self.latency
        slow = np.where(rng.random(count) < latency.slow_share, latency.slow_factor, 1.0)
        if latency.tail == "lognormal":
            part = latency.spread_ns * np.exp(latency.sigma * rng.standard_normal(count))
        else:
            part = rng.exponential(latency.spread_ns, count)
        total = latency.base_ns + part * slow
        for start, end, extra, spread in self.slower:
            if start <= at_ns < end:
                total = total + extra + rng.exponential(spread, count)
        return np.asarray(total).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Stamps:
    """Columns of exchanges: local before, remote first and last (None: three stamps), local after."""

    before: Ints
    first: Ints
    last: Ints | None
    after: Ints

    def take(self, rows: NDArray[np.int64] | NDArray[np.bool_]) -> Stamps:
        """The chosen exchanges."""
        return Stamps(self.before[rows], self.first[rows], None if self.last is None else self.last[rows],
                      self.after[rows])


@dataclass(frozen=True, slots=True)
class Probe:
    """One pair probed by bursts of ``exchanges``; ``turnaround`` None: three stamps, else four."""

    local: Clock
    remote: Clock
    remote_host: str | None
    out: Path
    back: Path
    turnaround: Path | None
    exchanges: int
    phase_ns: int
    settings: Probing
    rng: np.random.Generator = field(compare=False, repr=False)

    def stamps(self, from_ns: int, to_ns: int) -> list[Stamps]:
        """Bursts that begin in [from, to), the exchanges of each that are back by ``to``."""
        period = round(NS / self.settings.rate_hz)
        starts = [_STARTUP_NS] if from_ns <= _STARTUP_NS < to_ns else []
        first = max(-(-(from_ns - self.phase_ns) // period), 0)
        starts += range(first * period + self.phase_ns, to_ns, period)
        return [self._spoiled(self._burst(start, to_ns)) for start in starts]

    def _burst(self, start_ns: int, until_ns: int) -> Stamps:
        count = self.exchanges
        out, back = self.out.draw(self.rng, count, start_ns), self.back.draw(self.rng, count, start_ns)
        inside = self.turnaround.draw(self.rng, count, start_ns) if self.turnaround \
            else np.zeros(count, dtype=np.int64)
        whole = out + inside + back
        paces = np.full(count, _GAP_NS) if self.settings.overlapping else whole + _GAP_NS
        before = start_ns + np.cumsum(paces) - paces
        asked = before + out
        # Who is not back by the flush, or finds nobody there, has timed out.
        kept = (before + whole < until_ns) & self.remote.readable(asked + inside) & self.local.readable(before)
        answered = self.remote.read(asked + inside) if self.turnaround else None
        return Stamps(self.local.read(before), self.remote.read(asked), answered,
                      self.local.read(before + whole)).take(kept)

    def _spoiled(self, stamps: Stamps) -> Stamps:
        """What of a burst is lost, repeated, out of order, unset or absurd."""
        settings, rng = self.settings, self.rng
        if settings.lost_share:
            stamps = stamps.take(rng.random(len(stamps.before)) >= settings.lost_share)
        if settings.unset_share:
            unset = rng.random(len(stamps.before)) < settings.unset_share
            stamps = Stamps(stamps.before, np.where(unset, 0, stamps.first), stamps.last, stamps.after)
        for share, values in ((settings.absurd_share, _ABSURD), (settings.nan_share, (_NAN_BITS,))):
            if share:
                stamps = self._absurd(stamps, share, values)
        if settings.duplicate_share:
            again = np.flatnonzero(rng.random(len(stamps.before)) < settings.duplicate_share)
            stamps = stamps.take(np.sort(np.concatenate([np.arange(len(stamps.before)), again])))
        if settings.disordered:
            stamps = stamps.take(rng.permutation(len(stamps.before)))
        return stamps

    def _absurd(self, stamps: Stamps, share: float, values: tuple[int, ...]) -> Stamps:
        """One stamp of some exchanges replaced: the remote one or the local one after it."""
        count = len(stamps.before)
        hit, which = self.rng.random(count) < share, self.rng.random(count) < 0.5
        value = np.array(values, dtype=np.int64)[self.rng.integers(len(values), size=count)]
        return Stamps(stamps.before, np.where(hit & which, value, stamps.first), stamps.last,
                      np.where(hit & ~which, value, stamps.after))


def phase(index: int, count: int) -> int:
    """Phase within the second of probe ``index`` of ``count``: spread out, and clear of the ends of 200 ms chunks."""
    place = 0.98 * index / max(count, 1)
    chunk, within = divmod(place, 0.2)
    return int(chunk) * 200_000_000 + 10_000_000 + int(within / 0.2 * 140_000_000)


def sample_rows(probes: Sequence[Probe], from_ns: int, to_ns: int, published: Sequence[tuple[Clock, Clock]] = ()) \
        -> pa.RecordBatch | None:
    """Rows of the `clock_samples` contract for [from, to); None where there are none.

    ``published``: (local, remote) clocks; changes of the remote's planned rate come as rows of kind rate.
    """
    parts = [_rows(probe, stamps) for probe in probes for stamps in probe.stamps(from_ns, to_ns) if len(stamps.before)]
    parts += [_rate_row(local, remote, at, ppb) for local, remote in published if remote.pieces is not None
              for at, ppb in remote.pieces.rates() if from_ns <= at < to_ns]
    if not parts:
        return None
    table = pa.Table.from_batches(parts).unify_dictionaries().combine_chunks()
    return table.to_batches()[0]


def _rows(probe: Probe, stamps: Stamps) -> pa.RecordBatch:
    count = len(stamps.before)
    columns = {
        **_pair(probe.local, probe.remote, count),
        "kind": constant_symbol("exchange", count),
        "local_before_ticks": pa.array(stamps.before),
        "remote_first_ticks": pa.array(stamps.first),
        "local_after_ticks": pa.array(stamps.after),
    }
    if probe.remote_host is not None:
        columns["remote_host"] = constant_symbol(probe.remote_host, count)
    if stamps.last is not None:
        columns["remote_last_ticks"] = pa.array(stamps.last)
    return record_batch(CLOCK_SAMPLES, columns, count)


def _rate_row(local: Clock, remote: Clock, at_ns: int, ppb: int) -> pa.RecordBatch:
    return record_batch(CLOCK_SAMPLES, {
        **_pair(local, remote, 1),
        "kind": constant_symbol("rate", 1),
        "local_before_ticks": pa.array([local.at(at_ns)], pa.int64()),
        "remote_first_ticks": pa.array([remote.at(at_ns)], pa.int64()),
        "rate_ppb": pa.array([ppb - NS], pa.int64()),
    }, 1)


def _pair(local: Clock, remote: Clock, count: int) -> dict[str, pa.Array]:
    return {
        "local_clock": constant_symbol(local.name, count),
        "remote_clock": constant_symbol(remote.name, count),
        "local_hz": pa.array(np.full(count, local.hz)),
        "remote_hz": pa.array(np.full(count, remote.hz)),
    }
