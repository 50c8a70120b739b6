"""One reading of a host as a JSON document: `fleetscope agent --once --json`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final

from fleetscope.contracts.counters import BY_NAME
from ingest.clocks import BOOTTIME, REALTIME, REFERENCE, HostClocks, burst, narrowest
from ingest.hostroot import HostRoot
from ingest.probe import Probe
from ingest.reading import Fact, Reading

_SECOND_NS: Final = 1_000_000_000


def read_once(host: str, root: HostRoot, clocks: HostClocks) -> dict[str, Any]:
    """Host, time, clocks, readings, inventory and what could not be read.

    ``value`` is null where nothing was read, an exact integer for counters. Offsets are other clock minus
    ``monotonic_raw`` in ns, true to within ``bound_ns``. Raises UsageError where the root has no proc.
    """
    root.require_proc()
    probe = Probe(root, clocks)
    realtime_ns = clocks.realtime_ns()
    facts = probe.facts()
    readings = [reading for _, reading in probe.read()]
    seconds, ns = divmod(realtime_ns, _SECOND_NS)
    return {
        "host": host,
        "root": str(root.path),
        "time": f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{ns:09d}Z",
        "time_ns": realtime_ns,
        "clocks": [_clock(name, clocks) for name in (REALTIME, BOOTTIME)],
        "readings": [_reading(reading) for reading in readings],
        "inventory": _components(facts),
        "unreadable": [
            {"collector": key[0], "reason": key[1], "count": count, "example": root.examples.get(key)}
            for key, count in sorted(root.unreadable.items())],
    }


def _clock(name: str, clocks: HostClocks) -> dict[str, Any]:
    offset = narrowest(burst(clocks, name))
    return {"clock": name, "against": REFERENCE, "offset_ns": offset.offset_ns, "bound_ns": offset.bound_ns,
            "samples": offset.samples}


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
