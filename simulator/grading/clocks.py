"""Grades the stored alignment against the true clocks."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fleetscope.store.abstract import Store
from simulator.clocks import NS, RAW, Clock, Ints
from simulator.fleet import FleetConfig
from simulator.segments import UNBOUNDED, fleet_map, integers
from simulator.truth import Truth

Score = dict[str, Any]

SAMPLE_ROWS: Final = 200_000
_GRID: Final = 2_000
_MIX: Final = 7_919
_MAX_PAIRS: Final = 256
_NONE: Final = np.zeros(0, dtype=np.int64)


def device_score(store: Store, truth: Truth, config: FleetConfig) -> Score:
    """Device spans: stored start against the host's own map applied to the host's true reading at the true start.

    So both the error and the bound are those of host to device alone: the bound of the host's map is taken off.
    ``by_class`` has the same figures for each class of device clock, where there are several.
    """
    every = _every(truth)
    producers = _producers(truth)
    true = _true_starts(truth, producers, every)
    parts: dict[str, list[tuple[Ints, Ints]]] = {}
    for index, host in enumerate(config.host_names):
        pieces, clocks = fleet_map(store, host), config.clocks(index)
        for device in clocks.devices:
            keys, starts = true.get((host, device.name), (_NONE, _NONE))
            stored_keys, start_ns, err_ns = _stored(store, host, device.name, producers.get(host, []), every)
            _, here, there = np.intersect1d(keys, stored_keys, return_indices=True)
            mapped = pieces.apply(clocks.raw.read(starts[here]))
            errors = (start_ns[there] - mapped.fleet_ns)[mapped.known]
            bounds = _without(err_ns[there], mapped.err_ns)[mapped.known]
            parts.setdefault(_class(device), []).append((errors, bounds))
    every_class = {name: _summary(*_joined(found)) for name, found in sorted(parts.items())}
    total = _summary(*_joined([part for found in parts.values() for part in found]))
    return {**total, "by_class": every_class} if len(every_class) > 1 else total


def _class(clock: Clock) -> str:
    return (f"{clock.hz / 1e6:g} MHz" + (f", {clock.bits} bit" if clock.bits < 64 else "")
            + (f", {clock.grain} ticks at a time" if clock.grain > 1 else ""))


def _joined(parts: list[tuple[Ints, Ints]]) -> tuple[Ints, Ints]:
    return (np.concatenate([_NONE, *(errors for errors, _ in parts)]),
            np.concatenate([_NONE, *(bounds for _, bounds in parts)]))


def _without(bound: Ints, part: Ints) -> Ints:
    return np.where((bound == UNBOUNDED) | (part == UNBOUNDED), UNBOUNDED, bound - part)


def host_score(store: Store, config: FleetConfig) -> Score:
    """Pairs of hosts: one true time through both maps; the difference against the sum of both bounds."""
    tau = np.linspace(0, config.seconds * NS, _GRID).astype(np.int64)
    maps = [fleet_map(store, host).apply(config.clocks(index).raw.read(tau))
            for index, host in enumerate(config.host_names)]
    errors, bounds = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for one, other in _pairs(config.hosts):
        a, b = maps[one], maps[other]
        known = a.known & b.known
        gap = (a.err_ns == UNBOUNDED) | (b.err_ns == UNBOUNDED)
        errors.append((a.fleet_ns - b.fleet_ns)[known])
        bounds.append(np.where(gap, UNBOUNDED, a.err_ns + b.err_ns)[known])
    return _summary(np.concatenate(errors), np.concatenate(bounds))


def loop_score(store: Store, config: FleetConfig) -> Score | None:
    """Loops of three hosts and fleet time: how far a time is off when it comes back; None for fewer hosts.

    A reading of the first host goes to fleet time by its map, to a reading of the second by that one's map backwards,
    and so on round. The stored maps all lead to one fleet time, so that a loop closes up to rounding unless the pieces
    of a map overlap or jump; the bound is twice the sum of the three.
    """
    if config.hosts < 3:
        return None
    tau = np.linspace(0, config.seconds * NS, _GRID).astype(np.int64)
    maps = [fleet_map(store, host) for host in config.host_names]
    errors, bounds = [], []
    for first in range(min(config.hosts, _MAX_PAIRS)):
        ring = [maps[(first + step) % config.hosts] for step in range(3)]
        ticks = config.clocks(first).raw.read(tau)
        begin = ring[0].apply(ticks)
        at, bound, known, gap = begin.fleet_ns, 2 * begin.err_ns, begin.known, begin.err_ns == UNBOUNDED
        for step in ring[1:]:
            back, held = step.inverse(at)
            there = step.apply(back)
            at, known = there.fleet_ns, known & held & there.known
            gap |= there.err_ns == UNBOUNDED
            bound = bound + 2 * there.err_ns
        home, held = ring[0].inverse(at)
        errors.append((home - ticks)[known & held])
        bounds.append(np.where(gap, UNBOUNDED, bound)[known & held])
    return _summary(np.concatenate(errors), np.concatenate(bounds))


def inversions(store: Store, config: FleetConfig) -> int:
    """Sampled kernels and transfers that begin before their submission's end by more than both bounds, and that no row
    of `causality_violations` flags."""
    side = ("SELECT host, process_id, correlation_id, {column} AS at_ns, err_ns, producer, epoch, sequence, row "
            "FROM spans WHERE host IN {{hosts:Array(String)}} AND correlation_id % 10 = 0 AND {where}")
    starts = side.format(column="start_ns", where="device IS NOT NULL")
    ends = side.format(column="start_ns + duration_ns", where="track = 'driver'")
    both = ", ".join(f"{table}.{name} AS {table}_{name}" for table in ("work", "submission")
                     for name in ("producer", "epoch", "sequence", "row"))
    flagged = ", ".join(f"{table}_{name}" for table in ("effect", "cause")
                        for name in ("producer", "epoch", "sequence", "row"))
    found = flagged.replace("effect", "work").replace("cause", "submission")
    result = store.query(
        f"SELECT count() AS n FROM (SELECT host, {both} FROM ({starts}) AS work INNER JOIN ({ends}) AS submission "
        "USING (host, process_id, correlation_id) "
        "WHERE work.at_ns + work.err_ns < submission.at_ns - submission.err_ns) "
        f"WHERE (host, {found}) NOT IN (SELECT host, {flagged} FROM causality_violations FINAL "
        "WHERE rule = 'submission')",
        {"hosts": config.host_names})
    return int(result.column("n")[0].as_py())


def _every(truth: Truth) -> int:
    """Take one row in this many, so that a sample stays within SAMPLE_ROWS."""
    spans = truth.tallies.get("spans")
    return max(1, -(-spans.produced // SAMPLE_ROWS)) if spans else 1


def _producers(truth: Truth) -> dict[str, list[tuple[str, int]]]:
    """By host: (producer, epoch) of everything that published spans, in order of name."""
    found: dict[str, set[tuple[str, int]]] = {}
    for batch in truth.starts():
        found.setdefault(batch.host, set()).add((batch.producer, batch.epoch))
    return {host: sorted(names) for host, names in found.items()}


def _chosen(sequence: Ints | int, row: Ints, every: int) -> Ints:
    return np.asarray((sequence * _MIX + row) % every)


def _key(producer: int, sequence: Ints | int, row: Ints) -> Ints:
    """One number for a row of a host: below 2^15 producers, 2^28 batches and 2^20 rows."""
    return np.asarray((producer << 48) | (sequence << 20) | row)


def _true_starts(truth: Truth, producers: dict[str, list[tuple[str, int]]], every: int) \
        -> dict[tuple[str, str], tuple[Ints, Ints]]:
    """By host and device clock: keys and true starts of the sampled device spans."""
    parts: dict[tuple[str, str], list[tuple[Ints, Ints]]] = {}
    for batch in truth.starts():
        if batch.clock == RAW:
            continue
        rows = np.arange(len(batch.start_ns), dtype=np.int64)
        rows = rows[_chosen(batch.sequence, rows, every) == 0]
        number = producers[batch.host].index((batch.producer, batch.epoch))
        parts.setdefault((batch.host, batch.clock), []).append(
            (_key(number, batch.sequence, rows), batch.start_ns[rows]))
    return {name: _joined(found) for name, found in parts.items()}


def _stored(store: Store, host: str, clock: str, producers: list[tuple[str, int]], every: int) \
        -> tuple[Ints, Ints, Ints]:
    """Keys, starts and bounds (−1: none) of the sampled spans of one device clock."""
    parts = [(_NONE, _NONE, _NONE)]
    for number, (producer, epoch) in enumerate(producers):
        table = store.query(
            "SELECT sequence, row, start_ns, err_ns FROM spans WHERE host = {host:String} AND epoch = {epoch:Int64} "
            "AND producer = {producer:String} AND clock = {clock:String} "
            "AND (sequence * {mix:Int64} + row) % {every:Int64} = 0",
            {"host": host, "epoch": epoch, "producer": producer, "clock": clock, "mix": _MIX, "every": every})
        sequence, row, start_ns, err_ns = integers(table, ("sequence", "row", "start_ns", "err_ns"), UNBOUNDED)
        parts.append((_key(number, sequence, row), start_ns, err_ns))
    keys, starts, bounds = (np.concatenate(column) for column in zip(*parts, strict=True))
    return keys, starts, bounds


def _summary(errors: Ints, bounds: Ints) -> Score:
    bounded = bounds != UNBOUNDED
    sizes, limits = np.abs(errors[bounded]), bounds[bounded]
    some = len(sizes) > 0
    return {
        "p50_ns": _percentile(sizes, 50), "p99_ns": _percentile(sizes, 99),
        "max_ns": int(sizes.max()) if some else None,
        "bound_p50_ns": _percentile(limits, 50), "bound_p99_ns": _percentile(limits, 99),
        "bound_coverage": float(np.mean(sizes <= limits)) if some else None,
        "gap_share": float(np.mean(~bounded)) if len(bounds) else None, "sampled": len(errors),
    }


def _percentile(values: Ints, q: float) -> float | None:
    return float(np.percentile(values, q)) if len(values) else None


def _pairs(hosts: int) -> list[tuple[int, int]]:
    """All pairs of a small fleet; of a large one each host with the first and the next, evenly thinned."""
    if hosts * (hosts - 1) // 2 <= _MAX_PAIRS:
        return [(a, b) for a in range(hosts) for b in range(a + 1, hosts)]
    pairs = sorted({(0, b) for b in range(1, hosts)} | {(a, a + 1) for a in range(hosts - 1)})
    return pairs[:: -(-len(pairs) // _MAX_PAIRS)]
