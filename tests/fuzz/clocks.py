"""Random clocks and faults against the bounds of their maps: python -m tests.fuzz.clocks [--worlds 10000] [--seed 1].

Every world follows from (seed, number), so that a finding is repeated with --seed and --world. Exit code 0: the truth
was never outside, 1: it was.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter

from processors.clocks.pair import PairRules
from tests.support.clock_worlds import arrivals, fit, judge, world


def main() -> int:
    """Run the worlds, print findings and a summary."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--worlds", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--world", type=int, help="only this one")
    given = parser.parse_args()
    rules, counts = PairRules(), Counter[str]()
    for number in [given.world] if given.world is not None else range(given.worlds):
        rng = random.Random(f"{given.seed}/{number}")
        made = world(rng, rules)
        stream = arrivals(made, rng)
        segments, pair = fit(made, stream, rng, rules, restarts=number % 4 == 0)
        found = judge(made, segments, [a.local for a in stream], rng, rows=100)
        counts.update({"worlds": 1, "rows": found.rows, "bounded": found.bounded, "outside": len(found.outside),
                       "breaks": len(made.broken), **pair.counts})
        counts["worlds_outside"] += bool(found.outside)
        counts["worlds_with_false_steps"] += not made.broken and pair.steps > 0
        if found.outside or (not made.broken and pair.steps):
            at = [(t - made.start) / 1e9 for t in found.outside[:3]]
            print(f"world {number}: outside at {at} s, {pair.counts}, {made}", flush=True)
    print(dict(counts))
    return 1 if counts["outside"] else 0


if __name__ == "__main__":
    sys.exit(main())
