"""What the counters of one device show of what the core did on it."""

from __future__ import annotations

from collections.abc import Sequence

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
from simulator.engine.program import LAUNCH, Ints, Program
from simulator.engine.world import DeviceSpans
from simulator.engine.world import Readings as Measured
from simulator.physics.lower import QUANTITIES
from simulator.physics.pcie import Link
from simulator.scenario.faults import LinkDowngrade, Replays
from simulator.topology.changes import Held
from simulator.topology.fabric import pcie_link
from simulator.topology.hosts import HostSpec


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

    def given(self, program: Program) -> None:
        """A program that the device was given."""
        launched = program.kind == LAUNCH
        quantities = np.zeros((int(launched.sum()), len(QUANTITIES)), dtype=np.int64) \
            if program.quantities is None else program.quantities[launched]
        self._ledger.give(program.queue[launched], quantities)

    def read(self, spans: DeviceSpans, measured: Measured, from_ns: int, to_ns: int) -> Readings:
        """Readings in (from, to]; ``spans`` ended then, in order of their ends, ``measured`` is of this device."""
        self._counters.link = self._link_at(to_ns)
        ran = ops(spans.start, spans.end, spans.queue, spans.flags, np.maximum(spans.bytes, 0),
                  self._ledger.take(spans.queue), self._counters.link)
        values = measured.values
        series = Series(measured.at, values[:, CLOCK_MHZ], values[:, POWER_W], values[:, TEMPERATURE_C],
                        values[:, THROTTLED_NS], values[:, HBM_NS], values[:, IN_BYTES], values[:, OUT_BYTES],
                        values[:, FABRIC_BYTES])
        return self._counters.read(ran, series, self._errors(spans, from_ns, to_ns), to_ns)

    def _link_at(self, at_ns: int) -> Link:
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
