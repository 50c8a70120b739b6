"""What the counters of one device show of what the core did on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import TypeVar

import numpy as np

from simulator.counters.device import DeviceCounters, LinkEvents, Series, no_events
from simulator.counters.ops import Ledger, ops
from simulator.counters.readings import Readings
from simulator.engine.layout import (
    CLOCK_MHZ,
    FABRIC_BYTES,
    HBM_NS,
    IN_BYTES,
    OUT_BYTES,
    POWER_W,
    TEMPERATURE_C,
    THROTTLED_NS,
)
from simulator.engine.program import LAUNCH, NONE, Ints, Program
from simulator.engine.world import DeviceSpans
from simulator.engine.world import Readings as Measured
from simulator.physics.lower import QUANTITIES
from simulator.physics.pcie import Link
from simulator.scenario.faults import LinkDowngrade, Replays
from simulator.topology.changes import Held
from simulator.topology.fabric import pcie_link
from simulator.topology.hosts import HostSpec

R = TypeVar("R", DeviceSpans, Measured)


def _joined(parts: Sequence[R]) -> R:
    """Records of several takes, at least one, as one."""
    if len(parts) == 1:
        return parts[0]
    names = [field.name for field in fields(parts[0])]
    return type(parts[0])(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


class DeviceMeter:
    """Takes programs as they are loaded and records as they come; gives readings every chunk."""

    def __init__(self, host: HostSpec, device: int, faults: Sequence[Held], rng: np.random.Generator) -> None:
        self._host = host
        self._faults = [one for one in faults if (one.host, one.device) == (host.index, device)]
        link = host.tree.links[host.tree.paths[device][0]]
        self._negotiated = pcie_link(host, link.gt_s, link.lanes)
        counters, self._events = rng.spawn(2)
        self._counters = DeviceCounters(host.machine, self._negotiated, counters)
        self._ledger = Ledger()
        self._spans: list[DeviceSpans] = []
        self._measured: list[Measured] = []

    def given(self, program: Program) -> None:
        """A program that the device was given."""
        quantities = np.zeros((len(program), len(QUANTITIES)), dtype=np.int64) \
            if program.quantities is None else program.quantities
        self._ledger.give(np.where(program.kind == LAUNCH, program.queue, NONE), quantities)

    @property
    def steady(self) -> bool:
        """Whether the device's link stays as it is; else its readings have to be taken at every flush."""
        return not any(isinstance(one.fault, LinkDowngrade) for one in self._faults)

    @property
    def waiting(self) -> int:
        """Spans taken and not read yet."""
        return sum(len(spans) for spans in self._spans)

    def take(self, spans: DeviceSpans, measured: Measured) -> None:
        """What ended on the device, in order of ends, and what the core measured of it."""
        self._spans.append(spans)
        self._measured.append(measured)

    def read(self, from_ns: int, to_ns: int) -> Readings:
        """Readings in (from, to] of what was taken since the last call, at multiples of 100 ms."""
        self._counters.link = self.link_at(to_ns)
        spans, measured = _joined(self._spans), _joined(self._measured)
        self._spans, self._measured = [], []
        ran = ops(spans.start, spans.end, spans.queue, spans.flags, np.maximum(spans.bytes, 0),
                  self._ledger.take(spans.queue), self._counters.link)
        values = measured.values
        series = Series(measured.at, values[:, CLOCK_MHZ], values[:, POWER_W], values[:, TEMPERATURE_C],
                        values[:, THROTTLED_NS], values[:, HBM_NS], values[:, IN_BYTES], values[:, OUT_BYTES],
                        values[:, FABRIC_BYTES])
        return self._counters.read(ran, series, self._errors(spans, from_ns, to_ns), to_ns)

    def link_at(self, at_ns: int) -> Link:
        """The device's link as negotiated at a time."""
        link = self._negotiated
        for one in self._faults:
            if isinstance(one.fault, LinkDowngrade) and one.start_ns <= at_ns < one.end_ns:
                link = pcie_link(self._host, min(link.gt_s, one.fault.gt_s or link.gt_s),
                                 min(link.lanes, one.fault.lanes or link.lanes))
        return link

    def _errors(self, spans: DeviceSpans, from_ns: int, to_ns: int) -> LinkEvents:
        """Replays while the link is busy, a Poisson process; each comes with a correctable error at times."""
        found = [one for one in self._faults if isinstance(one.fault, Replays) and one.start_ns < to_ns
                 and one.end_ns > from_ns]
        if not found:
            return no_events()
        times: list[Ints] = []
        for one in found:
            low, high = max(one.start_ns, from_ns), min(one.end_ns, to_ns)
            count = int(self._events.poisson(one.fault.per_s * (high - low) / 1e9))  # type: ignore[attr-defined]
            times.append(self._events.integers(low, high, count))
        replays = np.sort(np.concatenate(times))
        correctable = replays[self._events.random(len(replays)) < 0.2]
        return LinkEvents(replays, correctable, np.zeros(0, dtype=np.int64))
