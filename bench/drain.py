"""When a pipeline has stored everything, and what it had used by then."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from bench.measure import cpu_seconds

if TYPE_CHECKING:
    from processors.runner import Pipeline

LOOK_S: Final = 0.02


class NotDrainedError(RuntimeError):
    """The pipeline was still busy after the time-out."""


@dataclass(frozen=True, slots=True)
class Moment:
    """A reading of both clocks: ``time.perf_counter`` and CPU seconds of this process."""

    wall_s: float
    cpu_s: float

    @classmethod
    def now(cls) -> Moment:
        """The reading at the call."""
        return cls(time.perf_counter(), cpu_seconds())


def drained_at(pipeline: Pipeline, idle_s: float, timeout_s: float) -> Moment:
    """The moment from which on ``pipeline`` had nothing to do, known once that has held for ``idle_s``.

    A unit looks idle while the next one's work is still on its way, hence ``idle_s``; the waiting itself is no work and
    is not counted. Raises NotDrainedError after ``timeout_s``, and what stopped a unit.
    """
    deadline = time.perf_counter() + timeout_s
    since: Moment | None = None
    while time.perf_counter() < deadline:
        if pipeline.error is not None:
            raise pipeline.error
        if not pipeline.drained(0.0):
            since = None
        elif since is None:
            since = Moment.now()
        elif time.perf_counter() - since.wall_s >= idle_s:
            return since
        time.sleep(LOOK_S)
    raise NotDrainedError(f"the pipeline had not drained after {timeout_s:g} s")
