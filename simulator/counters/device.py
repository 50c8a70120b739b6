"""Counters of one device, read every 100 ms of true time with jitter, from what ran on it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from simulator.counters.descriptors import PERIOD_NS, device_descriptors
from simulator.counters.ops import ACTIVE, COLUMN, COLUMNS, Ops, busy_ns, no_ops, totals_at
from simulator.counters.readings import Readings, Sheet
from simulator.counters.registers import GROUPS, seen, turns
from simulator.machine import Machine
from simulator.physics.pcie import Link
from simulator.physics.power import HEAT_LIMITED, INLET_C, POWER_LIMITED
from simulator.physics.roofline import peak_hbm_bytes_per_s

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

JITTER_NS: Final = 2_000_000
"""Readings come up to this much before their round time: the agent's timer and the bus."""
POWER_NOISE: Final = 0.01
TEMPERATURE_NOISE_C: Final = 0.3
CLOCK_NOISE: Final = 0.0005
HYSTERESIS_C: Final = 2.0
"""A device that throttles for heat goes on until it is this much below its threshold."""

_EXACT: Final = (
    # counter, instance, columns it adds up
    ("hbm_bytes", None, ("read_bytes", "write_bytes")),
    ("hbm_read_bytes", None, ("read_bytes",)),
    ("hbm_write_bytes", None, ("write_bytes",)),
    ("spill_bytes", None, ("spill_bytes",)),
    ("hbm_channel_bytes", "max", ("peak_channel_bytes",)),
    ("pcie_rx_bytes", None, ("rx_bytes",)),
    ("pcie_tx_bytes", None, ("tx_bytes",)),
    ("pcie_rx_bytes_32", None, ("rx_bytes",)),
    ("pcie_rx_wire_bytes_32", None, ("rx_wire_bytes",)),
    ("pcie_tx_wire_bytes_32", None, ("tx_wire_bytes",)),
    ("fabric_tx_bytes", None, ("fabric_bytes",)),
)
_SHARED: Final = (
    # counter, instance, column, set that it is counted with
    ("hbm_row_hits", None, "row_hits", 0),
    ("hbm_row_misses", None, "row_misses", 0),
    ("hbm_turnarounds", None, "turnarounds", 1),
    ("pipe_active_cycles", "matrix", "matrix_cycles", 3),
    ("pipe_active_cycles", "vector", "vector_cycles", 3),
    ("sram_access_cycles", None, "sram_cycles", 1),
    ("sram_conflict_cycles", None, "conflict_cycles", 1),
    ("stall_cycles", "memory", "memory_stall_ns", 2),
    ("stall_cycles", "spill", "spill_stall_ns", 2),
    ("stall_cycles", "dma", "dma_stall_ns", 2),
)
"""Multiplexed counters. Row hits and misses are of one set, so that their ratio is of the same time."""


@dataclass(frozen=True, slots=True)
class Series:
    """What the core measured of a device, one entry a period that ends at ``time_ns``: its own series."""

    time_ns: Ints
    clock_mhz: Floats
    power_w: Floats
    temperature_c: Floats
    throttled_ns: Floats
    """Time in the period at less than full clock."""
    hbm_ns: Floats
    """Time of device memory for kernels, at its achievable rate."""
    in_bytes: Floats
    out_bytes: Floats
    fabric_bytes: Floats


@dataclass(frozen=True, slots=True)
class LinkEvents:
    """True times (ns, ascending) of what the error counters of a link count."""

    replays_ns: Ints
    correctable_ns: Ints
    nonfatal_ns: Ints

    def kinds(self) -> tuple[Ints, Ints, Ints]:
        """Replays, correctable and non-fatal errors."""
        return self.replays_ns, self.correctable_ns, self.nonfatal_ns


def no_events() -> LinkEvents:
    """A link without errors."""
    none = np.zeros(0, np.int64)
    return LinkEvents(none, none, none)


class DeviceCounters:
    """Follows one device; readings do not depend on how the run is cut into calls at multiples of the period.

    Monotonic counters agree with the amounts of the ops at every reading; an op that comes only after it ended counts
    from then on. ``rng`` is the device's own.
    """

    def __init__(self, machine: Machine, link: Link, rng: np.random.Generator, *, start_ns: int = 0) -> None:
        self.link = link
        """As negotiated now; the owner changes it with the link."""
        self._machine = machine
        self._names = {descriptor.name for descriptor in device_descriptors(machine)}
        self._jitter, self._noise, phases = rng.spawn(3)
        self._phase = int(phases.integers(GROUPS))
        self._index = start_ns // PERIOD_NS
        self._edge_ns = self._read_ns = start_ns
        self._next_ns = self._draw_next()
        self._open = no_ops()
        self._retired = np.zeros(len(COLUMNS), np.int64)
        self._dma_ns = 0.0
        self._before = np.zeros(len(COLUMNS) + 1, np.int64)
        self._seen = np.zeros(len(_SHARED), np.int64)
        self._errors = [0, 0, 0]
        self._zero = np.zeros(len(COLUMNS), np.int64)
        self._state = (float(machine.clock_mhz), machine.idle_w, INLET_C, 0)

    def read(self, ran: Ops, series: Series, events: LinkEvents, to_ns: int) -> Readings:
        """Readings later than the last call's ``to_ns`` and not later than this one's.

        ``ran``: ops not given before, those that ended by ``to_ns`` at least; ``series`` and ``events``: of the time
        between both.
        """
        found = self._open.join(ran)
        times = self._times(to_ns)
        edges = np.unique(np.concatenate([np.array([to_ns], np.int64), times, turns(self._edge_ns, to_ns)]))
        totals = np.column_stack([totals_at(edges, found) + self._retired, self._dma_at(edges, series)])
        shared = self._count_shared(edges, totals)
        sheet = Sheet(times.tolist(), self._names)
        places = np.searchsorted(edges, times)
        self._exact(sheet, totals[places, :-1] - self._zero)
        self._shared(sheet, shared[places])
        bounds = np.concatenate([[self._read_ns], times])
        busy = busy_ns(bounds, found) / np.maximum(np.diff(bounds), 1)[:, None]
        self._engines(sheet, busy)
        self._bus(sheet, times, events, np.asarray(busy.any(axis=1)))
        self._gauges(sheet, times.tolist(), series)
        self._read_ns = int(bounds[-1])
        self._errors = [before + len(times) for before, times in zip(self._errors, events.kinds(), strict=True)]
        self._end(found, series, to_ns)
        return sheet.readings()

    def reset(self) -> None:
        """The device lost its counts at the last call's ``to_ns``: driver reload, hot plug."""
        self._zero = self._before[:-1].copy()
        self._seen[:] = 0
        self._errors = [0, 0, 0]

    def _draw_next(self) -> int:
        self._index += 1
        return self._index * PERIOD_NS - int(self._jitter.integers(JITTER_NS))

    def _times(self, to_ns: int) -> Ints:
        times = []
        while self._next_ns <= to_ns:
            times.append(self._next_ns)
            self._next_ns = self._draw_next()
        return np.array(times, np.int64)

    def _dma_at(self, edges: Ints, series: Series) -> Ints:
        """Time by each edge in which a kernel's accesses waited for those of copies and collectives.

        The memory serves these for bytes / rate; a kernel waits as often as it uses the memory itself in the time left.
        """
        waited = self._dma_waited(series)
        summed = self._dma_ns + np.concatenate([[0.0], np.cumsum(waited)])
        period = np.searchsorted(series.time_ns, edges, side="left")
        ends = np.concatenate([series.time_ns, [0]])[period]
        share = np.where(period < len(waited), 1.0 - (ends - edges) / PERIOD_NS, 0.0)
        part = np.concatenate([waited, [0.0]])[period] * np.clip(share, 0.0, 1.0)
        return np.asarray(np.floor(summed[period] + part).astype(np.int64))

    def _dma_waited(self, series: Series) -> Floats:
        rate = peak_hbm_bytes_per_s(self._machine) / 1e9
        moved = (series.in_bytes + series.out_bytes + 2.0 * series.fabric_bytes) / rate
        left = np.maximum(PERIOD_NS - moved, 1.0)
        return np.asarray(moved * np.minimum(series.hbm_ns / left, 1.0))

    def _count_shared(self, edges: Ints, totals: Ints) -> Ints:
        """(edges, _SHARED) estimates of the multiplexed counters."""
        bounds = np.concatenate([[self._edge_ns], edges])
        counts = np.vstack([self._before, totals])
        result = np.empty((len(edges), len(_SHARED)), np.int64)
        for index, (_, _, column, group) in enumerate(_SHARED):
            place = COLUMN.get(column, len(COLUMNS))
            grown = np.cumsum(seen(bounds, counts[:, place], group, self._phase))
            result[:, index] = self._seen[index] + grown
        self._seen, self._before, self._edge_ns = result[-1].copy(), totals[-1].copy(), int(edges[-1])
        return np.asarray(result * GROUPS)

    def _exact(self, sheet: Sheet, totals: Ints) -> None:
        for counter, instance, columns in _EXACT:
            sheet.raw(counter, instance, totals[:, [COLUMN[column] for column in columns]].sum(axis=1))
        moved = totals[:, COLUMN["read_bytes"]] + totals[:, COLUMN["write_bytes"]]
        sheet.raw("hbm_channel_bytes", "mean", moved // self._machine.hbm_channels)

    def _shared(self, sheet: Sheet, estimates: Ints) -> None:
        mhz = round(self._machine.clock_mhz)
        for index, (counter, instance, column, _) in enumerate(_SHARED):
            counts = estimates[:, index]
            if column.endswith("_ns"):  # cycles, without leaving 64 bits
                counts = counts // 1_000 * mhz + counts % 1_000 * mhz // 1_000
            sheet.raw(counter, instance, counts)

    def _engines(self, sheet: Sheet, busy: Floats) -> None:
        for index, instance in enumerate(ACTIVE):
            sheet.value("engine_active", busy[:, index].tolist(), instance)

    def _bus(self, sheet: Sheet, times: Ints, events: LinkEvents, busy: Bools) -> None:
        replays, correctable, nonfatal = (
            before + np.searchsorted(found, times, side="right")
            for before, found in zip(self._errors, events.kinds(), strict=True))
        sheet.raw("pcie_replays", None, replays)
        sheet.raw("pci_aer_correctable", "BadTLP", correctable)
        sheet.raw("pci_aer_nonfatal", "CmpltTO", nonfatal)
        link, idle_gt_s = self.link, self._machine.pcie_idle_gt_s
        asleep = min(idle_gt_s, link.gt_s) if idle_gt_s > 0 else link.gt_s
        sheet.value("pci_link_width", [float(link.lanes)] * len(times))
        sheet.value("pci_link_speed", [link.gt_s if works else asleep for works in busy.tolist()])

    def _gauges(self, sheet: Sheet, times: list[int], series: Series) -> None:
        """The latest that the device has measured itself, with the noise of its sensors."""
        states = [self._latest(series, at) for at in times]
        noise = self._noise.standard_normal((len(times), 3)).tolist()
        drawn = list(zip(states, noise, strict=True))
        sheet.value("power_w", [round(watts * (1.0 + POWER_NOISE * n[0]), 3) for (_, watts, _, _), n in drawn])
        sheet.value("temperature_c", [float(round(celsius + TEMPERATURE_NOISE_C * n[1]))
                                      for (_, _, celsius, _), n in drawn])
        sheet.value("clock_mhz", [round(mhz * (1.0 + CLOCK_NOISE * n[2]), 3) for (mhz, _, _, _), n in drawn])
        sheet.value("throttle_reasons", [float(reasons) for _, _, _, reasons in states])

    def _latest(self, series: Series, at: int) -> tuple[float, float, float, int]:
        """Clock, power, temperature and reasons of throttling as of a time, which are kept."""
        row = int(np.searchsorted(series.time_ns, at, side="right")) - 1
        if row >= 0:
            celsius, throttled = float(series.temperature_c[row]), bool(series.throttled_ns[row] > 0)
            hot = celsius > self._machine.throttle_c - HYSTERESIS_C
            self._state = (float(series.clock_mhz[row]), float(series.power_w[row]), celsius,
                           (HEAT_LIMITED if hot else POWER_LIMITED) if throttled else 0)
        return self._state

    def _end(self, found: Ops, series: Series, to_ns: int) -> None:
        over = found.end <= self._read_ns
        self._retired += (found.amounts if over.all() else found.amounts[over]).sum(axis=0)
        self._open = found.take(~over)
        self._dma_ns += sum(self._dma_waited(series).tolist())
        self._latest(series, to_ns)
