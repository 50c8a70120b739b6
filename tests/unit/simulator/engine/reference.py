"""A slow literal simulator with the rules of `simulator.engine`, written from their description, to compare with.

No agenda, no components, nothing incremental: at every instant it tries everything until nothing changes, computes all
rates anew and goes on to the next instant at which anything can happen.
"""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass, field

from simulator.causes import NAMES
from simulator.engine.program import (
    BLOCKING,
    COLLECTIVE,
    COLUMNS,
    COMPUTE,
    COPY_IN,
    COPY_OUT,
    LAUNCH,
    QUEUES,
    REMOTE_NUMA,
    SYNC,
    VECTOR,
    WAIT,
    WORK,
    Program,
)
from simulator.engine.spec import Device, WorldSpec

INF = math.inf


def up(ns: float) -> int:
    return math.ceil(ns - 1e-6)


def norm(*times: float) -> float:
    squares = [t * t for t in times]
    total = 0.0
    for square in squares:
        total += square * square
    return math.sqrt(math.sqrt(total))


@dataclass(eq=False)
class Op:
    arrival: int
    row: dict
    ident: int
    step: int
    queue: int
    waits_for: Op | None
    start: int = -1
    moving_from: int = -1
    moving: bool = False
    meeting: bool = False
    anchor: int = 0
    remaining: float = 0.0
    rate: float = 0.0
    pace: float = 1.0
    share: float = 1.0
    demand: float = 0.0
    grant: float = 0.0
    net: float = 0.0
    done: bool = False

    def end(self) -> float:
        return INF if self.rate <= 0 else self.anchor + max(up(self.remaining / self.rate), 0)

    def work(self) -> bool:
        if self.queue < COPY_IN:
            return sum(self.row[k] for k in ("matrix_ns", "vector_ns", "sram_ns", "noc_ns", "hbm_ns", "spill_ns")) > 0
        return self.row["link_bytes"] > 0


@dataclass(eq=False)
class Rank:
    device: Device
    queues: list[list[Op]] = field(default_factory=lambda: [[] for _ in range(QUEUES)])
    last_arrival: list[int] = field(default_factory=lambda: [0] * QUEUES)
    rows: list[dict] = field(default_factory=list)
    pc: int = 0
    ops: dict[int, Op] = field(default_factory=dict)
    base: int = 0
    next_id: int = 0
    step: int = 0
    phase: str = "idle"
    until: float = INF
    call_start: int = 0
    driver_start: int = 0
    cause: str = "no_demand"
    contention: float = 0.0
    mhz: int = 0
    cap: int = 0
    slowness: float = 1.0
    celsius: float = 0.0
    max_w: float = 0.0
    inlet_c: float = 0.0
    tick: dict = field(default_factory=lambda: defaultdict(float))


def draw(seed: int, rank: int, number: int) -> int:
    mask, golden = (1 << 64) - 1, 0x9E3779B97F4A7C15
    x = (seed + (rank + 1) * golden) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 + number * golden) & mask
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & mask
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & mask
    return (x ^ (x >> 31)) >> 1


def max_min(flows: list[tuple[tuple[int, ...], float]], capacity: list[float]) -> list[float]:
    """Progressive filling of all flows at once: (links, cap) of each → its rate."""
    rates: list[float | None] = [None] * len(flows)
    left = list(capacity)
    while None in rates:
        users = [sum(link in flows[f][0] for f in range(len(flows)) if rates[f] is None)
                 for link in range(len(capacity))]
        bound = [min([min(cap, 1e12), *(left[link] / users[link] for link in path)]) if rates[f] is None else INF
                 for f, (path, cap) in enumerate(flows)]
        level = max(min(1e12, *bound, 1e12), 0.0)
        for f in [f for f in range(len(flows)) if rates[f] is None and bound[f] <= level]:
            rates[f] = level
            for link in flows[f][0]:
                left[link] -= level
    return [rate for rate in rates if rate is not None]


class Reference:
    """Runs ``plans[rank]``: a list of (program, start ns, demand ns), each begun when the one before it has ended."""

    def __init__(self, spec: WorldSpec, plans: list[list[tuple[Program, int, int]]]) -> None:
        self.spec, self.plans = spec, [list(plan) for plan in plans]
        self.ranks = [Rank(device, mhz=device.full_mhz, cap=device.full_mhz, celsius=device.inlet_c,
                           max_w=device.max_w, inlet_c=device.inlet_c)
                      for device in spec.devices]
        self.capacity = list(spec.links)
        self.now = 0
        self.met: dict[int, list[tuple[Rank, Op]]] = {g: [] for g in range(len(spec.groups))}
        self.group_until: dict[int, float] = {}
        self.group: dict[int, Op] = {}
        self.host: list[tuple] = []
        self.device: list[tuple] = []
        self.charged: dict = defaultdict(float)
        self.changes = sorted(spec.changes, key=lambda change: change.at_ns)
        self.next_tick = spec.tick_ns

    def run(self, until: int) -> None:
        while True:
            while any([self._thread(r) for r in range(len(self.ranks))] + [self._queues(r) for r in self.ranks]
                      + [self._group(g) for g in self.met] + [self._physical()]):
                pass
            self._rates()
            if self._load():
                continue
            following = self._next()
            if following <= self.now:
                continue
            upto = min(following, until)
            self._pass(upto)
            self.now = upto
            if following >= until:
                return

    # Host threads

    def _load(self) -> bool:
        loaded = False
        for index, rank in enumerate(self.ranks):
            if rank.phase == "idle" and self.plans[index]:
                program, at, demand = self.plans[index].pop(0)
                columns = {name: getattr(program, name).tolist() for name in COLUMNS}
                rank.rows = [{k: v[i] for k, v in columns.items()} for i in range(len(program))]
                rank.pc, rank.ops, rank.step = 0, {}, rank.step + 1
                rank.base, rank.next_id = rank.next_id, rank.next_id + len(program)
                rank.call_start = max(at, self.now)
                rank.phase, rank.until = "pending", min(rank.call_start, max(demand, self.now))
                loaded = True
        return loaded

    def _later(self, index: int, at: int, work: float) -> int:
        slow = sorted((s for s in self.spec.host_slow if s.rank == index and s.end_ns > at), key=lambda s: s.start_ns)
        if not slow or work == 0:
            return at + int(work)
        for s in slow:
            if at < s.start_ns:
                if work <= s.start_ns - at:
                    break
                work, at = work - (s.start_ns - at), s.start_ns
            room = (s.end_ns - at) / s.factor
            if work <= room:
                return at + up(work * s.factor)
            work, at = work - room, s.end_ns
        return at + up(work)

    def _thread(self, index: int) -> bool:
        rank = self.ranks[index]
        row = rank.rows[rank.pc] if rank.pc < len(rank.rows) else {}
        due = self.now >= rank.until
        if rank.phase == "pending" and due:
            rank.phase, rank.until, rank.cause, rank.contention = "ready", rank.call_start, "host_launch", 0.0
        elif rank.phase == "ready" and due:
            self._begin(index)
        elif rank.phase == "gate" and due and self._room(rank, row):
            rank.driver_start = self.now
            rank.phase, rank.until = "call", self._later(index, self.now, row["driver_ns"])
            self._contend(rank, row["driver_ns"])
        elif rank.phase == "call" and due:
            if row["kind"] == LAUNCH:
                self._submit(index, row)
            rank.phase, rank.until = "return", self.now
        elif rank.phase == "return" and self._may_return(rank, row):
            if row["api"] >= 0:
                launch = row["kind"] == LAUNCH
                self.host.append((rank.call_start, self.now, index, 2 if row["kind"] == WORK else 0, row["api"],
                                  rank.base + rank.pc if launch else -1, rank.step, row["request"]))
            rank.pc += 1
            self._begin(index)
        else:
            return False
        return True

    def _room(self, rank: Rank, row: dict) -> bool:
        return len(rank.queues[row["queue"]]) < rank.device.queue_depth

    def _may_return(self, rank: Rank, row: dict) -> bool:
        if row["kind"] == SYNC:
            return not any(rank.queues)
        if row["kind"] == WAIT:
            return rank.ops[row["wait"]].done
        return not (row["kind"] == LAUNCH and row["flags"] & BLOCKING) or rank.ops[rank.pc].done

    def _begin(self, index: int) -> None:
        rank = self.ranks[index]
        if rank.pc == len(rank.rows):
            rank.phase, rank.until, rank.cause = "idle", INF, "no_demand"
            return
        row = rank.rows[rank.pc]
        rank.cause = NAMES[row["cause"]]
        rank.call_start = self._later(index, self.now, row["gap_ns"])
        rank.driver_start = self._later(index, rank.call_start, row["call_ns"] - row["driver_ns"])
        if row["kind"] == LAUNCH and not self._room(rank, row):
            rank.phase, rank.until = "gate", rank.driver_start
            self._contend(rank, row["gap_ns"] + row["call_ns"] - row["driver_ns"])
        else:
            rank.phase, rank.until = "call", self._later(index, rank.driver_start, row["driver_ns"])
            self._contend(rank, row["gap_ns"] + row["call_ns"])

    def _contend(self, rank: Rank, work: int) -> None:
        took = rank.until - self.now
        rank.contention = 1 - work / took if took > work else 0.0

    def _submit(self, index: int, row: dict) -> None:
        rank = self.ranks[index]
        ident = rank.base + rank.pc
        if row["driver_ns"] > 0:
            self.host.append((rank.driver_start, self.now, index, 1, -1, ident, rank.step, row["request"]))
        noise = rank.device.launch_noise_ns
        arrival = self.now + rank.device.launch_latency_ns
        arrival += draw(self.spec.seed, index, ident) % (noise + 1) if noise else 0
        queue = row["queue"]
        arrival = rank.last_arrival[queue] = max(arrival, rank.last_arrival[queue])
        waits_for = rank.ops[row["wait"]] if row["wait"] >= 0 else None
        op = Op(arrival, row, ident, rank.step, queue, waits_for)
        rank.ops[rank.pc] = op
        rank.queues[queue].append(op)

    # Queues and collectives

    def _queues(self, rank: Rank) -> bool:
        changed = False
        for queue in range(QUEUES):
            if not rank.queues[queue]:
                continue
            op = rank.queues[queue][0]
            if op.start < 0:
                if op.arrival <= self.now and (op.waits_for is None or op.waits_for.done):
                    self._start(rank, op)
                    changed = True
            elif queue != COLLECTIVE and not op.moving and self.now >= op.moving_from:
                changed = True
                if op.work():
                    self._move(op, 1.0 if queue < COPY_IN else float(op.row["link_bytes"]))
                else:
                    self._finish(rank, op)
            elif queue != COLLECTIVE and op.moving and self.now >= op.end():
                self._finish(rank, op)
                changed = True
        return changed

    def _start(self, rank: Rank, op: Op) -> None:
        op.start = self.now
        if op.queue == COLLECTIVE:
            op.meeting = True
            self.met[op.row["communicator"]].append((rank, op))
        else:
            fixed = up(op.row["fixed_ns"])
            op.moving_from = self.now + (fixed if op.work() else max(fixed, 1))

    def _move(self, op: Op, amount: float) -> None:
        op.moving, op.anchor, op.remaining, op.rate, op.share = True, self.now, amount, 0.0, 1.0

    def _finish(self, rank: Rank, op: Op) -> None:
        if op.moving:  # the end is rounded up: take back what the last ns counted too much
            self._energy(rank, op.queue, op, min(0.0, op.remaining - (self.now - op.anchor) * op.rate))
        op.done = True
        rank.queues[op.queue].pop(0)
        row = op.row
        self.device.append((op.start, self.now, self.ranks.index(rank), op.queue, row["flags"], row["name"], op.ident,
                            op.waits_for.ident if op.waits_for else -1, row["bytes"], row["flops"],
                            row["communicator"], row["sequence"], op.step, row["request"]))

    def _group(self, g: int) -> bool:
        members = self.met[g]
        if len(members) < len(self.spec.groups[g].members):
            return False
        amount = float(max(op.row["link_bytes"] for _, op in members))
        shared = members[0][1]
        if g not in self.group_until:
            fixed = up(max(op.row["fixed_ns"] for _, op in members))
            self.group_until[g] = self.now + (fixed if amount else max(fixed, 1))
            for _, op in members:
                op.meeting = False
        elif not shared.moving and amount and self.now >= self.group_until[g]:
            for _, op in members:
                self._move(op, amount)
        elif self.now >= (shared.end() if shared.moving else self.group_until[g]):
            for rank, op in members:
                self._finish(rank, op)
            self.met[g] = []
            del self.group_until[g]
        else:
            return False
        return True

    # Rates

    def _flow(self, rank: Rank, op: Op) -> tuple[tuple[int, ...], float]:
        d = rank.device
        far = op.row["flags"] & REMOTE_NUMA
        if op.queue == COLLECTIVE:
            group = self.spec.groups[op.row["communicator"]]
            return group.path, group.cap
        near_path, far_path, near_cap, far_cap = (
            (d.copy_in, d.copy_in_remote, d.copy_in_cap, d.copy_in_remote_cap) if op.queue == COPY_IN else
            (d.copy_out, d.copy_out_remote, d.copy_out_cap, d.copy_out_remote_cap))
        if not far:
            return near_path, near_cap
        return near_path if far_path is None else far_path, min(near_cap, far_cap)

    def _moving(self, rank: Rank) -> dict[int, Op]:
        return {queue: ops[0] for queue, ops in enumerate(rank.queues) if ops and ops[0].moving}

    def _kernel_ns(self, rank: Rank, op: Op, share: float, stretch: float | None = None, conflict: float | None = None,
                   spill: float | None = None) -> float:
        stretch = rank.device.full_mhz / rank.mhz if stretch is None else stretch
        conflict = op.row["conflict"] if conflict is None else conflict
        spill = op.row["spill_ns"] if spill is None else spill
        return rank.slowness * norm(op.row["matrix_ns"] * stretch, op.row["vector_ns"] * stretch,
                                    op.row["sram_ns"] * conflict * stretch, op.row["noc_ns"],
                                    (op.row["hbm_ns"] + spill) / share)

    def _rates(self) -> None:
        users: list[tuple[list[tuple[Rank, Op]], tuple[tuple[int, ...], float]]] = []
        for rank in self.ranks:
            users += [([(rank, op)], self._flow(rank, op)) for queue, op in self._moving(rank).items()
                      if COPY_IN <= queue < COLLECTIVE]
        for members in self.met.values():
            if members and members[0][1].moving:
                users.append((members, self._flow(*members[0])))
        for (members, _), net in zip(users, max_min([flow for _, flow in users], self.capacity), strict=True):
            for _, op in members:
                op.net = net
        new: dict[Op, float] = {}
        for rank in self.ranks:
            self._memory(rank, new)
        for members in self.met.values():
            if members and members[0][1].moving:
                slowest = min(1e12, *(new[op] for _, op in members))
                new.update({op: slowest for _, op in members})
        for op, rate in new.items():
            if rate != op.rate:
                op.remaining -= (self.now - op.anchor) * op.rate
                op.anchor, op.rate = self.now, rate

    def _memory(self, rank: Rank, new: dict[Op, float]) -> None:
        moving, d = self._moving(rank), rank.device
        for queue, op in moving.items():
            traffic = d.collective_hbm if queue == COLLECTIVE else d.copy_hbm
            op.demand = (op.row["hbm_ns"] + op.row["spill_ns"]) / self._kernel_ns(rank, op, 1.0) if queue < COPY_IN \
                else op.net * traffic / d.hbm_bytes_per_ns
        open_ops = list(moving.values())
        if sum(op.demand for op in open_ops) > 1.0:
            left, count = 1.0, len(open_ops)
            while True:
                fair = left / count if count else 0.0
                content = [op for op in open_ops if op.demand <= fair]
                if not content:
                    break
                for op in content:
                    op.grant = op.demand
                    left -= op.demand
                    count -= 1
                    open_ops.remove(op)
            for op in open_ops:
                op.grant = left / count
        else:
            for op in open_ops:
                op.grant = op.demand
        for queue, op in moving.items():
            if queue < COPY_IN:
                left = 1.0
                for other in moving.values():
                    left -= 0.0 if other is op else other.grant
                op.share = max(left, op.grant, 1e-9)
                op.pace = self._kernel_ns(rank, op, op.share)
                new[op] = 1.0 / op.pace
            else:
                traffic = d.collective_hbm if queue == COLLECTIVE else d.copy_hbm
                new[op] = op.net if op.grant >= op.demand else op.grant * d.hbm_bytes_per_ns / traffic

    # Time

    def _physical(self) -> bool:
        if self.changes and self.changes[0].at_ns <= self.now:
            change = self.changes.pop(0)
            if change.what == "link":
                self.capacity[change.index] = change.value
            elif change.what == "slowness":
                self.ranks[change.index].slowness = change.value
            elif change.what == "power_limit":
                self.ranks[change.index].max_w = change.value
            elif change.what == "inlet":
                self.ranks[change.index].inlet_c = change.value
            else:
                rank = self.ranks[change.index]
                rank.cap = int(change.value)
                self._clock(rank, rank.mhz)
            return True
        if self.now >= self.next_tick:
            self.next_tick += self.spec.tick_ns
            for rank in self.ranks:
                self._control(rank)
            return True
        return False

    def _control(self, rank: Rank) -> None:
        d, tick, span = rank.device, rank.tick, self.spec.tick_ns
        phi = rank.mhz / d.full_mhz
        power = d.idle_w + (tick["matrix"] * d.matrix_w + tick["vector"] * d.vector_w) / span * phi * phi
        power += tick["hbm"] / span * d.hbm_w
        rank.tick = defaultdict(float)
        rank.celsius += (rank.inlet_c + d.thermal_c_per_w * power - rank.celsius) * (span / (d.thermal_s * 1e9 + span))
        step = max(1, d.full_mhz // 64)
        if power > rank.max_w or rank.celsius > d.throttle_c:
            self._clock(rank, rank.mhz - step * (1 + int(max(0.0, power / rank.max_w - 1.0) * 16.0)))
        elif power < 0.97 * rank.max_w and rank.celsius < d.throttle_c - 2.0:
            self._clock(rank, rank.mhz + step)
        else:
            self._clock(rank, rank.mhz)

    def _clock(self, rank: Rank, mhz: int) -> None:
        rank.mhz = max(min(mhz, rank.device.full_mhz, rank.cap), min(rank.device.min_mhz, rank.cap))

    def _next(self) -> float:
        times: list[float] = [self.next_tick, *(change.at_ns for change in self.changes[:1])]
        for rank in self.ranks:
            if rank.phase in ("pending", "ready", "call", "gate") and rank.until > self.now:
                times.append(rank.until)
            for ops in rank.queues:
                if ops and ops[0].start < 0 and ops[0].arrival > self.now:
                    times.append(ops[0].arrival)
                elif ops and ops[0].moving:
                    times.append(ops[0].end())
                elif ops and ops[0].moving_from > self.now:
                    times.append(ops[0].moving_from)
        times += [until for g, until in self.group_until.items() if not self.met[g][0][1].moving]
        return min(times)

    def _pass(self, upto: float) -> None:
        """Charge [now, upto) of every device."""
        span = int(upto) - self.now
        slot = self.now // self.spec.slot_ns
        assert upto <= (slot + 1) * self.spec.slot_ns
        for index, rank in enumerate(self.ranks):
            for queue, op in self._moving(rank).items():
                self._energy(rank, queue, op, op.rate * span)
            for cause, ns in self._causes(rank, float(span)).items():
                self.charged[slot, index, cause] += ns

    def _energy(self, rank: Rank, queue: int, op: Op, progress: float) -> None:
        d = rank.device
        if queue < COPY_IN:
            rank.tick["matrix"] += progress * op.row["matrix_ns"]
            rank.tick["vector"] += progress * op.row["vector_ns"]
            rank.tick["hbm"] += progress * (op.row["hbm_ns"] + op.row["spill_ns"])
        else:
            rank.tick["hbm"] += progress * (d.collective_hbm if queue == COLLECTIVE else d.copy_hbm) \
                / d.hbm_bytes_per_ns

    def _causes(self, rank: Rank, span: float) -> dict[str, float]:
        running = {queue: ops[0] for queue, ops in enumerate(rank.queues) if ops and ops[0].start >= 0}
        kernels = sorted((op.start, queue) for queue, op in running.items() if queue in (COMPUTE, VECTOR))
        copies = sorted((op.start, queue) for queue, op in running.items() if queue in (COPY_IN, COPY_OUT))
        if kernels:
            op = running[kernels[0][1]]
            return self._kernel_causes(rank, op, span) if op.moving else {"latency": span}
        if COLLECTIVE in running:
            return {"collective_wait" if running[COLLECTIVE].meeting else "collective_network": span}
        if copies:
            op = running[copies[0][1]]
            return self._copy_causes(rank, op, span) if op.moving else {"pcie_small": span}
        if any(rank.queues):
            return {"launch_overhead": span}
        if rank.phase in ("idle", "pending"):
            return {"no_demand": span}
        return _sum([("host_contention", span * rank.contention), (rank.cause, span * (1 - rank.contention))])

    def _kernel_causes(self, rank: Rank, op: Op, span: float) -> dict[str, float]:
        row = op.row
        alone = [(row["matrix_ns"], "compute_matrix"), (row["vector_ns"], "compute_vector"),
                 (row["hbm_ns"], "memory_bandwidth"), (row["sram_ns"], "on_chip_memory"),
                 (row["noc_ns"], "interconnect")]
        base, cause = max(alone, key=lambda pair: pair[0])
        saved = {
            "throttled": op.pace - self._kernel_ns(rank, op, op.share, stretch=1.0),
            "bank_conflict": op.pace - self._kernel_ns(rank, op, op.share, conflict=1.0),
            "spill": op.pace - self._kernel_ns(rank, op, op.share, spill=0.0),
            "dma_stall": op.pace - self._kernel_ns(rank, op, 1.0),
        }
        lost = op.pace - base
        total = sum(saved.values())
        scale = lost / total if total > lost else 1.0
        parts = {name: ns * scale for name, ns in saved.items()}
        parts["latency"] = max(0.0, lost - sum(parts.values()))
        parts[cause] = base
        return {name: ns * span / op.pace for name, ns in parts.items()}

    def _copy_causes(self, rank: Rank, op: Op, span: float) -> dict[str, float]:
        path, cap = self._flow(rank, op)
        ceiling = min([1e12, *(self.capacity[link] for link in path)])
        name = "pcie_h2d_bandwidth" if op.queue == COPY_IN else "pcie_d2h_bandwidth"
        if ceiling == 0:
            return {name: span}
        bandwidth = min(1.0, op.rate / ceiling)
        alone = min(1.0, op.rate / min(ceiling, cap))
        return {name: span * bandwidth, "pcie_small": span * (alone - bandwidth), "pcie_queueing": span * (1 - alone)}


def _sum(parts: list[tuple[str, float]]) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for name, ns in parts:
        total[name] += ns
    return total
