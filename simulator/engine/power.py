"""Power, temperature and clock of devices at each control tick, and the rows that slots and readings close with.

P = idle + (u_matrix·P_matrix + u_vector·P_vector)·φ³ + u_memory·P_memory with φ = clock / full clock (voltage follows
the clock) and u the busy shares; temperature follows P as one RC stage, stepped implicitly:
θ += (inlet + R·P − θ)·Δt / (τ + Δt).
"""

from __future__ import annotations

import math
from typing import Final

from simulator.engine.charge import settle
from simulator.engine.layout import (
    CAUSE_COUNT,
    CLOCK_MHZ,
    ENERGY_J,
    POWER_W,
    READING_NS,
    READING_ROWS,
    SERIES_COUNT,
    SLOT_NS,
    SLOT_ROWS,
    TEMPERATURE_C,
    TICK_NS,
    State,
    compiled,
)
from simulator.engine.shares import mark_device

RISE_BELOW: Final = 0.97
"""The clock rises again below this part of the power limit, so that it does not swing at the limit."""
HYSTERESIS_C: Final = 2.0


@compiled
def tick(s: State, now: int) -> None:
    """Control of every device; slots and readings that end now are handed out."""
    for device in range(s.devices.size):
        settle(s, device, now)
        _control(s, device)
        if now % s.meta[SLOT_NS] == 0:
            _close_slot(s, device, now)
        if now % s.meta[READING_NS] == 0:
            _close_reading(s, device, now)


@compiled
def _control(s: State, device: int) -> None:
    d = s.devices[device]
    span = s.meta[TICK_NS]
    ratio = d.mhz / d.full_mhz
    # Work is counted in ns at full clock: busy for work / φ, hence φ² here where the formula has φ³.
    dynamic = (d.tick_matrix * d.matrix_w + d.tick_vector * d.vector_w) / span * ratio * ratio
    d.power = d.idle_w + dynamic + d.tick_hbm / span * d.hbm_w
    d.tick_matrix = 0.0
    d.tick_vector = 0.0
    d.tick_hbm = 0.0
    d.celsius += (d.inlet + d.c_per_w * d.power - d.celsius) * d.alpha
    s.tick[device, ENERGY_J] += d.power * span * 1e-9
    mhz = d.mhz
    if d.power > d.max_w or d.celsius > d.throttle_c:
        over = max(0.0, d.power / d.max_w - 1.0)
        mhz -= d.step_mhz * (1 + int(over * 16.0))
    elif d.power < RISE_BELOW * d.max_w and d.celsius < d.throttle_c - HYSTERESIS_C:
        mhz += d.step_mhz
    _set_clock(s, device, mhz)


@compiled
def _set_clock(s: State, device: int, mhz: int) -> None:
    d = s.devices[device]
    mhz = max(min(mhz, d.full_mhz, d.cap_mhz), min(d.min_mhz, d.cap_mhz))
    if mhz != d.mhz:
        d.mhz = mhz
        mark_device(s, device)


@compiled
def cap_clock(s: State, device: int, mhz: int, now: int) -> None:
    """From now on the clock stays at or below ``mhz``; it falls at once and rises by steps."""
    settle(s, device, now)
    s.devices[device].cap_mhz = mhz
    _set_clock(s, device, s.devices[device].mhz)


@compiled
def _close_slot(s: State, device: int, now: int) -> None:
    """Whole ns by largest remainders (of equal ones the first cause), so that a slot sums exactly to its length."""
    row = s.slot_out[s.meta[SLOT_ROWS]]
    s.meta[SLOT_ROWS] += 1
    row[0] = now - s.meta[SLOT_NS]
    row[1] = device
    charged = s.charged[device]
    missing = s.meta[SLOT_NS]
    for cause in range(CAUSE_COUNT):
        row[2 + cause] = math.floor(charged[cause])
        missing -= row[2 + cause]
        charged[cause] -= row[2 + cause]
    step = 1 if missing > 0 else -1
    while missing != 0:
        best = -1
        for cause in range(CAUSE_COUNT):
            if row[2 + cause] + step >= 0 and (best < 0 or charged[cause] * step > charged[best] * step):
                best = cause
        row[2 + best] += step
        charged[best] -= step
        missing -= step
    for cause in range(CAUSE_COUNT):
        charged[cause] = 0.0


@compiled
def _close_reading(s: State, device: int, now: int) -> None:
    """Values at ``now`` of clock, power and temperature; sums over the period of all else."""
    d = s.devices[device]
    row = s.reading_out[s.meta[READING_ROWS]]
    s.meta[READING_ROWS] += 1
    row[0] = now
    row[1] = device
    for value in range(SERIES_COUNT):
        row[2 + value] = s.tick[device, value]
        s.tick[device, value] = 0.0
    row[2 + CLOCK_MHZ] = d.mhz
    row[2 + POWER_W] = row[2 + ENERGY_J] * 1e9 / s.meta[READING_NS]
    row[2 + TEMPERATURE_C] = d.celsius
