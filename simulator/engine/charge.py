"""Where a device's time goes: one cause for every ns, and what the counters of the device will have seen.

`settle` charges the time since the last call under the conditions that held until now: call it before they change.
Precedence: kernel (of two, the one that started first), exposed collective, exposed copy (first started), idle.
"""

from __future__ import annotations

from typing import Any, Final

from simulator.causes import CODE
from simulator.engine.layout import (
    BUSY,
    FABRIC_BYTES,
    FASTEST,
    FIXED,
    FLOP,
    HBM_BYTES,
    HBM_NS,
    IN_BYTES,
    MATRIX_NS,
    MEETING,
    MOVING,
    NOC_NS,
    OUT_BYTES,
    PENDING,
    SPILL_NS,
    SRAM_NS,
    STRIDE,
    THROTTLED_NS,
    VECTOR_NS,
    State,
    compiled,
)
from simulator.engine.program import COLLECTIVE, COMPUTE, COPY_IN, QUEUES
from simulator.engine.shares import overlapped_ns

_MATRIX: Final = CODE["compute_matrix"]
_VECTOR: Final = CODE["compute_vector"]
_MEMORY: Final = CODE["memory_bandwidth"]
_SRAM: Final = CODE["on_chip_memory"]
_NOC: Final = CODE["interconnect"]
_LATENCY: Final = CODE["latency"]
_THROTTLED: Final = CODE["throttled"]
_CONFLICT: Final = CODE["bank_conflict"]
_SPILL: Final = CODE["spill"]
_STALL: Final = CODE["dma_stall"]
_NETWORK: Final = CODE["collective_network"]
_PEERS: Final = CODE["collective_wait"]
_H2D: Final = CODE["pcie_h2d_bandwidth"]
_D2H: Final = CODE["pcie_d2h_bandwidth"]
_SMALL: Final = CODE["pcie_small"]
_QUEUEING: Final = CODE["pcie_queueing"]
_CONTENTION: Final = CODE["host_contention"]
_LAUNCH: Final = CODE["launch_overhead"]
_NO_DEMAND: Final = CODE["no_demand"]


@compiled
def settle(s: State, device: int, now: int) -> None:
    """Charge [last call, ``now``) of a device and add the progress of its work to the series."""
    d = s.devices[device]
    span = now - d.settled
    if span <= 0:
        return
    d.settled = now
    if d.mhz < d.full_mhz:
        s.tick[device, THROTTLED_NS] += span
    if d.running == 0:
        _charge_idle(s, device, span)
        return
    for queue in range(QUEUES):
        lane = s.lanes[device * QUEUES + queue]
        if lane.state >= MEETING:
            s.tick[device, BUSY + queue] += span
            if lane.state == MOVING:
                account(s, device, queue, lane.rate * span)
    _charge_busy(s, device, span)


@compiled
def account(s: State, device: int, queue: int, progress: float) -> None:
    """Add ``progress`` of a lane's head (part of a kernel, bytes of a copy or collective) to the series."""
    d = s.devices[device]
    lane = s.lanes[device * QUEUES + queue]
    series = s.tick[device]
    if queue < COPY_IN:
        op = s.ops[(device * QUEUES + queue) * s.meta[STRIDE] + lane.head % d.depth]
        stretch = d.full_mhz / d.mhz
        series[MATRIX_NS] += progress * op.matrix * stretch
        series[VECTOR_NS] += progress * op.vector * stretch
        series[SRAM_NS] += progress * op.sram * op.conflict * stretch
        series[NOC_NS] += progress * op.noc
        series[HBM_NS] += progress * op.hbm
        series[SPILL_NS] += progress * op.spill
        series[FLOP] += progress * max(op.flops, 0)
        series[HBM_BYTES] += progress * max(op.bytes, 0)
        d.tick_matrix += progress * op.matrix
        d.tick_vector += progress * op.vector
        d.tick_hbm += progress * (op.hbm + op.spill)
    elif queue == COLLECTIVE:
        series[FABRIC_BYTES] += progress
        d.tick_hbm += progress * d.collective_hbm / d.hbm_rate
    else:
        series[IN_BYTES if queue == COPY_IN else OUT_BYTES] += progress
        d.tick_hbm += progress * d.copy_hbm / d.hbm_rate


@compiled
def _charge_idle(s: State, device: int, span: int) -> None:
    """Submitted work on its way, else what the host's thread does, else nobody asked."""
    thread = s.threads[device]
    charged = s.charged[device]
    if s.devices[device].pending > 0:
        charged[_LAUNCH] += span
    elif thread.state <= PENDING:
        charged[_NO_DEMAND] += span
    else:
        contention = span * thread.contention
        charged[_CONTENTION] += contention
        charged[thread.cause] += span - contention


@compiled
def _charge_busy(s: State, device: int, span: int) -> None:
    base = device * QUEUES
    charged = s.charged[device]
    queue = _first(s, base, int(COMPUTE))
    if queue >= 0:
        if s.lanes[base + queue].state == MOVING:
            _charge_kernel(s, device, queue, span)
        else:
            charged[_LATENCY] += span
        return
    state = s.lanes[base + COLLECTIVE].state
    if state >= MEETING:
        charged[_PEERS if state == MEETING else _NETWORK] += span
        return
    queue = _first(s, base, int(COPY_IN))
    if s.lanes[base + queue].state == MOVING:
        _charge_copy(s, device, queue, span)
    else:
        charged[_SMALL] += span


@compiled
def _first(s: State, base: int, one: int) -> int:
    """Of this queue and the next the one whose head started first (then the first); −1: neither runs."""
    two = one + 1
    a, b = s.lanes[base + one], s.lanes[base + two]
    if a.state < FIXED:
        return two if b.state >= FIXED else -1
    return two if b.state >= FIXED and b.start < a.start else one


@compiled
def _charge_kernel(s: State, device: int, queue: int, span: int) -> None:
    """Split by counterfactuals: a cause took what its absence alone would save.

    Savings that together exceed what was lost are scaled to it; what none explains is latency.
    """
    d = s.devices[device]
    lane = s.lanes[device * QUEUES + queue]
    op = s.ops[(device * QUEUES + queue) * s.meta[STRIDE] + lane.head % d.depth]
    base, cause = _largest(op)
    stretch = d.full_mhz / d.mhz
    memory = (op.hbm + op.spill) / lane.share
    throttled = lane.pace - _pace(d, op, 1.0, op.conflict, memory) if stretch > 1.0 else 0.0
    conflict = lane.pace - _pace(d, op, stretch, 1.0, memory) if op.conflict > 1.0 else 0.0
    spill = lane.pace - _pace(d, op, stretch, op.conflict, op.hbm / lane.share) if op.spill > 0.0 else 0.0
    stall = lane.pace - _pace(d, op, stretch, op.conflict, op.hbm + op.spill) if lane.share < 1.0 else 0.0
    saved = throttled + conflict + spill + stall
    lost = lane.pace - base
    part = span / lane.pace
    scale = part * lost / saved if saved > lost else part
    charged = s.charged[device]
    charged[cause] += base * part
    charged[_THROTTLED] += throttled * scale
    charged[_CONFLICT] += conflict * scale
    charged[_SPILL] += spill * scale
    charged[_STALL] += stall * scale
    charged[_LATENCY] += max(0.0, lost * part - saved * scale)


@compiled
def _pace(d: Any, op: Any, stretch: float, conflict: float, memory: float) -> float:
    slowness: float = d.slowness
    return slowness * overlapped_ns(op.matrix * stretch, op.vector * stretch, op.sram * conflict * stretch, op.noc,
                                    memory)


@compiled
def _largest(op: Any) -> tuple[float, int]:
    """The longest time on one resource alone at full clock, and its cause."""
    base, cause = op.matrix, _MATRIX
    if op.vector > base:
        base, cause = op.vector, _VECTOR
    if op.hbm > base:
        base, cause = op.hbm, _MEMORY
    if op.sram > base:
        base, cause = op.sram, _SRAM
    if op.noc > base:
        base, cause = op.noc, _NOC
    return base, cause


@compiled
def _charge_copy(s: State, device: int, queue: int, span: int) -> None:
    """Bytes at the narrowest link of the path as negotiated now; tags' limit is small; sharing is queueing."""
    lane = s.lanes[device * QUEUES + queue]
    flow = s.flows[lane.flow]
    ceiling = FASTEST
    for i in range(flow.first, flow.last):
        ceiling = min(ceiling, s.links[s.flow_links[i]].capacity)
    sole = min(ceiling, flow.cap)
    charged = s.charged[device]
    bandwidth = span * min(1.0, lane.rate / ceiling) if ceiling > 0.0 else float(span)
    alone = max(bandwidth, span * min(1.0, lane.rate / sole)) if sole > 0.0 else bandwidth
    charged[_H2D if queue == COPY_IN else _D2H] += bandwidth
    charged[_SMALL] += alone - bandwidth
    charged[_QUEUEING] += span - alone
