"""Events drawn by seed: how many is asked for in the settings, the rest is drawn here."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar, get_args

import numpy as np

from fleetscope.errors import UsageError
from simulator.history.settings import (
    CostShift,
    Creep,
    Deployment,
    Effect,
    Gap,
    History,
    Stage,
    Subject,
    Transient,
)

_PURPOSE: Final = 41
"""Second word of the seeds; the third is the kind of event, so that more of one kind never move another's."""
_MARGIN: Final = 0.1
"""Nothing is drawn in the first and last tenth of a run: before and after must be there to be compared."""
_MIN_HOURS: Final = 2

_T = TypeVar("_T")


def with_draws(history: History, seed: int, kernels: Mapping[str, Sequence[str]]) -> History:
    """``history`` with the events it asks to be drawn.

    ``kernels`` are those of each job, by its name. Raises UsageError where the run
    is too short to draw in.
    """
    draw = history.draw
    counts = (draw.deployments, draw.harmless_deployments, draw.transients, draw.creeps, draw.cost_shifts, draw.gaps)
    if not any(counts):
        return history
    if history.hours < _MIN_HOURS:
        raise UsageError(f"history: draw: a run of {history.hours} h is too short to draw events in, at least "
                         f"{_MIN_HOURS} h are needed")
    drawer = _Drawer(history, kernels)

    def several(kind: int, count: int, make: Callable[[np.random.Generator, int], _T]) -> tuple[_T, ...]:
        return tuple(make(np.random.default_rng([seed, _PURPOSE, kind, number]), number) for number in range(count))

    return history.model_copy(update={
        "deployments": (*history.deployments, *several(0, draw.deployments, drawer.deployment),
                        *several(1, draw.harmless_deployments, drawer.harmless)),
        "transients": (*history.transients, *several(2, draw.transients, drawer.transient)),
        "creeps": (*history.creeps, *several(3, draw.creeps, drawer.creep)),
        "cost_shifts": (*history.cost_shifts, *several(4, draw.cost_shifts, drawer.cost_shift)),
        "gaps": (*history.gaps, *several(5, draw.gaps, drawer.gap)),
    })


class _Drawer:
    def __init__(self, history: History, kernels: Mapping[str, Sequence[str]]) -> None:
        self._history, self._jobs, self._kernels = history, list(kernels), kernels

    def deployment(self, rng: np.random.Generator, number: int) -> Deployment:
        """One kernel of one job slower (two in three) or faster, in two stages; a part of the hosts never changes."""
        return self._rollout(rng, f"d{number + 1}", harmless=False)

    def harmless(self, rng: np.random.Generator, number: int) -> Deployment:
        """A new version that does nothing."""
        return self._rollout(rng, f"h{number + 1}", harmless=True)

    def transient(self, rng: np.random.Generator, number: int) -> Transient:
        """A slow-down of every kernel for 2 % to 8 % of the run, on half of a job's hosts."""
        job, at_h = self._job(rng), self._at_h(rng)
        hours = self._history.hours * float(rng.uniform(0.02, 0.08))
        return Transient(job=job, at_h=at_h, hours=hours, hosts_share=0.5, effects=(Effect(slower=self._share(rng)),))

    def creep(self, rng: np.random.Generator, number: int) -> Creep:
        """One kernel of a job grows slower until the end of the run at the latest."""
        job, at_h = self._job(rng), self._at_h(rng)
        hours = (self._history.hours - at_h) * float(rng.uniform(0.3, 0.9))
        effect = Effect(operator=self._kernel(rng, job), slower=self._share(rng))
        return Creep(job=job, at_h=at_h, hours=hours, effects=(effect,))

    def cost_shift(self, rng: np.random.Generator, number: int) -> CostShift:
        """Time moves between two kernels of a job."""
        job = self._job(rng)
        source, target = (str(name) for name in rng.choice(np.array(self._kernels[job]), 2, replace=False))
        return CostShift(job=job, at_h=self._at_h(rng), source=source, target=target, share=self._share(rng))

    def gap(self, rng: np.random.Generator, number: int) -> Gap:
        """A tenth of a job's hosts is silent, or loses part of its rows, for 0.5 % to 4 % of the run."""
        job, at_h = self._job(rng), self._at_h(rng)
        lost = 1.0 if rng.random() < 0.5 else float(rng.uniform(0.1, 0.9))
        return Gap(job=job, at_h=at_h, hours=self._history.hours * float(rng.uniform(0.005, 0.04)), hosts_share=0.1,
                   lost_share=lost)

    def _rollout(self, rng: np.random.Generator, name: str, *, harmless: bool) -> Deployment:
        subject: Subject = get_args(Subject)[int(rng.integers(len(get_args(Subject))))]
        job, at_h, share = self._job(rng), self._at_h(rng), self._share(rng)
        kernel, slower = self._kernel(rng, job), rng.random() < 2 / 3
        effect = Effect(operator=kernel, slower=share) if slower else Effect(operator=kernel, faster=min(share, 0.9))
        stages = (Stage(share=0.25), Stage(after_h=0.05 * self._history.hours, share=0.75))
        return Deployment(job=job, at_h=at_h, subject=subject, version=f"drawn-{name}",
                          effects=() if harmless else (effect,), stages=stages)

    def _job(self, rng: np.random.Generator) -> str:
        return self._jobs[int(rng.integers(len(self._jobs)))]

    def _kernel(self, rng: np.random.Generator, job: str) -> str:
        names = self._kernels[job]
        return names[int(rng.integers(len(names)))]

    def _at_h(self, rng: np.random.Generator) -> float:
        return self._history.hours * float(rng.uniform(_MARGIN, 1 - 2 * _MARGIN))

    def _share(self, rng: np.random.Generator) -> float:
        return float(rng.uniform(self._history.draw.effect_low, self._history.draw.effect_high))
