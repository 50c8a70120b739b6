"""One reading of a host as a JSON document: `fleetscope agent --once --json`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any, Final

from fleetscope.contracts.counters import BY_NAME
from ingest.clocks import REFERENCE, Exchange, HostClocks, Offset, burst, names, narrowest, quickest
from ingest.hostroot import HostRoot
from ingest.links.initiator import FourStamps
from ingest.links.prober import Prober
from ingest.probe import Probe, host_collectors
from ingest.ptp import PtpClocks
from ingest.reading import Fact, Reading

_SECOND_NS: Final = 1_000_000_000


_LINKS_S: Final = 2.5
"""Two bursts of every peer, and the second that a lost answer is waited for."""


def read_once(host: str, root: HostRoot, clocks: HostClocks, prober: Prober | None = None) -> dict[str, Any]:
    """Host, time, clocks, readings, inventory, links to other hosts and what could not be read.

    ``value`` is null where nothing was read, an exact integer for counters. Offsets are other clock minus
    ``monotonic_raw`` in ns, true to within ``bound_ns``; of a link, the peer's ``monotonic_raw`` minus this host's.
    With a ``prober`` it takes 2.5 s. Raises UsageError where the root has no proc.
    """
    root.require_proc()
    links = [] if prober is None else _links(prober)
    ptp = PtpClocks(root, clocks)
    probe = Probe(root, clocks, host_collectors(clocks, ptp, prober))
    realtime_ns = clocks.realtime_ns()
    facts = probe.facts()
    readings = [reading for _, reading in probe.read()]
    found = {name: quickest(burst(clocks, name)) for name in names(clocks.discipline())} | ptp.read()
    ptp.close()
    seconds, ns = divmod(realtime_ns, _SECOND_NS)
    return {
        "host": host,
        "root": str(root.path),
        "time": f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ns:09d}Z",
        "time_ns": realtime_ns,
        "clocks": [_clock(name, exchanges) for name, exchanges in found.items() if exchanges],
        "links": links,
        "readings": [_reading(reading) for reading in readings],
        "inventory": _components(facts),
        "unreadable": [
            {"collector": key[0], "reason": key[1], "count": count, "example": root.examples.get(key)}
            for key, count in sorted(root.unreadable.items())],
    }


def _clock(name: str, exchanges: list[Exchange]) -> dict[str, Any]:
    offset = narrowest(exchanges)
    return {"clock": name, "against": REFERENCE, "offset_ns": offset.offset_ns, "bound_ns": offset.bound_ns,
            "samples": offset.samples}


def _links(prober: Prober) -> list[dict[str, Any]]:
    prober.start()
    time.sleep(_LINKS_S)
    prober.stop()
    found, _ = prober.take()
    rows = []
    for peer in prober.report():
        offset = _offset([stamps for name, stamps in found if name == peer["host"]])
        rows.append({**peer, "offset_ns": None if offset is None else offset.offset_ns,
                     "bound_ns": None if offset is None else offset.bound_ns})
    return rows


def _offset(stamps: list[FourStamps]) -> Offset | None:
    """By the quickest exchange: half its round trip, and the ticks of both clocks."""
    if not stamps:
        return None
    best = min(stamps, key=lambda s: s.round_trip_ns)
    low, high = best.sent - best.after, best.received - best.before
    return Offset((low + high) // 2, (high - low + 1) // 2 + 2, len(stamps))


def _reading(reading: Reading) -> dict[str, Any]:
    return {"collector": reading.collector, "counter": reading.counter, "instance": reading.instance,
            "device": reading.device, "value": reading.value if reading.raw is None else reading.raw,
            "unit": BY_NAME[reading.counter].unit, "status": reading.status}


def _components(facts: list[Fact]) -> list[dict[str, Any]]:
    """Facts of one component together: numbers as numbers, their units beside them."""
    components: dict[tuple[str, str], dict[str, Any]] = {}
    for fact in facts:
        component = components.setdefault((fact.kind, fact.component), {
            "kind": fact.kind, "component": fact.component, "parent": fact.parent, "attributes": {}, "units": {}})
        component["attributes"][fact.attribute] = fact.number if fact.text is None else fact.text
        if fact.unit is not None:
            component["units"][fact.attribute] = fact.unit
    return list(components.values())
