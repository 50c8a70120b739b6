"""Grades the stored alignment against the true clocks."""

from __future__ import annotations

from typing import Final

import numpy as np

from fleetscope.store.abstract import Store
from simulator.clocks import NS, RAW, Ints
from simulator.fleet import FleetConfig
from simulator.segments import UNBOUNDED, fleet_map, integers
from simulator.truth import Truth

Score = dict[str, float | int | None]

SAMPLE_ROWS: Final = 200_000
_GRID: Final = 2_000
_MIX: Final = 7_919
_MAX_PAIRS: Final = 256


def device_score(store: Store, truth: Truth, config: FleetConfig) -> Score:
    """Device spans: stored start against the host's own map applied to the host's true reading at the true start.

    So both the error and the bound are those of host to device alone: the bound of the host's map is taken off.
    """
    every = _every(truth)
    errors, bounds = [], []
    stored_by_host = {host: _stored(store, config, index, every) for index, host in enumerate(config.host_names)}
    true_by_host = _true_starts(truth, every)
    for index, host in enumerate(config.host_names):
        keys, starts = true_by_host.get(host, (np.zeros(0, np.int64), np.zeros(0, np.int64)))
        stored_keys, start_ns, err_ns = stored_by_host[host]
        _, here, there = np.intersect1d(keys, stored_keys, return_indices=True)
        mapped = fleet_map(store, host).apply(config.clocks(index).raw.read(starts[here]))
        errors.append((start_ns[there] - mapped.fleet_ns)[mapped.known])
        bounds.append(_without(err_ns[there], mapped.err_ns)[mapped.known])
    clocks = [clock for index in range(config.hosts) for clock in config.clocks(index).devices]
    return {**_summary(np.concatenate(errors), np.concatenate(bounds)),
            **_steps(sum(len(clock.steps) for clock in clocks), _epochs(store, config, "clock LIKE 'dev%'"))}


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
    true = sum(len(config.clocks(index).raw.steps) for index in range(config.hosts))
    return {**_summary(np.concatenate(errors), np.concatenate(bounds)),
            **_steps(true, _epochs(store, config, "target_clock = 'fleet'"))}


def inversions(store: Store, config: FleetConfig) -> int:
    """Sampled kernels and transfers that begin before their submission's end by more than both bounds."""
    side = ("SELECT host, process_id, correlation_id, {column} AS at_ns, err_ns FROM spans "
            "WHERE host IN {{hosts:Array(String)}} AND epoch IN {{epochs:Array(Int64)}} "
            "AND correlation_id % 10 = 0 AND {where}")
    starts = side.format(column="start_ns", where="device IS NOT NULL")
    ends = side.format(column="start_ns + duration_ns", where="track = 'driver'")
    result = store.query(
        f"SELECT count() AS n FROM ({starts}) AS work INNER JOIN ({ends}) AS submission "
        "USING (host, process_id, correlation_id) "
        "WHERE work.at_ns + work.err_ns < submission.at_ns - submission.err_ns",
        {"hosts": config.host_names, "epochs": config.epochs})
    return int(result.column("n")[0].as_py())


def _every(truth: Truth) -> int:
    """Take one row in this many, so that a sample stays within SAMPLE_ROWS."""
    spans = truth.tallies.get("spans")
    return max(1, -(-spans.produced // SAMPLE_ROWS)) if spans else 1


def _chosen(sequence: Ints | int, row: Ints, every: int) -> Ints:
    return np.asarray((sequence * _MIX + row) % every)


def _key(sequence: Ints | int, row: Ints) -> Ints:
    return np.asarray((sequence << 20) | row)


def _true_starts(truth: Truth, every: int) -> dict[str, tuple[Ints, Ints]]:
    """By host: keys and true starts of the sampled device spans."""
    parts: dict[str, list[tuple[Ints, Ints]]] = {}
    for batch in truth.starts():
        if batch.clock == RAW:
            continue
        rows = np.arange(len(batch.start_ns), dtype=np.int64)
        rows = rows[_chosen(batch.sequence, rows, every) == 0]
        parts.setdefault(batch.host, []).append((_key(batch.sequence, rows), batch.start_ns[rows]))
    return {host: (np.concatenate([k for k, _ in found]), np.concatenate([s for _, s in found]))
            for host, found in parts.items()}


def _stored(store: Store, config: FleetConfig, index: int, every: int) -> tuple[Ints, Ints, Ints]:
    """Keys, starts and bounds (−1: none) of the sampled device spans of one host."""
    table = store.query(
        "SELECT sequence, row, start_ns, err_ns FROM spans WHERE host = {host:String} AND epoch = {epoch:Int64} "
        "AND clock != {clock:String} AND (sequence * {mix:Int64} + row) % {every:Int64} = 0",
        {"host": config.host_names[index], "epoch": config.epochs[index], "clock": RAW, "mix": _MIX, "every": every})
    sequence, row, start_ns, err_ns = integers(table, ("sequence", "row", "start_ns", "err_ns"), UNBOUNDED)
    return _key(sequence, row), start_ns, err_ns


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


def _epochs(store: Store, config: FleetConfig, where: str) -> int:
    """Steps or resets that the alignment saw: epochs of each pair beyond its first."""
    result = store.query(
        "SELECT sum(n - 1) AS steps FROM (SELECT uniqExact(epoch) AS n FROM segments "
        f"WHERE host IN {{hosts:Array(String)}} AND {where} GROUP BY host, clock, target_clock)",
        {"hosts": config.host_names})
    return int(result.column("steps")[0].as_py() or 0)


def _steps(true: int, epochs: int) -> Score:
    found = min(true, epochs)
    return {"steps_true": true, "steps_found": found, "steps_false": epochs - found}


def _pairs(hosts: int) -> list[tuple[int, int]]:
    """All pairs of a small fleet; of a large one each host with the first and the next, evenly thinned."""
    if hosts * (hosts - 1) // 2 <= _MAX_PAIRS:
        return [(a, b) for a in range(hosts) for b in range(a + 1, hosts)]
    pairs = sorted({(0, b) for b in range(1, hosts)} | {(a, a + 1) for a in range(hosts - 1)})
    return pairs[:: -(-len(pairs) // _MAX_PAIRS)]
