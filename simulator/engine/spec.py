"""What a world is made of: devices, the links they share, groups that meet, and physical changes in true time."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal

from fleetscope.errors import UsageError

UNLIMITED: Final = math.inf


@dataclass(frozen=True, slots=True)
class Device:
    """One device and the host thread that drives it (rank = index in ``WorldSpec.devices``).

    Paths are indices into ``WorldSpec.links``; a transfer needs every link of its path at once. Rates in bytes/ns
    (= GB/s), powers in W, clocks in MHz, temperatures in °C.
    """

    copy_in: tuple[int, ...] = ()
    copy_out: tuple[int, ...] = ()
    copy_in_remote: tuple[int, ...] | None = None
    """Path of copies with flag REMOTE_NUMA; None: as the plain one."""
    copy_out_remote: tuple[int, ...] | None = None
    copy_in_cap: float = UNLIMITED
    """Most that one transfer to the device reaches whatever its path carries: tags × payload / round trip."""
    copy_out_cap: float = UNLIMITED
    copy_in_remote_cap: float = UNLIMITED
    copy_out_remote_cap: float = UNLIMITED
    launch_latency_ns: int = 2_500
    """From the end of submission to the earliest start, at least; uniform noise up to ``launch_noise_ns`` on top."""
    launch_noise_ns: int = 0
    queue_depth: int = 1_024
    """Submissions a queue holds, the running one included, before the call blocks."""
    hbm_bytes_per_ns: float = UNLIMITED
    """Achievable rate of device memory, in which copies and collectives take a share."""
    copy_hbm: float = 1.0
    """Bytes of device memory traffic per byte copied over PCIe."""
    collective_hbm: float = 2.0
    """Likewise per byte of a collective: read and written."""
    full_mhz: int = 1_000
    min_mhz: int = 500
    idle_w: float = 0.0
    max_w: float = UNLIMITED
    """Power limit: the clock falls to hold it."""
    matrix_w: float = 0.0
    """Power in addition to idle with the matrix engine always busy at full clock; falls with the cube of the clock."""
    vector_w: float = 0.0
    hbm_w: float = 0.0
    """Power in addition to idle with device memory always busy; does not fall with the clock."""
    thermal_c_per_w: float = 0.1
    thermal_s: float = 20.0
    inlet_c: float = 25.0
    throttle_c: float = UNLIMITED
    """Above it the clock falls; it rises again 2 °C below."""


@dataclass(frozen=True, slots=True)
class Change:
    """A physical change at ``at_ns``: of a link's bytes/ns, or of a device's highest clock in MHz, power limit in W,
    inlet air in °C, or its kernels' slowness.

    A link of 0 bytes/ns stands still (retraining). ``slowness`` ≥ 1 multiplies the time of kernels (a straggler).
    """

    at_ns: int
    what: Literal["link", "clock_cap", "slowness", "power_limit", "inlet"]
    index: int
    value: float


@dataclass(frozen=True, slots=True)
class HostSlow:
    """In [start_ns, end_ns) everything the host thread of ``rank`` does takes ``factor`` ≥ 1 times as long."""

    rank: int
    start_ns: int
    end_ns: int
    factor: float


@dataclass(frozen=True, slots=True)
class Group:
    """A communicator: ranks that meet, and the links their collective uses at once, each at ``link_bytes`` a member."""

    members: tuple[int, ...]
    path: tuple[int, ...] = ()
    cap: float = UNLIMITED
    """Most bytes/ns a collective reaches on an empty fabric."""


@dataclass(frozen=True, slots=True)
class WorldSpec:
    """All that a world needs. ``links`` are rates in bytes/ns at the start of the run."""

    devices: tuple[Device, ...]
    links: tuple[float, ...] = ()
    groups: tuple[Group, ...] = ()
    changes: tuple[Change, ...] = ()
    host_slow: tuple[HostSlow, ...] = ()
    seed: int = 0
    tick_ns: int = 10_000_000
    """Period of the control of power and clock."""
    reading_ns: int = 100_000_000
    """Period of the series for counters; a multiple of ``tick_ns``."""
    slot_ns: int = 100_000_000
    """Length of the slots of true causes; a multiple of ``tick_ns``."""

    def __post_init__(self) -> None:
        self._check_times()
        for index, device in enumerate(self.devices):
            self._check_device(index, device)
        for index, group in enumerate(self.groups):
            self._check_group(index, group)
        for change in self.changes:
            self._check_change(change)
        self._check_slow()

    def _check_times(self) -> None:
        _need(bool(self.devices), "world: it has no device")
        _need(all(rate >= 0 for rate in self.links), "world.links: rates must be ≥ 0 bytes/ns")
        _need(self.tick_ns > 0, f"world.tick_ns: {self.tick_ns} ns must be > 0")
        for name in ("reading_ns", "slot_ns"):
            value = getattr(self, name)
            _need(value > 0 and value % self.tick_ns == 0,
                  f"world.{name}: {value} ns must be a multiple of tick_ns = {self.tick_ns} ns")

    def _check_device(self, index: int, device: Device) -> None:
        where = f"world.devices[{index}]"
        for name in ("copy_in", "copy_out", "copy_in_remote", "copy_out_remote"):
            self._check_path(f"{where}.{name}", getattr(device, name) or ())
        for name in ("copy_in_cap", "copy_out_cap", "copy_in_remote_cap", "copy_out_remote_cap", "hbm_bytes_per_ns",
                     "queue_depth", "thermal_s", "min_mhz"):
            _need(getattr(device, name) > 0, f"{where}.{name}: {getattr(device, name)} must be > 0")
        for name in ("launch_latency_ns", "launch_noise_ns", "copy_hbm", "collective_hbm", "idle_w", "matrix_w",
                     "vector_w", "hbm_w", "thermal_c_per_w"):
            _need(getattr(device, name) >= 0, f"{where}.{name}: {getattr(device, name)} must be ≥ 0")
        _need(device.min_mhz <= device.full_mhz,
              f"{where}.min_mhz: {device.min_mhz} MHz is above full_mhz = {device.full_mhz} MHz")
        _need(device.max_w > device.idle_w, f"{where}.max_w: {device.max_w} W is not above idle_w = {device.idle_w} W")

    def _check_group(self, index: int, group: Group) -> None:
        where = f"world.groups[{index}]"
        _need(bool(group.members), f"{where}.members: a group needs a member")
        _need(len(set(group.members)) == len(group.members), f"{where}.members: a rank stands twice")
        _need(all(0 <= rank < len(self.devices) for rank in group.members), f"{where}.members: no such rank")
        _need(group.cap > 0, f"{where}.cap: {group.cap} must be > 0 bytes/ns")
        self._check_path(f"{where}.path", group.path)

    def _check_path(self, where: str, path: tuple[int, ...]) -> None:
        _need(all(0 <= link < len(self.links) for link in path), f"{where}: no such link in {path}")
        _need(len(set(path)) == len(path), f"{where}: a link stands twice in {path}")

    def _check_change(self, change: Change) -> None:
        where = f"world.changes ({change.what} at {change.at_ns} ns)"
        count = len(self.links) if change.what == "link" else len(self.devices)
        least = {"link": 0.0, "clock_cap": 1.0, "slowness": 1.0, "power_limit": 1e-3, "inlet": -100.0}
        _need(change.what in least, f"{where}: what must be one of {sorted(least)}")
        _need(0 <= change.index < count, f"{where}: index {change.index} does not exist")
        _need(change.at_ns >= 0, f"{where}: time must be ≥ 0 ns")
        _need(change.value >= least[change.what], f"{where}: value {change.value} must be ≥ {least[change.what]}")

    def _check_slow(self) -> None:
        last: dict[int, int] = {}
        for slow in sorted(self.host_slow, key=lambda slow: (slow.rank, slow.start_ns)):
            where = f"world.host_slow (rank {slow.rank} at {slow.start_ns} ns)"
            _need(0 <= slow.rank < len(self.devices), f"{where}: no such rank")
            _need(0 <= slow.start_ns < slow.end_ns, f"{where}: start_ns must be ≥ 0 and before end_ns")
            _need(slow.factor >= 1, f"{where}: factor {slow.factor} must be ≥ 1")
            _need(slow.start_ns >= last.get(slow.rank, 0), f"{where}: overlaps an earlier one")
            last[slow.rank] = slow.end_ns


def _need(condition: bool, message: str) -> None:
    if not condition:
        raise UsageError(message)
