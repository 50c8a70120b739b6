"""The truth of what is planned: incidents of a host and steps of its clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simulator.faults.plan import HostPlan
from simulator.truth import Sink

if TYPE_CHECKING:
    from simulator.clocks import HostClocks


def planned_truth(host: str, clocks: HostClocks, plan: HostPlan, sink: Sink) -> None:
    """Give the sink everything that is known before the run begins."""
    for incident in plan.incidents:
        device = None if incident.device is None else f"dev{incident.device}"
        sink.incident(incident.kind, host, device, incident.start_ns, incident.end_ns)
    for clock in (clocks.raw, clocks.realtime, clocks.boottime, *clocks.devices):
        for step in clock.steps:
            sink.clock_step(host, clock.name, step.at_ns, step.size_ns, step.cause)
            device = clock.name if clock in clocks.devices else None
            sink.incident("clock_step", host, device, step.at_ns, step.at_ns)
