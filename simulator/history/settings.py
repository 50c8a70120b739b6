"""What a history consists of: read from the section ``[history]`` of a scenario, or from a TOML file of its own.

Times of events are hours since the start; shares are 0..1. Any number may be a distribution
(`simulator.scenario.draw`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field, ValidationError, model_validator

from fleetscope.errors import UsageError
from simulator.scenario.draw import DrawError, drawn
from simulator.scenario.lines import line_of
from simulator.scenario.part import Part
from simulator.toml_files import read

HOUR_S: Final = 3_600
MAX_DEVICES: Final = 100_000
EVERY: Final = "*"
"""Names every job, every model, or every kernel."""

Subject = Literal["driver", "firmware", "compiler", "model"]


class Job(Part):
    """A model served on hosts of one kind by continuous batching; all devices of a host work for one job."""

    name: str = Field("llm-serve", min_length=1)
    model: str = Field("chat-8b", description="a transformer of simulator.work.models")
    version: str = Field("", description="version of the model at the start; empty: the catalogue's")
    machine: str = Field("infer-24", description="kind of device: a name, or the path of a .toml file")
    weight: float = Field(1.0, gt=0, description="hosts are shared out between jobs in proportion to it")
    tensor_parallel: int = Field(1, ge=1, le=64, description="devices of a host that share one replica")
    max_batch: int = Field(16, ge=1, le=256, description="sequences of a step at most; buckets are powers of two")
    prompt_tokens: int = Field(512, ge=1, le=131_072)
    output_tokens: int = Field(128, ge=1, le=131_072)
    utilisation: float = Field(0.6, gt=0, le=1.5, description="mean demand over what a full batch serves at no noise")
    swap_bytes: int = Field(0, ge=0, description="key-value cache moved each way in a step and device [B]")
    scheduler_ns: int = Field(300_000, ge=0, description="host work between steps")
    call_ns: int = Field(6_500, ge=0, description="host time of one launch, call and gap")


class Season(Part):
    """Demand by hour of the day and day of the week, UTC: 1 + daily·cos, times 1 − weekend on Saturday and Sunday."""

    daily: float = Field(0.35, ge=0, lt=1)
    peak_hour: float = Field(14.0, ge=0, lt=24)
    weekend: float = Field(0.3, ge=0, lt=1)
    duration_daily: float = Field(0.003, ge=0, lt=0.5, description="swing of durations (inlet air), same peak")


class Noise(Part):
    """Standard deviations as shares of the mean. AR(1) terms correlate by ``phi`` over ``phi_lag_s``."""

    job: float = Field(0.003, ge=0, le=0.2, description="AR(1), common to a job")
    host: float = Field(0.003, ge=0, le=0.2, description="AR(1), common to a host")
    device: float = Field(0.006, ge=0, le=0.2, description="AR(1), one a device")
    demand: float = Field(0.04, ge=0, le=0.3, description="AR(1) of a job's demand")
    phi: float = Field(0.6, ge=0, lt=1)
    phi_lag_s: float = Field(3_600.0, gt=0)
    white: float = Field(0.01, ge=0, le=0.2, description="of each operator in each window, independent")
    call: float = Field(0.03, ge=0, le=2, description="of single calls within a window; enters variances only")


class Effect(Part):
    """One operator (``*``: every kernel) of one model (``*``: all) gets slower or faster: exactly one of both."""

    operator: str = Field(EVERY, min_length=1)
    model: str = Field(EVERY, min_length=1)
    slower: float | None = Field(None, gt=0, le=10, description="share of time added")
    faster: float | None = Field(None, gt=0, lt=1, description="share of time saved")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.slower is None) == (self.faster is None):
            raise ValueError("give either slower or faster")
        return self

    @property
    def share(self) -> float:
        """Relative change of the time, positive where slower."""
        return self.slower if self.slower is not None else -(self.faster or 0.0)


class _Event(Part):
    at_h: float = Field(ge=0, description="hours since the start; takes effect at the next window's edge")
    job: str = Field(EVERY, min_length=1, description="whose hosts")


class Stage(Part):
    """From ``after_h`` on, ``share`` of the hosts have it; hosts beyond the last stage's share never change."""

    after_h: float = Field(0.0, ge=0)
    share: float = Field(1.0, gt=0, le=1)


class Deployment(_Event):
    """A new version, on all hosts at once or in stages."""

    subject: Subject = "driver"
    version: str = Field(min_length=1)
    effects: tuple[Effect, ...] = ()
    stages: tuple[Stage, ...] = Field((Stage(),), min_length=1)

    @model_validator(mode="after")
    def _stages_grow(self) -> Self:
        for before, after in zip(self.stages, self.stages[1:], strict=False):
            if after.after_h <= before.after_h or after.share <= before.share:
                raise ValueError("each stage must be later and larger than the one before")
        return self


class Transient(_Event):
    """A slow-down that goes away after ``hours``: not a regression."""

    hours: float = Field(gt=0)
    hosts_share: float = Field(1.0, gt=0, le=1)
    effects: tuple[Effect, ...] = Field(min_length=1)


class Creep(_Event):
    """A change that grows evenly over ``hours`` and stays."""

    hours: float = Field(gt=0)
    hosts_share: float = Field(1.0, gt=0, le=1)
    effects: tuple[Effect, ...] = Field(min_length=1)


class CostShift(_Event):
    """``share`` of the time of one operator moves to another; the sum stays: not a regression."""

    source: str = Field(min_length=1)
    target: str = Field(min_length=1)
    share: float = Field(gt=0, le=1)
    hosts_share: float = Field(1.0, gt=0, le=1)


class Gap(_Event):
    """For ``hours``, ``lost_share`` of what the hosts send is missing (1: the host is silent)."""

    hours: float = Field(gt=0)
    hosts_share: float = Field(1.0, gt=0, le=1)
    lost_share: float = Field(1.0, gt=0, le=1)


class Draws(Part):
    """How many events are drawn by seed besides those given, and how large their effects are."""

    deployments: int = Field(0, ge=0, le=1_000)
    harmless_deployments: int = Field(0, ge=0, le=1_000, description="new versions without any effect")
    transients: int = Field(0, ge=0, le=1_000)
    creeps: int = Field(0, ge=0, le=1_000)
    cost_shifts: int = Field(0, ge=0, le=1_000)
    gaps: int = Field(0, ge=0, le=1_000)
    effect_low: float = Field(0.02, gt=0, le=1)
    effect_high: float = Field(0.10, gt=0, le=1)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.effect_low > self.effect_high:
            raise ValueError(f"effect_low {self.effect_low:g} is above effect_high {self.effect_high:g}")
        return self


class History(Part):
    """Everything a history follows from, besides its seed and its start."""

    hours: int = Field(24, ge=1, le=24 * 400, description="length")
    window_s: int = Field(60, ge=1, le=HOUR_S, description="length of a window; divides an hour")
    hosts: int = Field(125, ge=1, le=10_000)
    devices: int = Field(8, ge=1, le=64, description="on each host")
    compiler_version: str = Field("2.3.0", min_length=1)
    clock_err_ns: int = Field(9_000, ge=0, description="stated bound of aligned times")
    jobs: tuple[Job, ...] = Field((Job(),), min_length=1)
    season: Season = Season()
    noise: Noise = Noise()
    deployments: tuple[Deployment, ...] = ()
    transients: tuple[Transient, ...] = ()
    creeps: tuple[Creep, ...] = ()
    cost_shifts: tuple[CostShift, ...] = ()
    gaps: tuple[Gap, ...] = ()
    draw: Draws = Draws()

    @property
    def windows_per_hour(self) -> int:
        """Windows in an hour."""
        return HOUR_S // self.window_s

    @property
    def windows(self) -> int:
        """Windows of each device in the run."""
        return self.hours * self.windows_per_hour


def load_history(path: Path, seed: int = 0) -> History:
    """The history of a TOML file (its section ``history`` where it has one), distributions drawn by ``seed``.

    Raises UsageError naming file, line where it can be found, key and reason.
    """
    text, values = read("history", path)
    prefix = ("history",) if "history" in values else ()
    return parse_history(values["history"] if prefix else values, seed, str(path), text, prefix)


def parse_history(values: Any, seed: int, where: str = "settings", text: str = "",
                  prefix: tuple[str, ...] = ()) -> History:
    """A history from values of TOML; ``text`` is where lines are looked up. Raises UsageError as `load_history`."""
    try:
        history = History.model_validate(drawn(values, seed, prefix))
    except DrawError as error:
        raise _wrong(where, text, error.path, str(error)) from error
    except ValidationError as error:
        first = error.errors()[0]
        raise _wrong(where, text, (*prefix, *first["loc"]), first["msg"].removeprefix("Value error, ")) from error
    for key, reason in _contradictions(history):
        raise _wrong(where, text, (*prefix, *key), reason)
    return history


def _wrong(where: str, text: str, path: tuple[str | int, ...], reason: str) -> UsageError:
    line = line_of(text, path)
    return UsageError(f"history {where}{f', line {line}' if line else ''}: {'.'.join(map(str, path))}: {reason}")


def _contradictions(history: History) -> list[tuple[tuple[str | int, ...], str]]:
    """(key, reason) of everything that single keys cannot know."""
    found: list[tuple[tuple[str | int, ...], str]] = []
    if HOUR_S % history.window_s:
        found.append((("window_s",), f"an hour is no multiple of {history.window_s} s"))
    names = [job.name for job in history.jobs]
    for index, job in enumerate(history.jobs):
        if names.index(job.name) != index:
            found.append((("jobs", index, "name"), f"job {job.name} is there twice"))
        if job.max_batch & (job.max_batch - 1):
            found.append((("jobs", index, "max_batch"), f"{job.max_batch} is no power of two"))
        if history.devices % job.tensor_parallel:
            found.append((("jobs", index, "tensor_parallel"),
                          f"{history.devices} devices of a host do not split into replicas of {job.tensor_parallel}"))
    if history.hosts * history.devices > MAX_DEVICES:
        found.append((("hosts",), f"{history.hosts} hosts with {history.devices} devices are more than {MAX_DEVICES} "
                                  "devices"))
    if len(history.jobs) > history.hosts:
        found.append((("hosts",), f"{history.hosts} hosts cannot run {len(history.jobs)} jobs"))
    for kind in ("deployments", "transients", "creeps", "cost_shifts", "gaps"):
        for index, event in enumerate(getattr(history, kind)):
            found += [((kind, index, *key), reason) for key, reason in _outside(history, event)]
            if event.job != EVERY and event.job not in names:
                found.append(((kind, index, "job"), f"there is no job {event.job}; known are {', '.join(names)}"))
    return found


def _outside(history: History, event: _Event) -> list[tuple[tuple[str | int, ...], str]]:
    if event.at_h >= history.hours:
        return [(("at_h",), f"{event.at_h:g} h is outside the run of {history.hours} h")]
    if isinstance(event, Deployment):
        late = ((number, event.at_h + stage.after_h) for number, stage in enumerate(event.stages))
        return [(("stages", number, "after_h"), f"{at_h:g} h after the start is outside the run of {history.hours} h")
                for number, at_h in late if at_h >= history.hours]
    ends_h = event.at_h + getattr(event, "hours", 0.0)
    return [(("hours",), f"it ends {ends_h:g} h after the start, outside the run of {history.hours} h")] \
        if ends_h > history.hours else []
