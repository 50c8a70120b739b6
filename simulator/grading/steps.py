"""Grades the steps that the alignment found against the ones that clocks made, matched in time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from fleetscope.store.abstract import Store
from simulator.clocks import NS, RAW, REALTIME, Clock, HostClocks
from simulator.fleet import FleetConfig
from simulator.truth import ClockStep, Incident

StepScore = dict[str, int]
_STILL_NS: Final = 1_000_000
"""A clock that shows the same that much later stands still."""
Name = tuple[str, str]
"""Host and clock."""

PROBE_NS: Final = NS
WITHIN_NS: Final = 2 * PROBE_NS + PROBE_NS // 10
"""A new epoch begins at the first probe after the step, at most at the second; a burst takes some time."""


@dataclass(frozen=True, slots=True)
class Epochs:
    """A stored pair of clocks and the source ticks at which its second and later epochs begin."""

    source: Name
    target: Name
    begin_ticks: tuple[int, ...]


def stored_epochs(store: Store, config: FleetConfig) -> list[Epochs]:
    """Every pair of the simulated hosts; a pair's first epoch is no step."""
    table = store.query(
        "SELECT host, clock, target_host, target_clock, epoch, min(valid_from_ticks) AS begin FROM segments FINAL "
        "WHERE host IN {hosts:Array(String)} GROUP BY host, clock, target_host, target_clock, epoch "
        "ORDER BY host, clock, target_host, target_clock, epoch", {"hosts": config.host_names})
    pairs: dict[tuple[Name, Name], list[int]] = {}
    for row in table.to_pylist():
        key = (row["host"], row["clock"]), (row["target_host"], row["target_clock"])
        pairs.setdefault(key, []).append(row["begin"])
    return [Epochs(source, target, tuple(begin[1:])) for (source, target), begin in pairs.items()]


def step_score(pairs: Iterable[Epochs], steps: Sequence[ClockStep], clocks: dict[str, HostClocks],
               silences: Sequence[Incident] = ()) -> StepScore:
    """Steps that each pair of ``pairs`` should have seen, saw, and saw without cause.

    A pair should see the steps of both its clocks; the reference's own map to fleet time those of its realtime too,
    which fleet time follows. An epoch that begins at most WITHIN_NS after a step has found it; where the clock stood
    still, or nobody could read it (``silences``), after that is over. A step of a clock elsewhere excuses an epoch
    (maps are chained over other hosts) but need not be seen.
    """
    true = found = false = 0
    for pair in pairs:
        clock = clock_of(clocks[pair.source[0]], pair.source[1])
        if clock is None:
            continue
        until = {step: _over(step, pair, clocks, silences) + WITHIN_NS for step in steps}
        own = [step for step in steps if (step.host, step.clock) in _concerned(pair)]
        true += len(own)
        found += sum(any(_begins(clock, step, until[step], tick) for tick in pair.begin_ticks) for step in own)
        false += sum(not any(_begins(clock, step, until[step], tick) for step in steps) for tick in pair.begin_ticks)
    return {"steps_true": true, "steps_found": found, "steps_false": false}


def clock_of(clocks: HostClocks, name: str) -> Clock | None:
    """The clock of that name; None where the host has none."""
    return next((clock for clock in (clocks.raw, clocks.realtime, *clocks.devices) if clock.name == name), None)


def _concerned(pair: Epochs) -> set[Name]:
    host, _ = pair.source
    other, target = pair.target
    if target != "fleet":
        return {pair.source, pair.target}
    return {pair.source, (host, REALTIME)} if host == other else {pair.source, (other, RAW)}


def _over(step: ClockStep, pair: Epochs, clocks: dict[str, HostClocks], silences: Sequence[Incident]) -> int:
    """True time from which on probes of the pair show the step."""
    over = step.true_ns
    stepped = clock_of(clocks[step.host], step.clock) if step.host in clocks else None
    if stepped is not None and stepped.at(step.true_ns + _STILL_NS) == stepped.at(step.true_ns):
        over -= step.size_ns  # a clock that stood still lost the time it stood
    for item in silences:
        hides = ((item.kind == "host_silent" and item.host in (pair.source[0], pair.target[0], step.host))
                 or (item.kind == "device_vanished" and (item.host, item.device) == pair.source))
        if hides and item.start_true_ns <= over < item.end_true_ns:
            over = item.end_true_ns
    return over


def _begins(clock: Clock, step: ClockStep, until_ns: int, tick: int) -> bool:
    """Whether the source clock shows ``tick`` in the time in which a new epoch after ``step`` must begin.

    Ticks of a counter that wraps are compared as they are on its face; stored ones count on.
    """
    begin, end = clock.at(step.true_ns), clock.at(until_ns)
    if clock.bits == 64:
        return begin - 1 <= tick <= end
    face = (1 << clock.bits) - 1
    return ((tick - begin + 1) & face) <= ((end - begin + 1) & face)
