"""The discrete-event core: ranks that call, queues that serve, and resources they share. Knows no clock, no batch."""

from simulator.engine.program import Program, program
from simulator.engine.spec import Change, Device, Group, HostSlow, WorldSpec
from simulator.engine.world import DeviceSpans, HostSpans, Readings, Records, Slots, World

__all__ = ["Change", "Device", "DeviceSpans", "Group", "HostSlow", "HostSpans", "Program", "Readings", "Records",
           "Slots", "World", "WorldSpec", "program"]
