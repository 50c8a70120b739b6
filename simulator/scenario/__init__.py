"""Scenarios: what runs on what, and which faults there are."""

from simulator.scenario.old import (
    Device,
    Host,
    Link,
    Model,
    Requests,
    Scenario,
    Swap,
    load_scenario,
    scenario_names,
)

__all__ = ["Device", "Host", "Link", "Model", "Requests", "Scenario", "Swap", "load_scenario",
           "scenario_names"]
