"""PTP devices by structures made by hand, and by this machine's devices where it has any."""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ingest import ptp
from ingest.clocks import Exchange, LinuxClocks
from ingest.hostroot import HostRoot
from ingest.ptp import REQUEST, SIZE, PtpClock, PtpClocks
from tests.unit.ingest.files import put
from tests.unit.ingest.test_bridge import START, SlewedClocks

PHC_AHEAD = 37_000_000_123
REALTIME, RAW = 0, 4


class FakeDevice:
    """A kernel that knows ``ways``; the device's clock is REALTIME + ``PHC_AHEAD``, and every reading takes time.

    The structures are packed here independently: 16 bytes of head or none, then (s64 s, u32 ns, u32 reserved).
    """

    def __init__(self, clocks: SlewedClocks, *ways: str) -> None:
        self.clocks, self.ways, self.asked = clocks, ways, []
        self.fail: int | None = None
        self.spoil: Callable[[int], int] = lambda stamp: stamp

    def device(self) -> int:
        self.clocks.wait(900)
        return START + self.clocks.raw + int(self.clocks.offset) + PHC_AHEAD

    def system(self, clock: int) -> int:
        return self.clocks.monotonic_raw_ns() if clock == RAW else self.spoil(self.clocks.realtime_ns())

    def __call__(self, handle: int, request: int, buffer: bytearray) -> None:
        if self.fail is not None:
            raise OSError(self.fail, "broken")
        self.asked.append(request)
        if request == 0xC0403D08 and len(buffer) == 64:
            self._need("precise")
            device = self.device()
            times, start = [device, device - PHC_AHEAD, self.clocks.raw], 0
        elif request == 0xC4C03D09 and len(buffer) == 1216:
            count, clock, *rest = struct.unpack_from("=IiII", buffer)
            assert rest == [0, 0]
            self._need("extended_raw" if clock == RAW else "extended")
            times, start = [], 16
            for _ in range(count):
                times += [self.system(clock), self.device(), self.system(clock)]
        elif request == 0x43403D05 and len(buffer) == 832:
            count, *rest = struct.unpack_from("=IIII", buffer)
            assert rest == [0, 0, 0]
            self._need("basic")
            times, start = [], 16
            for _ in range(count):
                times += [self.system(REALTIME), self.device()]
            times.append(self.system(REALTIME))
        else:
            raise OSError(errno.ENOTTY, "unknown request")
        for i, at in enumerate(times):
            struct.pack_into("=qII", buffer, start + 16 * i, at // 10**9, at % 10**9, 0xDEAD)

    def _need(self, way: str) -> None:
        if way not in self.ways:
            raise OSError(errno.EINVAL if way == "extended_raw" else errno.EOPNOTSUPP, "not here")


def clock(device: FakeDevice) -> PtpClock:
    return PtpClock("ptp0", 3, device.clocks, device)


def test_requests_and_sizes_are_the_kernel_s() -> None:
    assert REQUEST == {"precise": 0xC0403D08, "extended": 0xC4C03D09, "basic": 0x43403D05}
    assert SIZE == {"precise": 64, "extended": 1216, "basic": 832}


@pytest.mark.parametrize(("ways", "used"), [
    (("precise", "extended", "basic"), "precise"), (("extended_raw", "extended", "basic"), "extended_raw"),
    (("extended", "basic"), "extended"), (("basic",), "basic")])
@pytest.mark.parametrize("ppm", [0.0, 480.0, -480.0])
def test_the_truth_is_within_every_exchange_whatever_the_way(ways: tuple[str, ...], used: str, ppm: float) -> None:
    device = FakeDevice(SlewedClocks(ppm), *ways)
    opened = clock(device)
    device.clocks.wait(50_000_000)
    found = opened.read(10)
    assert opened.way == used
    assert opened.refused == 0
    assert len(found) == 10
    for before, at, after in found:
        # The device shows `at` when raw + offset + START + PHC_AHEAD reaches it; solve for raw with the last offset.
        raw = at - START - PHC_AHEAD - int(device.clocks.offset)
        drift = abs(ppm) * 1e-6 * (device.clocks.raw - raw) + 2
        assert before - drift <= raw <= after + drift
        assert after - before < 2_500


def test_a_way_that_is_missing_is_asked_for_once() -> None:
    device = FakeDevice(SlewedClocks(), "basic")
    opened = clock(device)
    opened.read(5)
    asked = len(device.asked)
    opened.read(5)
    assert asked == 4
    assert len(device.asked) == 5


def test_readings_over_a_step_of_realtime_are_refused_and_counted() -> None:
    device = FakeDevice(SlewedClocks(), "extended")
    opened = clock(device)
    steps = iter([0, 0, 0, 5_000_000] + [5_000_000] * 20)

    def step(stamp: int) -> int:
        device.clocks.offset += (ahead := next(steps)) - getattr(step, "ahead", 0)
        step.ahead = ahead  # type: ignore[attr-defined]
        return stamp

    device.spoil = step
    assert opened.read(10) == []
    assert opened.refused == 10


def test_stamps_from_outside_the_call_are_refused() -> None:
    device = FakeDevice(SlewedClocks(), "extended")
    device.spoil = lambda stamp: stamp - 1_000_000_000
    opened = clock(device)
    device.clocks.wait(3_000_000_000)
    assert opened.read(4) == []
    assert opened.refused == 4


def test_a_device_that_reads_zero_is_refused() -> None:
    device = FakeDevice(SlewedClocks(), "extended_raw")
    device.device = lambda: 0  # type: ignore[method-assign]
    opened = clock(device)
    assert opened.read(4) == []
    assert opened.refused == 4


def test_a_device_with_no_way_at_all_says_so() -> None:
    with pytest.raises(OSError, match="ptp0 has no way"):
        clock(FakeDevice(SlewedClocks())).read()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    put(tmp_path, {"proc/stat": "cpu 1\n", "sys/class/ptp/ptp0/clock_name": "ice-0000:3b:00.0\n",
                   "sys/class/ptp/ptp7/clock_name": "KVM virtual PTP\n", "dev/ptp7": "a file, no device"})
    (tmp_path / "dev/ptp0").symlink_to("/dev/null")
    return tmp_path


def opened_device(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Any = ptp._open_device
    monkeypatch.setattr(ptp, "_open_device",
                        lambda path: os.open("/dev/null", os.O_RDONLY) if path.name == "ptp0" else real(path))


def test_devices_are_found_and_what_cannot_be_opened_is_counted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_device(monkeypatch)
    clocks = SlewedClocks()
    with HostRoot(folder) as root:
        found = PtpClocks(root, clocks, FakeDevice(clocks, "extended_raw"))
        facts = {(f.component, f.attribute): f.text for f in found.inventory(root)}
        assert facts["ptp0", "model"] == "ice-0000:3b:00.0"
        assert (facts["ptp0", "readable"], facts["ptp7", "readable"]) == ("yes", "no")
        assert root.unreadable["ptp", "not_a_file"] == 1
        readings = found.read()
        assert {name: len(kept) for name, kept in readings.items()} == {"ptp0": 4}
        assert all(isinstance(e, Exchange) for e in readings["ptp0"])
        assert ("ptp0", "read_by", "extended_raw") in {(f.component, f.attribute, f.text)
                                                       for f in found.inventory(root)}
        found.close()


def test_links_out_of_the_root_are_never_opened_as_devices(folder: Path) -> None:
    with HostRoot(folder) as root:
        found = PtpClocks(root, SlewedClocks())
        found.inventory(root)
        assert found.ways() == {}
        assert root.unreadable["ptp", "link_loop"] + root.unreadable["ptp", "io_error"] == 1


def test_a_device_that_fails_is_counted_and_opened_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened_device(monkeypatch)
    clocks = SlewedClocks()
    device = FakeDevice(clocks, "extended_raw")
    with HostRoot(folder) as root:
        found = PtpClocks(root, clocks, device)
        found.inventory(root)
        device.fail = errno.ENODEV
        assert found.read() == {}
        assert root.unreadable["ptp", "io_error"] == 1
        device.fail = None
        assert found.read() == {}
        found.inventory(root)
        assert found.read().keys() == {"ptp0"}
        found.close()


def test_the_devices_of_this_machine_agree_with_themselves() -> None:
    devices = sorted(Path("/dev").glob("ptp[0-9]*"))
    if not devices:
        pytest.skip("this machine has no /dev/ptp*: its kernel offers no PTP clock")
    with HostRoot(Path("/")) as root:
        found = PtpClocks(root, LinuxClocks())
        found.inventory(root)
        first, second = found.read(), found.read()
        found.close()
    if not first:
        pytest.skip(f"{devices[0]} cannot be opened or read: {dict(root.unreadable)}")
    for name, exchanges in first.items():
        low = max(e.other - e.after for e in exchanges) - 100_000
        high = min(e.other - e.before for e in exchanges) + 100_000
        assert low <= high, name
        assert any(e.other - e.before >= low and e.other - e.after <= high for e in second[name]), name
