"""A vision model fed by its host: images are decoded and augmented on the processor, copied from pageable memory, and
classified."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fleetscope.errors import UsageError
from simulator.work.arrivals import ArrivalConfig
from simulator.work.batches import BatchPlanner, only
from simulator.work.layout import LayoutBuilder
from simulator.work.models import VISION_50, Vision
from simulator.work.operators import Cost, conv2d, elementwise, matmul
from simulator.work.plan import WARM_UP_NS, Seat
from simulator.work.queue import GatherConfig
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


class VisionPlanner(BatchPlanner):
    """Plans one device; see `Planner`."""

    def __init__(self, config: VisionConfig, key: tuple[int, ...], seats: Sequence[Seat], *,
                 start_ns: int = WARM_UP_NS) -> None:
        seat = only(seats, "vision")
        super().__init__(replace(seat, host=replace(seat.host, pageable=config.pageable)), key, config.batch,
                         config.arrivals, start_ns)
        self.config = config

    def _calls(self, calls: LayoutBuilder, count: int) -> None:
        config = self.config
        if not config.prefetch:
            self._prepare(calls, count)
        shapes = kernels(config.model, count)
        ready = calls.copy("memcpy_h2d", len(shapes))
        for row, (name, matrix, _) in enumerate(shapes):
            ready = calls.kernel(name, row, matrix=matrix, wait=ready if not row else -1)
        if config.prefetch:
            self._prepare(calls, count)
        calls.copy("outputs_d2h", len(shapes) + 1, out=True, wait=ready)

    def _prepare(self, calls: LayoutBuilder, count: int) -> None:
        for name, each_ns in (("decode_images", self.config.decode_ns), ("augment", self.config.augment_ns)):
            if each_ns:
                calls.work(name, each_ns * count // self.config.workers, "host_input")

    def _table(self, count: int) -> Table:
        """Images arrive as 32-bit colours; scores leave as 32-bit numbers."""
        model = self.config.model
        pixels = model.image_side ** 2 * 3
        return table(self._seat.machine, [cost for _, _, cost in kernels(model, count)],
                     [count * pixels * 4, count * model.classes * 4])
