"""Small random worlds and programs, and helpers to run them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.causes import CODE
from simulator.engine import Change, Device, Group, HostSlow, Program, Records, World, WorldSpec, program
from simulator.engine.program import (
    BLOCKING,
    COLLECTIVE,
    COPY_IN,
    COPY_OUT,
    LAUNCH,
    MATRIX_TRACK,
    REMOTE_NUMA,
    SYNC,
    WAIT,
    WORK,
)

Plan = list[tuple[Program, int, int]]
"""(program, start ns, demand ns) of one rank, one after the other."""


def random_world(rng: np.random.Generator) -> tuple[WorldSpec, list[Plan]]:
    """A world of 1–4 devices under two switches with one or two groups, changes and slow hosts, and plans for it."""
    ranks = int(rng.integers(1, 5))
    links = [*rng.choice([5.0, 8.0, 10.0], size=2 * ranks), *rng.choice([6.0, 12.0, 20.0], size=5)]
    host, socket = 2 * ranks + 4, 2 * ranks + 2
    devices = tuple(_device(rng, rank, 2 * ranks + rank % 2, host, socket) for rank in range(ranks))
    groups = [Group(tuple(range(ranks)), path=(2 * ranks + 3,), cap=float(rng.choice([4.0, np.inf])))]
    if ranks > 2:
        groups.append(Group((0, 2), path=(2 * ranks + 3, 0)))
    spec = WorldSpec(devices, tuple(links), tuple(groups), _changes(rng, ranks, len(links)), _slow(rng, ranks),
                     seed=int(rng.integers(1 << 40)), tick_ns=5_000, reading_ns=20_000, slot_ns=20_000)
    meetings = [int(group) for group in rng.integers(0, len(groups), size=6)]
    return spec, [_plan(rng, rank, [g for g in meetings if rank in groups[g].members], meetings)
                  for rank in range(ranks)]


def _device(rng: np.random.Generator, rank: int, uplink: int, host: int, socket: int) -> Device:
    return Device(
        copy_in=(2 * rank, uplink, host), copy_out=(2 * rank + 1, host),
        copy_in_remote=(2 * rank, uplink, socket, host),
        copy_in_cap=float(rng.choice([3.0, 7.0, np.inf])), copy_out_remote_cap=2.5,
        launch_latency_ns=int(rng.integers(0, 900)), launch_noise_ns=int(rng.choice([0, 300])),
        queue_depth=int(rng.integers(1, 5)), hbm_bytes_per_ns=float(rng.choice([9.0, 40.0, 2_000.0])),
        full_mhz=1_600, min_mhz=400, idle_w=20.0, max_w=float(rng.choice([107.3, 1_000.0])), matrix_w=150.0,
        vector_w=60.0, hbm_w=50.0, thermal_c_per_w=0.5, thermal_s=30e-6, throttle_c=float(rng.choice([70.0, 500.0])))


def _changes(rng: np.random.Generator, ranks: int, links: int) -> tuple[Change, ...]:
    changes = []
    for _ in range(int(rng.integers(0, 8))):
        at = int(rng.integers(0, 60_000))
        what = str(rng.choice(["link", "clock_cap", "slowness", "power_limit", "inlet"]))
        value = {"link": float(rng.choice([0.0, 2.0, 10.0])), "clock_cap": float(rng.choice([300, 800, 1_600])),
                 "slowness": float(rng.choice([1.0, 1.5])), "power_limit": float(rng.choice([61.7, 151.9])),
                 "inlet": float(rng.choice([10.0, 60.0]))}[what]
        index = int(rng.integers(0, links if what == "link" else ranks))
        changes.append(Change(at, what, index, value))  # type: ignore[arg-type]
        if value == 0.0:
            changes.append(Change(at + 5_000, "link", index, 7.0))
    return tuple(changes)


def _slow(rng: np.random.Generator, ranks: int) -> tuple[HostSlow, ...]:
    slow = []
    for rank in range(ranks):
        at = 0
        for _ in range(int(rng.integers(0, 4))):
            start = at + int(rng.integers(0, 20_000))
            at = start + int(rng.integers(1, 15_000))
            slow.append(HostSlow(rank, start, at, float(rng.choice([1.0, 1.7, 4.0]))))
    return tuple(slow)


def _plan(rng: np.random.Generator, rank: int, mine: list[int], meetings: list[int]) -> Plan:
    """Programs in which collectives keep their order; the k-th meeting of a group has number k."""
    plan: Plan = []
    seen: dict[int, int] = {}
    ahead = list(mine)
    programs = int(rng.integers(1, 4))
    for index in range(programs):
        last = index == programs - 1
        count = int(rng.integers(1, 40))
        calls = [_call(rng, i) for i in range(count)]
        for group in ahead if last else ahead[:2]:
            calls.append(_collective(rng, group, seen.setdefault(group, 0)))
            seen[group] += 1
        ahead = [] if last else ahead[2:]
        _waits(rng, calls)
        start = int(rng.integers(0, 50_000))
        plan.append((columns(calls), start, start - int(rng.integers(0, 5_000))))
    return plan


def _call(rng: np.random.Generator, name: int) -> dict[str, float]:
    kind = int(rng.choice([LAUNCH, LAUNCH, LAUNCH, LAUNCH, SYNC, WORK, WAIT]))
    call = int(rng.integers(0, 600))
    row: dict[str, float] = {
        "kind": kind, "gap_ns": int(rng.choice([0, 100, 2_000])), "call_ns": call,
        "driver_ns": int(rng.integers(0, call + 1)), "api": int(rng.integers(-1, 3)), "name": name,
        "cause": CODE[str(rng.choice(["host_launch", "host_input", "host_pageable"]))],
        "request": int(rng.integers(-1, 5)), "queue": -1}
    if kind != LAUNCH:
        return row
    queue = int(rng.integers(0, 4))
    flags = BLOCKING * int(rng.integers(0, 8) == 0) + REMOTE_NUMA * int(rng.integers(0, 3) == 0)
    row |= {"queue": queue, "flags": flags + MATRIX_TRACK * int(queue == 0),
            "fixed_ns": float(rng.choice([0, 50, 333.3])), "bytes": int(rng.integers(0, 9_999)),
            "flops": int(rng.integers(0, 9_999))}
    if queue in (COPY_IN, COPY_OUT):
        return row | {"link_bytes": int(rng.choice([0, 64, 5_000, 40_000]))}
    used = rng.integers(0, 2, size=6) * rng.choice([100.0, 777.7, 3_000.0], size=6)
    names = ("matrix_ns", "vector_ns", "sram_ns", "noc_ns", "hbm_ns", "spill_ns")
    return row | dict(zip(names, map(float, used), strict=True)) | {"conflict": float(rng.choice([1.0, 2.5]))}


def _collective(rng: np.random.Generator, group: int, sequence: int) -> dict[str, float]:
    return {"kind": LAUNCH, "gap_ns": 100, "call_ns": 200, "driver_ns": 50, "api": 1, "name": 50, "queue": COLLECTIVE,
            "cause": CODE["host_launch"], "communicator": group, "sequence": sequence, "request": -1,
            "link_bytes": int(rng.choice([0, 3_000, 20_000])), "fixed_ns": float(rng.choice([0, 400]))}


def _waits(rng: np.random.Generator, calls: list[dict[str, float]]) -> None:
    """Let some ops and every WAIT name an earlier op; a WAIT without one is work."""
    launched: list[int] = []
    for index, call in enumerate(calls):
        if call["kind"] == WAIT and not launched:
            call["kind"] = WORK
        if call["kind"] == WAIT or (call["kind"] == LAUNCH and launched and rng.integers(0, 3) == 0):
            call["wait"] = int(rng.choice(launched))
        if call["kind"] == LAUNCH:
            launched.append(index)


def columns(calls: Sequence[dict[str, float]]) -> Program:
    """A program of calls given as rows; what a row leaves out is neutral."""
    neutral: dict[str, float] = {"kind": LAUNCH, "gap_ns": 0, "call_ns": 0, "driver_ns": 0, "flags": 0, "conflict": 1.0,
                                 "link_bytes": 0, "cause": CODE["host_launch"]}
    floats = {"matrix_ns", "vector_ns", "sram_ns", "noc_ns", "hbm_ns", "spill_ns", "fixed_ns", "conflict"}
    names = sorted({name for call in calls for name in call} | {"cause"})
    return program(len(calls), **{
        name: np.array([call.get(name, neutral.get(name, 0.0 if name in floats else -1)) for call in calls])
        for name in names})


def run(world: World, plans: list[Plan], until_ns: int, every_ns: int | None = None) -> None:
    """Run to ``until_ns``, at once or in steps, giving each rank its next program as it asks for one."""
    ahead = [list(plan) for plan in plans]
    steps = [0] * len(plans)
    for at in [*range(every_ns, until_ns, every_ns), until_ns] if every_ns else [until_ns]:
        while idle := world.run(at):
            for rank, _ in idle:
                if ahead[rank]:
                    steps[rank] += 1
                    following, start, demand = ahead[rank].pop(0)
                    world.load(rank, following, start, steps[rank], demand_ns=demand)


def rows(spans: object) -> list[tuple[int, ...]]:
    """Spans as sorted rows."""
    return sorted(zip(*(getattr(spans, name).tolist() for name in spans.__slots__), strict=True))  # type: ignore[attr-defined]


def causes(records: Records) -> dict[tuple[int, int, int], int]:
    """(slot's start, device, cause) → ns, without zeros."""
    slots = records.slots
    return {(int(slots.start[row]), int(slots.device[row]), int(cause)): int(slots.ns[row, cause])
            for row, cause in zip(*np.nonzero(slots.ns), strict=True)}
