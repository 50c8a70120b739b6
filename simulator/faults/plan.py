"""What the settings mean for one host: intervals in true time, changes of its clocks, incidents for the truth."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fleetscope.errors import UsageError
from simulator.faults import settings as s
from simulator.faults.timeline import NEVER, NS, Change, Ints

FLUSH_NS: Final = 200_000_000
"""Agents publish this often; a host falls asleep and wakes between two flushes."""
RAW: Final = "monotonic_raw"
REALTIME: Final = "realtime"
BOOTTIME: Final = "boottime"

Interval = tuple[int, int]
"""[start, end) in ns of true time."""


@dataclass(frozen=True, slots=True)
class Down:
    """The agent does not run in [start, end); nothing that it would have published after ``from_ns`` left the host.

    ``forgets``: what had not left is gone, and a new process begins at the end; else it goes on as it was.
    """

    start_ns: int
    end_ns: int
    from_ns: int
    forgets: bool = True
    new_epoch: bool = True


@dataclass(frozen=True, slots=True)
class Run:
    """One process of the agent: its number, when it began, and by how much its epoch is beyond the host's first."""

    number: int
    start_ns: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Planned:
    """An incident of the truth; ``device`` None: the host."""

    kind: str
    device: int | None
    start_ns: int
    end_ns: int


@dataclass(frozen=True, slots=True)
class Spool:
    """The way out is cut in [start, end); messages of the last ``repeat_ns`` before are sent again."""

    start_ns: int
    end_ns: int
    repeat_ns: int


@dataclass(frozen=True, slots=True)
class CounterChange:
    """A fault of a device's counters with its time."""

    device: int
    start_ns: int
    end_ns: int
    fault: s.CounterFault


@dataclass(slots=True)
class HostPlan:
    """Everything planned for one host. Intervals are half open; a flush at either end of one is outside it."""

    run_ns: int = NEVER
    """Length of the workload; what is published after it is not late."""
    horizon_ns: int = 0
    """Schedules that go on and on are drawn up to here."""
    downs: list[Down] = field(default_factory=list)
    spools: list[Spool] = field(default_factory=list)
    bursts: list[tuple[int, int, float]] = field(default_factory=list)
    stalls: list[Interval] = field(default_factory=list)
    gone: dict[int, list[Interval]] = field(default_factory=dict)
    """By device: when it is off the bus."""
    resets: dict[int, list[int]] = field(default_factory=dict)
    counters: list[CounterChange] = field(default_factory=list)
    changes: dict[str, list[Change]] = field(default_factory=dict)
    """By clock."""
    incidents: list[Planned] = field(default_factory=list)

    def running(self, flush_ns: int) -> bool:
        """Whether the agent publishes at this flush."""
        return not any(down.from_ns < flush_ns < down.end_ns for down in self.downs)

    def run(self, flush_ns: int) -> Run:
        """The agent's process at a flush."""
        over = [down for down in self.downs if down.forgets and down.end_ns <= flush_ns]
        return Run(len(over), max((down.end_ns for down in over), default=0), sum(down.new_epoch for down in over))

    def recorded(self, device: int | None, start_ns: Ints, end_ns: Ints, flush_ns: int) -> NDArray[np.bool_]:
        """Which spans the agent has at a flush: not those begun before it ran, or across a sleep or a reset."""
        mask = start_ns >= self.run(flush_ns).start_ns
        for down in self.downs:
            if not down.forgets:
                mask &= (start_ns >= down.end_ns) | (end_ns <= down.start_ns)
        if device is not None:
            for start, end in self.gone.get(device, ()):
                mask &= (start_ns >= end) | (end_ns <= start)
            for at in self.resets.get(device, ()):
                mask &= (start_ns >= at) | (end_ns <= at)
        return mask

    def reads(self, at_ns: int, flush_ns: int) -> bool:
        """Whether the agent that publishes at ``flush_ns`` read counters at a true time."""
        return at_ns >= self.run(flush_ns).start_ns and not any(
            not down.forgets and down.start_ns < at_ns < down.end_ns for down in self.downs)

    def present(self, device: int, at_ns: Ints | int) -> NDArray[np.bool_]:
        """When of the given times a device is on the bus."""
        mask = np.ones(np.shape(at_ns), dtype=np.bool_)
        for start, end in self.gone.get(device, ()):
            mask &= (np.asarray(at_ns) < start) | (np.asarray(at_ns) >= end)
        return mask

    def dark(self) -> tuple[Interval, ...]:
        """When nobody answers another host's probes."""
        return tuple((down.start_ns, down.end_ns) for down in self.downs)


def host_plan(clocks: s.Clocks, collection: s.Collection, host: int, devices: int, seconds: float, seed: int) \
        -> HostPlan:
    """The plan of one host of a run of ``seconds``; the same arguments give the same plan."""
    plan = HostPlan(round(seconds * NS), round(seconds * NS) + 60 * NS)
    maker = _Maker(plan, devices, round(seconds * NS), np.random.default_rng([seed, 8, host]))
    for event in (*clocks.events, *collection.events):
        if event.host in (None, host):
            maker.add(event)
    plan.downs.sort(key=lambda down: down.start_ns)
    if clocks.dvfs is not None:
        for device in range(devices):
            maker.levels(device, clocks.dvfs, np.random.default_rng([seed, 9, host, device]))
    return plan


class _Maker:
    """Puts one event after another into a plan."""

    def __init__(self, plan: HostPlan, devices: int, run_ns: int, rng: np.random.Generator) -> None:
        self._plan = plan
        self._devices = devices
        self._run_ns = run_ns
        self._rng = rng

    def add(self, event: s.Event) -> None:
        at = begin_ns(event, self._run_ns)
        end = at + round(getattr(event, "for_s", 0.0) * NS)
        if isinstance(event, s.CounterFault):
            for device in self._chosen(event):
                self._counter(event, device, at, end)
        elif isinstance(event, s.DeviceEvent):
            for device in self._chosen(event):
                self._device(event, device, at, end)
        else:
            self._host(event, at, end)

    def levels(self, device: int, dvfs: s.Dvfs, rng: np.random.Generator) -> None:
        """Levels of the device's core clock up to the horizon."""
        at = 0
        while at < self._plan.horizon_ns:
            level = int(rng.integers(dvfs.levels))
            factor = dvfs.low + (1 - dvfs.low) * level / (dvfs.levels - 1)
            self._change(f"dev{device}", Change(at, "rate", round(factor * NS), "dvfs"))
            at += max(round(float(rng.exponential(dvfs.dwell_s)) * NS), 1_000_000)

    def _chosen(self, event: s.DeviceEvent) -> Sequence[int]:
        return range(self._devices) if event.device is None else [event.device]

    def _change(self, clock: str, *changes: Change) -> None:
        self._plan.changes.setdefault(clock, []).extend(changes)

    def _incident(self, kind: str, start: int, end: int, device: int | None = None) -> None:
        self._plan.incidents.append(Planned(kind, device, start, end))

    def _host(self, event: s.Event, at: int, end: int) -> None:
        plan = self._plan
        match event:
            case s.RealtimeStep():
                self._change(REALTIME, Change(at, "jump", round(event.ms * 1e6), "ntp_step"))
            case s.RealtimeSlew():
                ppb = round(event.ppm * 1e3) * (1 if event.ms > 0 else -1)
                until = at + round(abs(event.ms) * 1e6 / (event.ppm * 1e-6))
                self._change(REALTIME, Change(at, "slew", ppb), Change(until, "slew", -ppb))
            case s.Leap():
                self._leap(event, at)
            case s.Suspend():
                self._suspend(at, end)
            case s.Reboot():
                self._down(at, end, event.tail_s)
                self._reboot(end)
            case s.Stall():
                plan.stalls.append((at, end))
            case s.LossBurst():
                plan.bursts.append((at, end, event.share))
                self._incident("data_loss", at, end)
            case s.Spool():
                plan.spools.append(Spool(at, end, round(event.repeat_s * NS)))
                self._incident("host_silent", at, end)
            case s.AgentCrash():
                self._down(at, end, event.tail_s)
            case s.HostCrash():
                self._down(at, NEVER, event.tail_s)
            case s.SequenceRestart():
                self._down(at, end, 0.0, new_epoch=False)
                self._incident("sequence_restart", at, end)
            case _:
                raise TypeError(f"no host event: {event}")

    def _leap(self, event: s.Leap, at: int) -> None:
        size = -NS if event.insert else NS
        if not event.smear_s:
            self._change(REALTIME, Change(at, "jump", size, "leap_second"))
            return
        ppb = round(size / event.smear_s)
        self._change(REALTIME, Change(at, "slew", ppb), Change(at + round(event.smear_s * NS), "slew", -ppb))

    def _down(self, at: int, end: int, tail_s: float, *, new_epoch: bool = True) -> None:
        self._plan.downs.append(Down(at, end, max(at - round(tail_s * NS), 0), True, new_epoch))
        self._incident("host_silent", at, min(end, self._run_ns) if end == NEVER else end)

    def _suspend(self, at: int, end: int) -> None:
        start, end = at // FLUSH_NS * FLUSH_NS, -(-end // FLUSH_NS) * FLUSH_NS
        self._plan.downs.append(Down(start, end, start, False, False))
        for clock in (RAW, "monotonic"):
            self._change(clock, Change(start, "stop", 0, "suspend"), Change(end, "go", 0, "suspend"))
        self._incident("host_silent", start, end)

    def _reboot(self, at: int) -> None:
        reading = int(self._rng.integers(5 * NS, 20 * NS))  # firmware and kernel start before the agent does
        for clock in (RAW, BOOTTIME, "monotonic"):
            self._change(clock, Change(at, "restart", reading, "reboot"))
        for device in range(self._devices):
            self._restart(device, at, "reboot")

    def _device(self, event: s.DeviceEvent, device: int, at: int, end: int) -> None:
        match event:
            case s.DeviceReset():
                self._restart(device, at, "device_reset")
            case s.Stuck():
                clock = f"dev{device}" if event.clock == "device" else event.clock
                if event.clock == "device" or device == 0 or event.device is not None:
                    self._change(clock, Change(at, "stop", 0, "stuck"), Change(end, "go", 0, "stuck"))
            case s.RateChange():
                self._change(f"dev{device}", Change(at, "rate", round(event.factor * NS)), Change(end, "rate", NS))
            case s.DeviceVanish():
                self._plan.gone.setdefault(device, []).append((at, end))
                self._incident("device_vanished", at, end, device)
                if event.reset:
                    self._restart(device, end, "device_reset")
            case _:
                raise TypeError(f"no device event: {event}")

    def _restart(self, device: int, at: int, cause: str) -> None:
        self._plan.resets.setdefault(device, []).append(at)
        self._change(f"dev{device}", Change(at, "restart", int(self._rng.integers(NS // 1_000, NS)), cause))

    def _counter(self, event: s.CounterFault, device: int, at: int, end: int) -> None:
        lasts = hasattr(event, "for_s")
        self._plan.counters.append(CounterChange(device, at, end if lasts else NEVER, event))
        match event:
            case s.CounterStuck():
                self._incident("stuck_counter", at, end, device)
            case s.CounterSentinel() | s.CounterSaturated():
                self._incident("counter_invalid", at, end, device)
            case s.CounterReset():
                self._incident("counter_reset", at, at + FLUSH_NS, device)
            case _:
                pass  # a wrap is what a register of its width does


def begin_ns(event: s.Event, run_ns: int) -> int:
    """True time at which an event begins."""
    return round(event.at_s * NS) if event.at_s is not None else round((event.at_share or 0.0) * run_ns)


Finding = tuple[tuple[str | int, ...], str]
"""Path of a key within the scenario, and what is wrong with it."""


def impossible(clocks: s.Clocks, collection: s.Collection, hosts: int, devices: int, seconds: float) \
        -> Iterator[Finding]:
    """What of the two sections a fleet of this size and a run of this length cannot have."""
    groups: tuple[tuple[tuple[str, ...], Sequence[Any]], ...] = (
        (("clocks", "events"), clocks.events), (("clocks", "ahead"), clocks.ahead),
        (("clocks", "probes", "congestion"), clocks.probes.congestion), (("collection", "events"), collection.events))
    for path, events in groups:
        for number, event in enumerate(events):
            if event.host is not None and event.host >= hosts:
                yield (*path, number, "host"), f"there is no host {event.host}, the fleet has {hosts}"
            device = getattr(event, "device", None)
            if device is not None and device >= devices:
                yield (*path, number, "device"), f"there is no device {device}, a host has {devices}"
            at_s = getattr(event, "at_s", None)
            if at_s is not None and at_s >= seconds:
                yield (*path, number, "at_s"), f"{at_s:g} s is outside the run of {seconds:g} s"
    yield from _overlapping(collection, clocks, seconds)


def _overlapping(collection: s.Collection, clocks: s.Clocks, seconds: float) -> Iterator[Finding]:
    """Sleeps, restarts and crashes of one host one after another: two at once mean nothing."""
    run_ns = round(seconds * NS)
    kinds = (s.Suspend, s.Reboot, s.AgentCrash, s.HostCrash, s.SequenceRestart)
    found: list[tuple[int, int, int | None]] = []
    for section, events in (("clocks", clocks.events), ("collection", collection.events)):
        for number, event in enumerate(events):
            if not isinstance(event, kinds):
                continue
            begin = begin_ns(event, run_ns)
            end = NEVER if isinstance(event, s.HostCrash) else begin + round(event.for_s * NS) + FLUSH_NS
            if any(begin < e and b < end and (event.host is None or h in (None, event.host)) for b, e, h in found):
                yield (section, "events", number), "it overlaps another suspend, restart or crash of the host"
            found.append((begin, end, event.host))


def refuse(found: Iterator[Finding], scenario: str) -> None:
    """UsageError for the first of ``found``, naming scenario, key and reason."""
    for path, reason in found:
        key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
        raise UsageError(f"scenario {scenario}: {key}: {reason}")
