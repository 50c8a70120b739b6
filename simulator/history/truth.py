"""The truth of a history: ``changes.json``, beside the rows and never among them.

A JSON array with one object a change point: an event, on one series it moves. Keys:

| key | meaning |
|---|---|
| ``kind`` | deployment, transient, creep, cost_shift or gap |
| ``regression`` | true: a lasting slow-down that detection has to report |
| ``true_ns`` | first ns it holds [ns since the start] |
| ``end_true_ns`` | for what goes away or grows, the end of that [ns since the start]; else null |
| ``time_ns`` | the same start as fleet time [ns since 1970] |
| ``subject``, ``version`` | what was deployed; empty where nothing was |
| ``effect`` | relative change of the time of a call (0.05: 5 % slower, 0: none); of a gap, the share of rows lost |
| ``job``, ``model``, ``operator`` | the series; ``*`` is every kernel |
| ``hosts`` | hosts it holds on; other hosts of the job are the cohort that did not change |
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from fleetscope.errors import UsageError
from simulator.history.plan import Event, Plan, Served
from simulator.history.settings import EVERY

CHANGES_FILE: Final = "changes.json"
CONFIG_FILE: Final = "history.json"


@dataclass(frozen=True, slots=True)
class ChangePoint:
    """One object of changes.json."""

    kind: str
    regression: bool
    true_ns: int
    end_true_ns: int | None
    time_ns: int
    subject: str
    version: str
    effect: float
    job: str
    model: str
    operator: str
    hosts: tuple[str, ...]


def change_points(plan: Plan) -> list[ChangePoint]:
    """Everything planted, in order of time."""
    found = [point for event in plan.events for job in plan.jobs for point in _points(plan, event, job)]
    return sorted(found, key=lambda point: point.true_ns)


def write_truth(plan: Plan, folder: Path) -> None:
    """changes.json, and history.json: settings (drawn events included), seed and start. UsageError if it cannot."""
    settings = {"seed": plan.seed, "start_ns": plan.start_ns, "history": plan.history.model_dump(mode="json")}
    lines = ",\n".join(json.dumps(asdict(point)) for point in change_points(plan))
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / CHANGES_FILE).write_text(f"[\n{lines}\n]\n" if lines else "[]\n", encoding="utf-8")
        (folder / CONFIG_FILE).write_text(json.dumps(settings, indent=2) + "\n", encoding="utf-8")
    except OSError as error:
        raise UsageError(f"cannot write the truth to {folder}: {error.strerror}") from error


def read_changes(folder: Path) -> list[ChangePoint]:
    """The change points of a folder; UsageError where there are none to read."""
    path = folder / CHANGES_FILE
    try:
        items = json.loads(path.read_text(encoding="utf-8"))
        return [ChangePoint(**{**item, "hosts": tuple(item["hosts"])}) for item in items]
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from error
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path}: not the changes of a history: {error}") from error


def _points(plan: Plan, event: Event, job: Served) -> Iterator[ChangePoint]:
    names = plan.host_names
    hosts = tuple(names[host] for host in event.hosts if host in job.hosts)
    if not hosts:
        return

    def point(operator: str, effect: float, *, regression: bool) -> ChangePoint:
        ends = event.end if event.kind in ("transient", "gap") else event.full if event.kind == "creep" else None
        return ChangePoint(event.kind, regression, event.start * plan.window_ns,
                           None if ends is None else ends * plan.window_ns,
                           plan.start_ns + event.start * plan.window_ns, event.subject, event.version, effect, job.name,
                           job.model.name, operator, hosts)

    if event.kind == "gap":
        yield point(EVERY, event.share, regression=False)
        return
    if event.kind == "cost_shift":
        step = dict(zip(job.profile.operators, job.profile.step_ns[-1], strict=True))  # at the largest batch
        yield point(event.source, -event.share, regression=False)
        yield point(event.target, event.share * float(step[event.source] / step[event.target]), regression=False)
        return
    told = False
    for operator, model, share in event.effects:
        if model in (EVERY, job.model.name):
            told = True
            yield point(operator, share, regression=share > 0 and event.kind in ("deployment", "creep"))
    if event.kind == "deployment" and not told:
        yield point(EVERY, 0.0, regression=False)
