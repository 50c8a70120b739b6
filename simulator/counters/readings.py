"""Readings as columns, and the batch of contract `counters` they make."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from fleetscope.contracts.batch import record_batch, symbol_array
from fleetscope.contracts.raw import COUNTERS
from simulator.clocks import Clock, Ints


@dataclass(slots=True)
class Readings:
    """One entry a reading, in the order of true time; ``raw`` of monotonic counters, ``value`` of gauges."""

    counter: list[str] = field(default_factory=list)
    instance: list[str | None] = field(default_factory=list)
    time_ns: list[int] = field(default_factory=list)
    raw: list[int | None] = field(default_factory=list)
    value: list[float | None] = field(default_factory=list)
    status: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.counter)

    def add(self, time_ns: int, counter: str, instance: str | None = None, *, raw: int | None = None,
            value: float | None = None, status: str = "ok") -> None:
        """One reading."""
        for column, entry in zip((self.counter, self.instance, self.time_ns, self.raw, self.value, self.status),
                                 (counter, instance, time_ns, raw, value, status), strict=True):
            column.append(entry)  # type: ignore[attr-defined]

    def extend(self, other: Readings) -> None:
        """Those of another after these."""
        for name in self.__slots__:
            getattr(self, name).extend(getattr(other, name))


def counter_batch(readings: Readings, clock: Clock, device: str | None) -> pa.RecordBatch:
    """The batch, stamped on ``clock``."""
    times: Ints = pa.array(readings.time_ns, pa.int64()).to_numpy()
    columns = {
        "device": symbol_array([device] * len(readings)),
        "counter": symbol_array([*readings.counter]),
        "instance": symbol_array(readings.instance),
        "time_ticks": pa.array(clock.read(times)),
        "raw": pa.array(readings.raw, pa.int64()),
        "value": pa.array(readings.value, pa.float64()),
        "status": symbol_array([*readings.status]),
    }
    return record_batch(COUNTERS, columns, len(readings))
