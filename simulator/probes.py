"""Clock probes: bursts of exchanges between clocks, as a host's agent makes them. Latencies have heavy tails."""

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

_STARTUP_NS: Final = 2_000_000


@dataclass(frozen=True, slots=True)
class Path:
    """Latency of one direction in ns: ``base`` + exponential of mean ``spread``, ten times that in 2 % of cases."""

    base: float
    spread: float

    def draw(self, rng: np.random.Generator, count: int) -> Ints:
        """Latencies in whole ns."""
        slow = np.where(rng.random(count) < 0.02, 10.0, 1.0)
        return np.asarray(self.base + rng.exponential(self.spread, count) * slow).astype(np.int64)


PCIE_OUT: Final = Path(420, 120)
PCIE_BACK: Final = Path(640, 180)
NETWORK_OUT: Final = Path(8_200, 1_200)
NETWORK_BACK: Final = Path(8_800, 1_600)
SYSCALL: Final = Path(35, 20)
TURNAROUND: Final = Path(1_500, 400)


@dataclass(frozen=True, slots=True)
class Probe:
    """One pair probed at 1 Hz by bursts of ``exchanges``; ``turnaround`` None: three stamps, else four."""

    local: Clock
    remote: Clock
    remote_host: str | None
    out: Path
    back: Path
    turnaround: Path | None
    exchanges: int
    phase_ns: int
    rng: np.random.Generator = field(compare=False, repr=False)

    def stamps(self, from_ns: int, to_ns: int) -> list[tuple[Ints, Ints, Ints | None, Ints]]:
        """Stamps of the bursts that begin in [from, to): local before, remote first, remote last, local after."""
        starts = [_STARTUP_NS] if from_ns <= _STARTUP_NS < to_ns else []
        first = max(-(-(from_ns - self.phase_ns) // NS), 0)
        starts += range(first * NS + self.phase_ns, to_ns, NS)
        return [self._burst(start) for start in starts]

    def _burst(self, start_ns: int) -> tuple[Ints, Ints, Ints | None, Ints]:
        count = self.exchanges
        out, back = self.out.draw(self.rng, count), self.back.draw(self.rng, count)
        inside = self.turnaround.draw(self.rng, count) if self.turnaround else np.zeros(count, dtype=np.int64)
        whole = out + inside + back
        before = start_ns + np.cumsum(whole + 2_000) - whole
        asked = before + out
        answered = self.remote.read(asked + inside) if self.turnaround else None
        return self.local.read(before), self.remote.read(asked), answered, self.local.read(before + whole)


def phase(index: int, count: int) -> int:
    """Phase within the second of probe ``index`` of ``count``: spread out, and clear of the ends of 200 ms chunks."""
    place = 0.98 * index / max(count, 1)
    chunk, within = divmod(place, 0.2)
    return int(chunk) * 200_000_000 + 10_000_000 + int(within / 0.2 * 140_000_000)


def sample_rows(probes: Sequence[Probe], from_ns: int, to_ns: int) -> pa.RecordBatch | None:
    """Rows of the `clock_samples` contract for the bursts of [from, to); None where there are none."""
    parts = [_rows(probe, stamps) for probe in probes for stamps in probe.stamps(from_ns, to_ns)]
    if not parts:
        return None
    table = pa.Table.from_batches(parts).unify_dictionaries().combine_chunks()
    return table.to_batches()[0]


def _rows(probe: Probe, stamps: tuple[NDArray[np.int64], Ints, Ints | None, Ints]) -> pa.RecordBatch:
    before, asked, answered, after = stamps
    count = len(before)
    columns = {
        "kind": constant_symbol("exchange", count),
        "local_clock": constant_symbol(probe.local.name, count),
        "remote_clock": constant_symbol(probe.remote.name, count),
        "local_before_ticks": pa.array(before),
        "remote_first_ticks": pa.array(asked),
        "local_after_ticks": pa.array(after),
        "local_hz": pa.array(np.full(count, probe.local.hz)),
        "remote_hz": pa.array(np.full(count, probe.remote.hz)),
    }
    if probe.remote_host is not None:
        columns["remote_host"] = constant_symbol(probe.remote_host, count)
    if answered is not None:
        columns["remote_last_ticks"] = pa.array(answered)
    return record_batch(CLOCK_SAMPLES, columns, count)
