"""Steps and gaps of a host's clocks as incidents. A step is where a map begins a new epoch: probes contradicted every
clock within the assumptions of docs/clocks.md, so there is no threshold besides. A gap has no bound and no new epoch
after it: probes stayed away for too long."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from fleetscope.step import Output
from processors.align.host import Host
from processors.align.mapping import Route
from processors.align.publish import incident_output
from processors.clocks.probes import DISCIPLINED
from processors.clocks.segments import Segment


class ClockEvent(NamedTuple):
    """What befell ``clock`` in [start, end] of the host's reference clock (ns)."""

    kind: str
    clock: str
    start: int
    end: int


def note(host: Host, clock: str, ready: Sequence[Segment]) -> None:
    """Find steps and gaps that end in ``ready``, the newest pieces of a clock's map."""
    pieces = host.clocks[clock].map.segments
    for before, piece in pairwise(pieces[-len(ready) - 1:]):
        if piece.err_ns is None:
            continue
        start = _begin(pieces, piece) if before.err_ns is None else before.at(before.valid_to)
        end = max(piece.at(piece.valid_from), start)
        if piece.epoch != before.epoch:
            host.clock_events.append(ClockEvent("clock_step", clock, start, end))
        elif before.err_ns is None:
            host.clock_events.append(ClockEvent("clock_gap", clock, start, end))


def _begin(pieces: Sequence[Segment], piece: Segment) -> int:
    """Where the gap before ``piece`` begins."""
    at = pieces.index(piece) - 1
    while at and pieces[at - 1].err_ns is None:
        at -= 1
    return pieces[at].at(pieces[at].valid_from)


def incidents(host: Host) -> Iterator[Output]:
    """Those that fleet time has passed."""
    route = Route(None, host.fleet)
    while host.clock_events and route.decided(host.clock_events[0][3]):
        event = ClockEvent(*host.clock_events.pop(0))
        begin, end = (route.fleet_time(t) for t in (event.start, event.end))
        evidence = {"clock": event.clock, "detected_ns": end}
        yield incident_output(host, event.kind, begin, max(end, begin), "warning",
                              json.dumps(evidence, sort_keys=True), device=_device(event.clock))


def _device(clock: str) -> str | None:
    """The device whose counter the clock is; None: it is the host's."""
    return None if clock.startswith((*DISCIPLINED, "monotonic")) else clock
