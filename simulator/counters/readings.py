"""Readings as columns, and the batch of contract `counters` they make."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

import pyarrow as pa

from fleetscope.contracts.batch import record_batch, symbol_array
from fleetscope.contracts.raw import COUNTERS
from simulator.clocks import Clock, Ints
from simulator.counters.descriptors import BY_NAME
from simulator.counters.registers import all_shown

T = TypeVar("T")


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


class Sheet:
    """Readings of the same counters at several times, given counter by counter; those not in ``names`` are left out."""

    def __init__(self, time_ns: list[int], names: Set[str]) -> None:
        self._time_ns = time_ns
        self._names = names
        self._counters: list[str] = []
        self._instances: list[str | None] = []
        self._raw: list[Sequence[int | None]] = []
        self._value: list[Sequence[float | None]] = []
        self._status: list[Sequence[str]] = []

    def raw(self, counter: str, instance: str | None, counts: Ints) -> None:
        """What the register of a monotonic counter shows of true counts, one a time."""
        if counter in self._names:
            raw, full = all_shown(counts, BY_NAME[counter])
            status = ["saturated" if top else "ok" for top in full] if any(full) else ["ok"] * len(raw)
            self._add(counter, instance, raw, [None] * len(raw), status)

    def value(self, counter: str, values: Sequence[float], instance: str | None = None) -> None:
        """A gauge, one value a time."""
        if counter in self._names:
            self._add(counter, instance, [None] * len(values), values, ["ok"] * len(values))

    def readings(self) -> Readings:
        """By time, then in the order in which the counters were given."""
        times, kinds = len(self._time_ns), len(self._counters)
        return Readings(self._counters * times, self._instances * times,
                        [at for at in self._time_ns for _ in range(kinds)], _by_time(self._raw), _by_time(self._value),
                        _by_time(self._status))

    def _add(self, counter: str, instance: str | None, raw: Sequence[int | None], value: Sequence[float | None],
             status: Sequence[str]) -> None:
        self._counters.append(counter)
        self._instances.append(instance)
        self._raw.append(raw)
        self._value.append(value)
        self._status.append(status)


def _by_time(columns: Sequence[Sequence[T]]) -> list[T]:
    return list(chain.from_iterable(zip(*columns, strict=True)))


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
