"""CPU cost of fitting pairs and of mapping timestamps: python -m bench.clocks.cost [--pairs 64] [--seconds 60].

Rows of `clock_samples` as hosts with 8 devices send them, one batch a second, to decided segments; then ticks to fleet
time. CPU seconds of this process.
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Final

import numpy as np
import pyarrow as pa

from processors.clocks.pair import Pair, PairRules, add_probes, advance
from processors.clocks.probes import arrivals
from processors.clocks.segments import SegmentMap
from simulator.clocks import NS, host_clocks
from simulator.faults.settings import Probing
from simulator.probes import Path, Probe, phase, sample_rows

DEVICES: Final = 8


def batches(host: int, seconds: int) -> list[pa.RecordBatch]:
    """One batch a second of a host."""
    clocks, probing = host_clocks(7, host, DEVICES, 0, [NS, 100_000_000]), Probing()
    rng = np.random.default_rng([7, host])
    probes = [Probe(clocks.raw, device, None, Path(probing.pcie_out), Path(probing.pcie_back), None, 8,
                    phase(i, DEVICES), probing, rng.spawn(1)[0]) for i, device in enumerate(clocks.devices)]
    made = (sample_rows(probes, second * NS, (second + 1) * NS) for second in range(seconds))
    return [rows for rows in made if rows is not None]


def fit(rows: list[pa.RecordBatch]) -> dict[str, Pair]:
    """All pairs of a host, with promises as its heartbeats make them."""
    pairs: dict[str, Pair] = {}
    rules = PairRules()
    for batch in rows:
        found, _ = arrivals(batch)
        for pairing, measured in found.items():
            pair = pairs.setdefault(pairing.remote_clock, Pair(pairing.remote_hz))
            add_probes(pair, measured, rules)
            advance(pair, measured[-1].local + NS // 2, rules)
    return pairs


def mapping_rate(pair: Pair, count: int = 4_000_000, batch: int = 65_536) -> float:
    """Timestamps a second, start and end of a span each, in batches as they come."""
    found = SegmentMap(pair.segments)
    first, last = found.segments[0].valid_from, found.segments[-1].valid_to
    starts = np.sort(np.random.default_rng(1).integers(first, last, count))
    parts = np.array_split(starts, count // batch)
    began = time.process_time()
    for part in parts:
        found.apply(part, part + 1_000)
    return 2 * count / (time.process_time() - began)


def main() -> None:
    """Print one JSON document."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=60)
    given = parser.parse_args()
    fit(batches(999, 5))  # compiles
    hosts = [batches(host, given.seconds) for host in range(given.pairs // DEVICES)]
    began = time.process_time()
    fitted = [fit(rows) for rows in hosts]
    spent = time.process_time() - began
    count = sum(len(pairs) for pairs in fitted)
    some = fitted[0]["dev0"]
    print(json.dumps({
        "cpu_us_per_pair_second": spent / count / given.seconds * 1e6, "pairs": count, "seconds": given.seconds,
        "state_bytes": len(json.dumps(some.plain())),
        "mapped_per_s": mapping_rate(some)}))


if __name__ == "__main__":
    main()
