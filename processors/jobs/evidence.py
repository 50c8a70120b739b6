"""What is known of the ranks of a job by window, and what it says. Plain values."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from processors.jobs.detect import RAISED, Blame, Limits, cause_of, holds_up, is_slow
from processors.jobs.slowness import Slowness, Sort, Where, slowness


@dataclass(slots=True)
class Group:
    """Collectives of one communicator that ended in a window. ``late``: [times last, ns waited for] by device;
    ``unsure``: those of which the clocks do not tell who was last."""

    size: int
    collectives: int = 0
    late: dict[Where, list[int]] = field(default_factory=dict)
    unsure: list[int] = field(default_factory=lambda: [0, 0])


@dataclass(slots=True)
class Window:
    """``kernels``: [calls, ns] by sort and device; ``states``: what `job_shares` say of a device; ``groups``."""

    kernels: dict[Sort, dict[Where, list[int]]] = field(default_factory=dict)
    states: dict[Where, dict[str, Any]] = field(default_factory=dict)
    groups: dict[str, Group] = field(default_factory=dict)

    def plain(self) -> list[Any]:
        """As JSON takes it."""
        return [[[list(sort), [[*where, *sums] for where, sums in sorted(by.items())]]
                 for sort, by in sorted(self.kernels.items(), key=repr)],
                [[*where, states] for where, states in sorted(self.states.items())],
                [[name, g.size, g.collectives, [[*where, *late] for where, late in sorted(g.late.items())], g.unsure]
                 for name, g in sorted(self.groups.items())]]

    @classmethod
    def of(cls, plain: list[Any]) -> Window:
        """Of ``plain``."""
        kernels, states, groups = plain
        return cls({tuple(sort): {(r[0], r[1]): [r[2], r[3]] for r in rows} for sort, rows in kernels},
                   {(host, device): values for host, device, values in states},
                   {name: Group(size, count, {(r[0], r[1]): [r[2], r[3]] for r in late}, unsure)
                    for name, size, count, late, unsure in groups})


@dataclass(slots=True)
class Judgement:
    """Of a window: ``waits``, rows of the contract ``collective_waits`` without job, window and rank; ``found``, what
    incidents are made of; ``judged``, devices of which it says something."""

    waits: list[dict[str, Any]] = field(default_factory=list)
    found: dict[Where, dict[str, Any]] = field(default_factory=dict)
    judged: set[Where] = field(default_factory=set)


def judge(window: Window, members: dict[str, set[Where]], window_ns: int, limits: Limits) -> Judgement:
    """What a window says; ``members`` of each communicator as far as they were seen."""
    slow = slowness(window.kernels)
    result = Judgement(judged=set(slow))
    for where in sorted(slow):
        if is_slow(slow[where], window_ns, limits):
            _slow(result, window, where, slow, window_ns, limits)
    for name in sorted(window.groups):
        _group(result, window, name, members.get(name, set()), slow, window_ns, limits)
    return result


def _slow(result: Judgement, window: Window, where: Where, slow: dict[Where, Slowness], window_ns: int,
          limits: Limits) -> None:
    cause, excess = cause_of(where, slow.keys(), window.states, slow[where], limits)
    if cause in RAISED:
        cost = slow[where].compared_ns * (1.0 - 1.0 / slow[where].ratio) / window_ns
        result.found[where] = {"cause": cause, "excess_ns": excess, "cost_share": round(min(cost, 1.0), 6),
                               **_told(slow[where])}


def _group(result: Judgement, window: Window, name: str, members: set[Where], slow: dict[Where, Slowness],
           window_ns: int, limits: Limits) -> None:
    group = window.groups[name]
    enough = group.collectives >= limits.min_collectives
    result.judged |= members if enough else set()
    common = {"communicator": name, "collectives": group.collectives, "waiting": group.size - 1}
    for where, (last, wait_ns) in sorted(group.late.items()):
        each = wait_ns / max(group.size - 1, 1)
        cause, excess = cause_of(where, members, window.states, slow.get(where), limits, each)
        result.waits.append({**common, "host": where[0], "device": where[1], "cause": cause, "wait_ns": wait_ns,
                             "last": last, "excess_ns": excess})
        if not holds_up(Blame(group.collectives, group.size, last, wait_ns), window_ns, limits) or cause not in RAISED:
            continue
        share = round(min(each / window_ns, 1.0), 6)
        if where not in result.found or share > result.found[where]["cost_share"]:
            result.found[where] = {**result.found.get(where, {}), "cause": cause, "excess_ns": excess,
                                   "cost_share": share, "communicator": name, "last": last,
                                   "collectives": group.collectives, "wait_ns": wait_ns, **_told(slow.get(where))}
    if group.unsure[0]:
        result.waits.append({**common, "host": None, "device": None, "cause": "indeterminate",
                             "wait_ns": group.unsure[1], "last": group.unsure[0], "excess_ns": None})


def _told(slow: Slowness | None) -> dict[str, Any]:
    if slow is None:
        return {}
    return {"slowdown": round(slow.ratio, 4), "z": round(slow.z, 2), "sorts": slow.sorts,
            "compared_ns": slow.compared_ns}
