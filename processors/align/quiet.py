"""What the silence of a host means for it: time passes for what it waits with, and an incident begins and ends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Final, NamedTuple

from fleetscope.contracts.batch import Batch
from fleetscope.step import Output
from processors.align.host import Host
from processors.align.mapping import Route
from processors.align.measured import Measuring
from processors.align.publish import incident_output

LINGER_S: Final = 5.0
"""Agents publish at least this often: nothing was sent later than this after the last beat."""
OPEN: Final = ("silent", "gone")


class Silence(NamedTuple):
    """A row of the contract `silences`; ticks of the host's reference clock."""

    state: str
    last: int
    now: int


def take(host: Host, batch: Batch, measuring: Measuring) -> None:
    """Let time pass for a host of which others say that it is silent, or was."""
    header = batch.header
    total = header.rows if header.row0 + len(batch) <= header.rows else None
    for start, stop in host.ledger.add(header.stream, header.sequence, header.row0, len(batch), total):
        rows = batch.rows.slice(start - header.row0, stop - start)
        columns = (rows.column(name).to_pylist() for name in ("state", "last_ticks", "now_ticks"))
        for told in map(Silence, *columns):
            host.progress.passes(told.now)
            if told.state in ("gone", "ended"):
                measuring.give_up(host, told.last + round(LINGER_S * 1e9))
            host.silences.append(told)


def incidents(host: Host) -> Iterator[Output]:
    """Silences that begin or end, once fleet time has come so far."""
    route = Route(None, host.fleet)
    while host.silences:
        told = Silence(*host.silences[0])
        if not route.decided(told.now if told.state == "back" else told.last):
            return
        host.silences.pop(0)
        if told.state in OPEN and host.silent_ns is None:
            host.silent_ns = route.fleet_time(told.last)
            host.silent_told_ns = host.silent_ns + told.now - told.last
            yield _told(host, host.silent_ns, None, told)
        elif told.state == "back" and host.silent_ns is not None:
            end = max(route.fleet_time(told.now), host.silent_ns)
            yield _told(host, host.silent_ns, end, told)
            host.silent_ns = None


def _told(host: Host, start_ns: int, end_ns: int | None, told: Silence) -> Output:
    evidence = {"last_beat_ticks": told.last, "now_ticks": told.now, "detected_ns": host.silent_told_ns}
    return incident_output(host, "host_silent", start_ns, end_ns, "critical", json.dumps(evidence, sort_keys=True),
                           revision=0 if end_ns is None else 1)
