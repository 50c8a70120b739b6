"""Scenarios: what runs on what, and which faults there are. Read from TOML, distributions drawn by seed."""

from simulator.scenario.load import load_scenario, parse_scenario, scenario_names
from simulator.scenario.schema import Scenario
from simulator.scenario.source import Source

__all__ = ["Scenario", "Source", "load_scenario", "parse_scenario", "scenario_names"]
