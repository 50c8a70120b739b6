"""Property: over random networks with random faults the truth is inside the bounds, and nothing depends on batches."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetscope.step import replay
from processors.clocks.fleet import FleetClockStep
from tests.unit.processors.clocks.fleets import incidents, maps
from tests.unit.processors.clocks.networks import Network, ring_and_hub

STEP = FleetClockStep()
SECONDS = 22


def drawn(seed: int) -> Network:
    """A connected graph of 3 to 7 hosts; links that fail for a while, hosts that fall silent, one link that may lie."""
    rng = np.random.default_rng([seed, 4])
    hosts = int(rng.integers(3, 8))
    links = {(n, int(rng.integers(0, n))) for n in range(1, hosts)}
    links |= {(int(a), int(b)) for a, b in rng.integers(0, hosts, (2 * hosts, 2)) if a != b}
    order = sorted(links)
    dead = {order[int(rng.integers(len(order)))]: int(rng.integers(3, 15)) for _ in range(2)}
    quiet = {int(rng.integers(hosts)): int(rng.integers(5, 15))} if rng.random() < 0.5 else {}
    lies = {}
    if rng.random() < 0.5:
        # One link lies; the rest must be able to show it, else nobody can know.
        order = sorted({*order, *ring_and_hub(hosts)})
        lies = {order[int(rng.integers(len(order)))]: (int(rng.choice([60_000, -90_000, 10**7])), 0)}
        if rng.random() < 0.5:
            dead, quiet = {}, {}
    return Network(hosts, order, seed, lies=lies,
                   cut=lambda link, s: link in dead and dead[link] <= s < dead[link] + 5,
                   silent=lambda host, s: host in quiet and s >= quiet[host])


@given(st.integers(0, 2**31))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_truth_is_inside_the_bounds_of_random_networks(seed: int) -> None:
    net = drawn(seed)
    net.run(0, SECONDS)
    outputs = replay(STEP, net.batches)
    found = maps(outputs)
    times, errs = net.errors(found, range(net.hosts), 0, SECONDS, 0.1)
    for i, j in combinations(range(net.hosts), 2):
        sure = (errs[i] >= 0) & (errs[j] >= 0)
        assert (np.abs(times[i] - times[j])[sure] <= (errs[i] + errs[j])[sure]).all(), (seed, i, j)
    seconds = range(SECONDS)
    faulty = any(net.cut(link, s) for link in net.links for s in seconds)
    if faulty or any(net.silent(host, s) for host in range(net.hosts) for s in seconds):
        return  # what is left may not tell which link lies, only that one does
    liars = [[net.name(a), net.name(b)] for a, b in net.lies]
    for row in incidents(outputs):
        if row["kind"] == "clock_contradiction":
            assert any(liar in row["evidence"]["links"] for liar in liars), (seed, row)
