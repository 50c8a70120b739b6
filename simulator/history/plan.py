"""What a history does, resolved: which host runs which job, and what changes where and when.

Everything follows from the settings and the seed; window numbers count from the start of the run.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fleetscope.errors import UsageError
from simulator.history.draws import with_draws
from simulator.history.profile import KERNEL, LAUNCH, Profile, job_profile
from simulator.history.settings import EVERY, HOUR_S, CostShift, Effect, Gap, History
from simulator.machine import Machine, load_machine
from simulator.work.models import TRANSFORMERS, Transformer
from simulator.work.transformer import rank_kv_bytes, rank_weight_bytes

Ints = NDArray[np.int64]
Kind = Literal["deployment", "transient", "creep", "cost_shift", "gap"]

PURPOSE: Final = 40
"""Second word of the seeds of everything in a history; the third says what for."""
HOSTS_DRAWN: Final = 0


class Versions(NamedTuple):
    """What a host runs."""

    driver: str
    firmware: str
    compiler: str
    model: str


@dataclass(frozen=True, slots=True)
class Served:
    """A job with everything it follows from; ``hosts`` are the numbers of its hosts."""

    name: str
    index: int
    machine: Machine
    model: Transformer
    profile: Profile
    hosts: range
    versions: Versions


@dataclass(frozen=True, slots=True)
class Event:
    """One change on a set of hosts of one or more jobs, in windows [start, end); ``end`` is the run's where it stays.

    Effects are (operator, model, relative change of time). A creep grows until ``full`` and stays. A shift moves
    ``share`` of ``source`` to ``target``; a gap loses ``share`` of all rows.
    """

    kind: Kind
    start: int
    full: int
    end: int
    hosts: tuple[int, ...]
    effects: tuple[tuple[str, str, float], ...] = ()
    subject: str = ""
    version: str = ""
    source: str = ""
    target: str = ""
    share: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """A history ready to be generated."""

    history: History
    seed: int
    start_ns: int
    """First ns of the first window, ns since 1970; a whole hour."""
    jobs: tuple[Served, ...]
    events: tuple[Event, ...]
    by_host: tuple[tuple[Event, ...], ...]
    """Events that concern each host, in the order of ``events``."""

    @property
    def window_ns(self) -> int:
        """Length of a window [ns]."""
        return self.history.window_s * 1_000_000_000

    @property
    def host_names(self) -> list[str]:
        """Names in order, which is also their alphabetical order."""
        width = max(2, len(str(self.history.hosts - 1)))
        return [f"sim{index:0{width}d}" for index in range(self.history.hosts)]

    @property
    def device_names(self) -> list[str]:
        """Names of a host's devices, likewise."""
        width = len(str(self.history.devices - 1))
        return [f"dev{index:0{width}d}" for index in range(self.history.devices)]

    def job_of(self, host: int) -> Served:
        """The job that runs on a host."""
        return next(job for job in self.jobs if host in job.hosts)

    def versions_of(self, host: int) -> list[tuple[int, Versions]]:
        """(first window, versions from then on) of a host, in order of time."""
        found = [(0, self.job_of(host).versions)]
        for event in sorted(self.by_host[host], key=lambda e: e.start):
            if event.kind == "deployment":
                found.append((event.start, found[-1][1]._replace(**{event.subject: event.version})))
        return found


def make_plan(history: History, seed: int, start_ns: int) -> Plan:
    """The plan of a history; ``start_ns`` is taken down to the whole hour.

    Raises UsageError for an unknown machine, a model that is unknown or does not fit, and an effect that names
    an operator or a model that no job has.
    """
    if seed < 0:
        raise UsageError(f"history: seed: {seed} is negative")
    hour_ns = HOUR_S * 1_000_000_000
    jobs = _jobs(history)
    _check_names(history, jobs)
    operators = {job.name: [name for name, role in zip(job.profile.operators, job.profile.role, strict=True)
                            if role == KERNEL] for job in jobs}
    complete = with_draws(history, seed, operators)
    events = tuple(_events(complete, jobs, seed))
    by_host: list[list[Event]] = [[] for _ in range(history.hosts)]
    for event in events:
        for host in event.hosts:
            by_host[host].append(event)
    return Plan(complete, seed, start_ns // hour_ns * hour_ns, jobs, events, tuple(map(tuple, by_host)))


def _jobs(history: History) -> tuple[Served, ...]:
    """Hosts in order, in proportion to the weights, at least one each."""
    weights = np.array([job.weight for job in history.jobs])
    spare = history.hosts - len(weights)
    ends = np.floor(np.cumsum(weights) / weights.sum() * spare + 0.5).astype(np.int64) + np.arange(1, len(weights) + 1)
    served = []
    for index, job in enumerate(history.jobs):
        machine = load_machine(job.machine)
        where = f"history: jobs.{index}"
        model = TRANSFORMERS.get(job.model)
        if model is None:
            raise UsageError(f"{where}.model: there is no transformer {job.model}; known are {', '.join(TRANSFORMERS)}")
        context = job.max_batch * (job.prompt_tokens + job.output_tokens)
        needed = rank_weight_bytes(model, model.layers, job.tensor_parallel, first=True, last=True) \
            + context * rank_kv_bytes(model, model.layers, job.tensor_parallel)
        if needed > machine.hbm_bytes:
            raise UsageError(f"{where}.model: {model.name} with {job.max_batch} sequences takes {needed / 1e9:.1f} GB "
                             f"on each device, {machine.kind} has {machine.hbm_bytes / 1e9:.1f} GB")
        heads = model.hidden // model.head_width
        if heads % job.tensor_parallel:
            raise UsageError(f"{where}.tensor_parallel: {job.tensor_parallel} devices do not divide the {heads} heads "
                             f"of {model.name}")
        versions = Versions(machine.driver_version, machine.firmware_version, history.compiler_version,
                            job.version or model.version)
        hosts = range(int(ends[index - 1]) if index else 0, int(ends[index]))
        served.append(Served(job.name, index, machine, model, job_profile(job, machine, model), hosts, versions))
    return tuple(served)


def _check_names(history: History, jobs: tuple[Served, ...]) -> None:
    for kind in ("deployments", "transients", "creeps"):
        for number, event in enumerate(getattr(history, kind)):
            for place, effect in enumerate(event.effects):
                _check_effect(f"history: {kind}.{number}.effects.{place}", effect, _concerned(jobs, event.job))
    for number, shift in enumerate(history.cost_shifts):
        concerned = _concerned(jobs, shift.job)
        for key in ("source", "target"):
            _check_operator(f"history: cost_shifts.{number}.{key}", getattr(shift, key), concerned)
        if shift.source == shift.target:
            raise UsageError(f"history: cost_shifts.{number}.target: time of {shift.source} cannot move to itself")


def _check_effect(where: str, effect: Effect, jobs: list[Served]) -> None:
    models = sorted({job.model.name for job in jobs})
    if effect.model != EVERY and effect.model not in models:
        raise UsageError(f"{where}.model: no job concerned runs {effect.model}; known are {', '.join(models)}")
    if effect.operator != EVERY:
        _check_operator(f"{where}.operator", effect.operator, jobs)


def _check_operator(where: str, operator: str, jobs: list[Served]) -> None:
    for job in jobs:
        if operator not in job.profile.operators or (operator == LAUNCH and where.endswith((".source", ".target"))):
            known = [name for name in job.profile.operators if name != LAUNCH]
            raise UsageError(f"{where}: job {job.name} has no operator {operator}; known are {', '.join(known)}")


def _concerned(jobs: tuple[Served, ...], name: str) -> list[Served]:
    return [job for job in jobs if name in (EVERY, job.name)]


def _events(history: History, jobs: tuple[Served, ...], seed: int) -> list[Event]:
    """All events, each stage of a deployment one of its own."""
    end, found = history.windows, list[Event]()

    def window(hours: float) -> int:
        return math.ceil(round(hours * history.windows_per_hour, 6))

    def effects(given: tuple[Effect, ...]) -> tuple[tuple[str, str, float], ...]:
        return tuple((effect.operator, effect.model, effect.share) for effect in given)

    for number, rollout in enumerate(history.deployments):
        order, taken = _shuffled(jobs, rollout.job, seed, 0, number), 0
        for stage in rollout.stages:
            upto = max(1, round(stage.share * len(order)))
            start = min(window(rollout.at_h + stage.after_h), end - 1)
            if upto > taken:
                found.append(Event("deployment", start, start, end, tuple(sorted(order[taken:upto])),
                                   effects(rollout.effects), rollout.subject, rollout.version))
            taken = upto
    others = [("transient", event) for event in history.transients] + [("creep", event) for event in history.creeps] \
        + [("cost_shift", event) for event in history.cost_shifts] + [("gap", event) for event in history.gaps]
    for number, (kind, event) in enumerate(others):
        order = _shuffled(jobs, event.job, seed, 1, number)
        hosts = tuple(sorted(order[:max(1, round(event.hosts_share * len(order)))]))
        start = min(window(event.at_h), end - 1)
        if isinstance(event, CostShift):
            found.append(Event("cost_shift", start, start, end, hosts, source=event.source, target=event.target,
                               share=event.share))
            continue
        stop = max(start + 1, window(event.at_h + event.hours))
        if isinstance(event, Gap):
            found.append(Event("gap", start, start, stop, hosts, share=event.lost_share))
        elif kind == "creep":
            found.append(Event("creep", start, stop, end, hosts, effects(event.effects)))
        else:
            found.append(Event("transient", start, start, stop, hosts, effects(event.effects)))
    return found


def _shuffled(jobs: tuple[Served, ...], name: str, seed: int, group: int, number: int) -> list[int]:
    """Hosts of the jobs concerned in an order drawn for one event: cohorts are its beginnings."""
    hosts = np.array([host for job in _concerned(jobs, name) for host in job.hosts], dtype=np.int64)
    rng = np.random.default_rng([seed, PURPOSE, HOSTS_DRAWN, group, number])
    return [int(host) for host in rng.permutation(hosts)]
