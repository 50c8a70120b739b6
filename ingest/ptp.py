"""PTP hardware clocks: /dev/ptpN read against MONOTONIC_RAW by the most exact way the driver has.

Ways, best first; numbers and layouts from linux/ptp_clock.h:

- PTP_SYS_OFFSET_PRECISE: the hardware stamps both clocks at one moment; the kernel gives MONOTONIC_RAW itself.
- PTP_SYS_OFFSET_EXTENDED with CLOCK_MONOTONIC_RAW in ``clockid`` (Linux 6.12 and later): three stamps a sample, system,
  device, system, the system ones taken by the driver close to the register.
- the same with ``clockid`` 0: system stamps are REALTIME. Older kernels know this way only.
- PTP_SYS_OFFSET: system stamps (REALTIME) between device readings, the last one a system stamp.

REALTIME stamps are carried to MONOTONIC_RAW by crossings taken before and after the call (`ingest.bridge`), which
widens them. Every result must lie between two readings of MONOTONIC_RAW around the call, or it is refused.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Literal

from fleetscope.contracts.counters import CounterDescriptor
from ingest.bridge import Bridge
from ingest.clocks import HZ, Exchange, HostClocks, quickest
from ingest.hostroot import HostRoot
from ingest.reading import Fact, Reading

Way = Literal["precise", "extended_raw", "extended", "basic"]
Ioctl = Callable[[int, int, bytearray], None]
"""Fills the buffer in place for (file, request, buffer) or raises OSError."""

COLLECTOR: Final = "ptp"
WAYS: Final[tuple[Way, ...]] = ("precise", "extended_raw", "extended", "basic")
SAMPLES: Final = 10
MAX_SAMPLES: Final = 25
MAX_DEVICES: Final = 32
PRECISE_SLACK_NS: Final = 200
"""Half width given to a hardware cross stamp: its registers' resolution and the asymmetry of PCIe PTM."""
_MONOTONIC_RAW: Final = 4
_TIME: Final = struct.Struct("=qII")
_HEAD: Final = 16
_UNSUPPORTED: Final = frozenset((errno.EOPNOTSUPP, errno.ENOTTY, errno.EINVAL, errno.ENOSYS))


def _request(direction: int, number: int, size: int) -> int:
    """_IOW (1) and _IOWR (3) of asm-generic/ioctl.h, type '='; x86, Arm and RISC-V use it."""
    return direction << 30 | size << 16 | ord("=") << 8 | number


SIZE: Final = {"precise": 3 * _TIME.size + 16, "extended": _HEAD + MAX_SAMPLES * 3 * _TIME.size,
               "basic": _HEAD + (2 * MAX_SAMPLES + 1) * _TIME.size}
REQUEST: Final = {"precise": _request(3, 8, SIZE["precise"]), "extended": _request(3, 9, SIZE["extended"]),
                  "basic": _request(1, 5, SIZE["basic"])}


def system_ioctl(handle: int, request: int, buffer: bytearray) -> None:
    """The kernel's."""
    fcntl.ioctl(handle, request, buffer, True)


class PtpClock:
    """One device. ``way`` is the one that answered last; a way that the driver lacks is not tried again."""

    def __init__(self, name: str, handle: int, clocks: HostClocks, ioctl: Ioctl = system_ioctl) -> None:
        self.name = name
        self.way: Way | None = None
        self.refused = 0
        """Samples that could not have been: outside the call, without order, or carried over a step of REALTIME."""
        self._handle = handle
        self._clocks = clocks
        self._ioctl = ioctl
        self._left = list(WAYS)

    def read(self, count: int = SAMPLES) -> list[Exchange]:
        """``count`` exchanges, less those that are refused; OSError where no way is left or the device fails."""
        while self._left:
            way = self._left[0]
            try:
                found = self._by(way, min(count, MAX_SAMPLES))
            except OSError as error:
                if error.errno not in _UNSUPPORTED:
                    raise
                del self._left[0]
                continue
            self.way = way
            return found
        raise OSError(errno.EOPNOTSUPP, f"{self.name} has no way to be read against the system clock")

    def _by(self, way: Way, count: int) -> list[Exchange]:
        bridge = Bridge(self._clocks)
        bridge.cross()
        first = self._clocks.monotonic_raw_ns()
        stamps = list(self._stamps(way, count))
        last = self._clocks.monotonic_raw_ns()
        bridge.cross()
        found = []
        for before, device, after in stamps:
            exchange = Exchange(before, device, after) if way in ("precise", "extended_raw") \
                else _carried(bridge, before, device, after)
            kept = exchange and _inside(exchange, first, last)
            if kept:
                found.append(kept)
            else:
                self.refused += 1
        return found

    def _stamps(self, way: Way, count: int) -> Iterator[tuple[int, int, int]]:
        """(system before, device, system after) of each sample."""
        if way == "precise":
            for _ in range(count):
                device, _, raw = self._ask("precise", bytearray(SIZE["precise"]), 0, 3)
                yield raw - PRECISE_SLACK_NS, device, raw + PRECISE_SLACK_NS
        elif way == "basic":
            times = self._ask("basic", _head("basic", count, 0), _HEAD, 2 * count + 1)
            for i in range(0, 2 * count, 2):
                yield times[i], times[i + 1], times[i + 2]
        else:
            clock = _MONOTONIC_RAW if way == "extended_raw" else 0
            times = self._ask("extended", _head("extended", count, clock), _HEAD, 3 * count)
            for i in range(0, 3 * count, 3):
                yield times[i], times[i + 1], times[i + 2]

    def _ask(self, kind: str, buffer: bytearray, start: int, count: int) -> list[int]:
        self._ioctl(self._handle, REQUEST[kind], buffer)
        return [seconds * HZ + ns for seconds, ns, _ in
                (_TIME.unpack_from(buffer, start + i * _TIME.size) for i in range(count))]


def _head(kind: str, count: int, clock: int) -> bytearray:
    buffer = bytearray(SIZE[kind])
    struct.pack_into("=Ii", buffer, 0, count, clock)
    return buffer


def _carried(bridge: Bridge, before: int, device: int, after: int) -> Exchange | None:
    low, high = bridge.to_raw(before), bridge.to_raw(after)
    return None if low is None or high is None else Exchange(low[0], device, high[1])


def _inside(exchange: Exchange, first: int, last: int) -> Exchange | None:
    """Cut to the call; None where it was not within it, or has no order."""
    before, after = max(exchange.before, first), min(exchange.after, last)
    return Exchange(before, exchange.other, after) if exchange.other > 0 and before <= after else None


class PtpClocks:
    """All devices below ``root``/dev, and a collector of what they are.

    A device that fails is closed, counted on ``root`` and looked for again with the next inventory.
    """

    name = COLLECTOR
    descriptors: tuple[CounterDescriptor, ...] = ()

    def __init__(self, root: HostRoot, clocks: HostClocks, ioctl: Ioctl = system_ioctl) -> None:
        self._root = root
        self._clocks = clocks
        self._ioctl = ioctl
        self._open: dict[str, tuple[PtpClock, int]] = {}

    def read(self) -> dict[str, list[Exchange]]:
        """The quickest exchanges of every device, by name such as ptp0."""
        found = {}
        for name, (clock, _) in list(self._open.items()):
            try:
                exchanges = clock.read()
            except OSError as error:
                self._root.note(COLLECTOR, "permission" if error.errno == errno.EPERM else "io_error", f"dev/{name}")
                self._drop(name)
                continue
            if clock.refused:
                self._root.note(COLLECTOR, "malformed", f"dev/{name}: {clock.refused} samples")
                clock.refused = 0
            if kept := quickest(exchanges):
                found[name] = kept
        return found

    def collect(self, root: HostRoot) -> list[Reading]:
        """Nothing: readings of clocks are samples."""
        return []

    def inventory(self, root: HostRoot) -> list[Fact]:
        """Open what is new, forget what went, and state every device in /sys/class/ptp as facts."""
        names = self._root.names("sys/class/ptp", COLLECTOR, optional=True)
        for name in names[MAX_DEVICES:]:
            self._root.note(COLLECTOR, "over_limit", name)
        for name in self._open.keys() - set(names):
            self._drop(name)
        facts: list[Fact] = []
        for name in names[:MAX_DEVICES]:
            if name not in self._open:
                self._add(name)
            facts += self._facts(name)
        return facts

    def ways(self) -> dict[str, Way | None]:
        """How each open device is read."""
        return {name: clock.way for name, (clock, _) in self._open.items()}

    def close(self) -> None:
        """Close all devices."""
        for name in list(self._open):
            self._drop(name)

    def _add(self, name: str) -> None:
        path = self._root.path / "dev" / name
        try:
            handle = _open_device(path)
        except OSError as error:
            reason = {errno.ENOENT: "missing", errno.EACCES: "permission", errno.EPERM: "permission",
                      errno.ENODEV: "not_a_file"}.get(error.errno or 0, "io_error")
            self._root.note(COLLECTOR, reason, f"dev/{name}")  # type: ignore[arg-type]
            return
        self._open[name] = PtpClock(name, handle, self._clocks, self._ioctl), handle

    def _drop(self, name: str) -> None:
        os.close(self._open.pop(name)[1])

    def _facts(self, name: str) -> list[Fact]:
        folder = f"sys/class/ptp/{name}"
        parent = (self._root.resolve(f"{folder}/device") or "").rpartition("/")[2] or None
        model = (self._root.text(f"{folder}/clock_name", COLLECTOR, optional=True) or "").strip()
        opened = self._open.get(name)
        facts = [Fact("clock", name, "model", text=model or "unknown", parent=parent),
                 Fact("clock", name, "readable", text="yes" if opened else "no", parent=parent)]
        if opened and opened[0].way:
            facts.append(Fact("clock", name, "read_by", text=opened[0].way, parent=parent))
        return facts


def _open_device(path: Path) -> int:
    """Read-only: measuring needs no right to set the clock. ENODEV where it is no character device."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    if not stat.S_ISCHR(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.ENODEV, "not a character device")
    return handle
