"""A vision model fed by its host: images are decoded and augmented on the processor, copied from pageable memory, and
classified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from fleetscope.errors import UsageError
from simulator.machine import Machine
from simulator.work.arrivals import ArrivalConfig
from simulator.work.crew import Crew
from simulator.work.layout import Layout, LayoutBuilder
from simulator.work.models import VISION_50, Vision
from simulator.work.operators import Cost, conv2d, elementwise, matmul
from simulator.work.plan import WARM_UP_NS, Conditions, Gauges, Plan, Seat
from simulator.work.queue import GatherConfig, RequestQueue
from simulator.work.table import Table, table


@dataclass(frozen=True, slots=True)
class VisionConfig:
    """One device and the process that feeds it."""

    model: Vision = VISION_50
    batch: GatherConfig = GatherConfig()
    arrivals: ArrivalConfig | None = None
    """None: a data set that does not end."""
    decode_ns: int = 1_200_000
    """Processor time to decode one image."""
    augment_ns: int = 400_000
    """Processor time to crop, flip and scale one image."""
    workers: int = 8
    """Threads that share this work."""
    prefetch: bool = True
    """The next batch is prepared while the device works; else the device waits for it."""
    pageable: bool = True

    def __post_init__(self) -> None:
        for key, least in (("decode_ns", 0), ("augment_ns", 0), ("workers", 1)):
            if getattr(self, key) < least:
                raise UsageError(f"vision: {key}: is at least {least}")


def kernels(model: Vision, images: int) -> list[tuple[str, bool, Cost]]:
    """(name, on the matrix engine, cost) of every kernel of a batch, in order. Normalisation is folded into weights."""
    w, a = model.weight_bytes, model.activation_bytes
    found = [("normalize", False, elementwise(images * 3 * model.image_side ** 2, 1, 1, 2, a))]
    convolutions = model.convolutions()
    for index, layer in enumerate(convolutions):
        found.append(("conv2d", True, conv2d(images, layer, w, a)))
        elements = images * layer.out_side ** 2 * layer.filters
        name, reads, flops = ("add_relu", 2, 2) if layer.adds else ("relu", 1, 1)
        found.append((name, False, elementwise(elements, reads, 1, flops, a)))
        if not index:
            found.append(("max_pool", False, elementwise(elements // 4, 4, 1, 9, a)))
    last = convolutions[-1]
    found.append(("avg_pool", False, elementwise(images * last.out_side ** 2 * last.filters, 1, 1, 1, a)))
    found.append(("fc", True, matmul(images, last.filters, model.classes, w, a)))
    found.append(("softmax", False, elementwise(images * model.classes, 1, 1, 6, a)))
    return found


class VisionPlanner:
    """Plans one device; see `Planner`."""

    ranks = 1
    groups: tuple[tuple[int, ...], ...] = ()

    def __init__(self, config: VisionConfig, key: tuple[int, ...], seats: Sequence[Seat], *,
                 start_ns: int = WARM_UP_NS) -> None:
        if len(seats) != 1:
            raise UsageError(f"vision: a replica has one seat, not {len(seats)}")
        self.config = config
        seat = replace(seats[0], host=replace(seats[0].host, pageable=config.pageable))
        self._seat = seat
        self._crew = Crew(key, [seat], ())
        self._queue = RequestQueue(config.batch, config.arrivals, np.random.default_rng([*key, 1]), start_ns)
        self._made: dict[tuple[int, bool], tuple[Layout, Table]] = {}
        self._start_ns = start_ns
        self._step = 0

    def plan(self, now_ns: int, conditions: tuple[Conditions, ...] = ()) -> Plan:
        """The next batch; see `Planner.plan`."""
        count, at_ns, demand_ns = self._queue.take(max(now_ns, self._start_ns))
        if not count:
            return Plan(self._step, at_ns, at_ns, (), Gauges())
        shape = count, at_ns > demand_ns
        if shape not in self._made:
            self._made[shape] = self._layout(*shape), _table(self.config, count, self._seat.machine)
        layout, work = self._made[shape]
        programs = self._crew.programs([layout], [work], conditions)
        if at_ns > demand_ns:  # the step is open from its first request on
            programs[0].call_ns[0] = at_ns - demand_ns
        step, self._step = self._step, self._step + 1
        return Plan(step, demand_ns, demand_ns, programs, Gauges(count, self._queue.waiting, count))

    def _layout(self, count: int, gathers: bool) -> Layout:
        config = self.config
        calls = LayoutBuilder(self._seat.host, 0, 0, remote_numa=self._seat.remote_numa)
        if gathers:
            calls.work("gather_batch", 0, "host_launch")
        if not config.prefetch:
            self._prepare(calls, count)
        shapes = kernels(config.model, count)
        ready = calls.copy("memcpy_h2d", len(shapes))
        for row, (name, matrix, _) in enumerate(shapes):
            ready = calls.kernel(name, row, matrix=matrix, wait=ready if not row else -1)
        if config.prefetch:
            self._prepare(calls, count)
        calls.copy("outputs_d2h", len(shapes) + 1, out=True, wait=ready)
        calls.sync()
        return calls.build()

    def _prepare(self, calls: LayoutBuilder, count: int) -> None:
        for name, each_ns in (("decode_images", self.config.decode_ns), ("augment", self.config.augment_ns)):
            if each_ns:
                calls.work(name, each_ns * count // self.config.workers, "host_input")


def _table(config: VisionConfig, count: int, machine: Machine) -> Table:
    """Images arrive as 32-bit colours; scores leave as 32-bit numbers."""
    pixels = config.model.image_side ** 2 * 3
    return table(machine, [cost for _, _, cost in kernels(config.model, count)],
                 [count * pixels * 4, count * config.model.classes * 4])
