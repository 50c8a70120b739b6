"""How the kernel steers REALTIME, from adjtimex(2), changing nothing.

Field order and units: linux/timex.h. ``freq`` is ppm scaled by 2^16; ``tick`` is µs per 1/100 s, nominally 10,000, so
one µs of it is 100 ppm; ``offset`` is in µs, or in ns with STA_NANO. The layout below is that of 64-bit systems.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

TIME_ERROR: Final = 5
"""What adjtimex returns while nobody disciplines the clock."""
_OFFSET, _FREQ, _MAX_ERROR, _EST_ERROR, _STATUS, _TICK, _TAI = 1, 2, 3, 4, 5, 11, 20
_SLOTS: Final = 64
_SS_READ: Final = 0xA001
"""ADJ_OFFSET_SS_READ: what adjtime(3) has left to slew, in µs; needs no privilege."""
_STA_NANO: Final = 0x2000
_FLAGS: Final = {0x0001: "pll", 0x0008: "fll", 0x0010: "leap_insert", 0x0020: "leap_delete", 0x0040: "unsynchronized",
                 0x0080: "frequency_hold", 0x1000: "clock_fault"}
_NOMINAL_TICK_US: Final = 10_000
_PPB_PER_TICK_US: Final = 100_000


@dataclass(frozen=True, slots=True)
class Timex:
    """State of the clock's discipline. ``offset_ns`` and ``slew_us`` are corrections still being worked off."""

    state: int
    status: int
    frequency_ppb: int
    tick_us: int
    offset_ns: int
    slew_us: int
    max_error_us: int
    est_error_us: int
    tai_s: int

    @property
    def disciplined(self) -> bool:
        """Whether somebody keeps the clock; if not, the errors are the kernel's ceiling and no bound."""
        return self.state != TIME_ERROR

    @property
    def steady_ppb(self) -> int:
        """REALTIME against MONOTONIC_RAW but for corrections under way."""
        return self.frequency_ppb + (self.tick_us - _NOMINAL_TICK_US) * _PPB_PER_TICK_US

    @property
    def rate_ppb(self) -> int | None:
        """REALTIME against MONOTONIC_RAW; None while a correction of unknown speed is under way."""
        return None if self.offset_ns or self.slew_us else self.steady_ppb

    @property
    def flags(self) -> str:
        """Names of the status bits that say how the clock is steered, by comma; 'none' for none."""
        return ",".join(name for bit, name in _FLAGS.items() if self.status & bit) or "none"


def decode(state: int, fields: Sequence[int], slew_us: int = 0) -> Timex:
    """From the return value and the longs of ``struct timex``; ints of it fill the low half of their long."""
    status, tai = fields[_STATUS] & 0xFFFF, fields[_TAI] & 0xFFFFFFFF
    return Timex(state, status, round(fields[_FREQ] * 1000 / 65536), fields[_TICK],
                 fields[_OFFSET] * (1 if status & _STA_NANO else 1000), slew_us, fields[_MAX_ERROR],
                 fields[_EST_ERROR], tai - (1 << 32) if tai >> 31 else tai)


def read_timex() -> Timex | None:
    """Of this machine; None where there is no such call or it is refused."""
    if ctypes.sizeof(ctypes.c_long) != 8:
        return None
    try:
        call = ctypes.CDLL(None, use_errno=True).adjtimex
    except (OSError, AttributeError):
        return None
    fields, slewing = (ctypes.c_long * _SLOTS)(), (ctypes.c_long * _SLOTS)()
    slewing[0] = _SS_READ
    state = call(fields)
    if state < 0:
        return None
    return decode(state, fields[:], slewing[_OFFSET] if call(slewing) >= 0 else 0)
