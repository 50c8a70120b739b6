"""Clocks with a known truth, and probes of them. The target clock is true time (int64 ns) throughout."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, field

from processors.clocks.hull import Node
from processors.clocks.pair import Pair, PairRules, add_probes
from processors.clocks.probes import Exchange, remote_to_local
from processors.clocks.segments import Segment

NS = 1_000_000_000
HOST_START = 40 * 86_400 * NS
"""Host time at which the models begin."""


@dataclass
class Model:
    """A clock that reads ``floor((start + elapsed + deviation) · hz)``; steps are (ns since the start, jump in ns)."""

    hz: int = NS
    start_ns: int = 123_456_789_000
    ppm: float = 0.0
    wander_ns: float = 0.0
    period_s: float = 60.0
    steps: list[tuple[int, int]] = field(default_factory=list)
    stuck_at: int | None = None

    def read(self, at: int) -> int:
        """Ticks at host time ``at``."""
        elapsed = at - HOST_START
        if self.stuck_at is not None:
            elapsed = min(elapsed, self.stuck_at)
        wave = self.wander_ns * math.sin(elapsed / NS * 2 * math.pi / self.period_s)
        jumps = sum(jump for when, jump in self.steps if elapsed >= when)
        return (self.start_ns + elapsed + math.floor(elapsed * self.ppm * 1e-6 + wave) + jumps) * self.hz // NS


def free_running(rng: random.Random, hz: int) -> Model:
    """A random oscillator within what the hull assumes: 100 ppm and 0.1 ppm/s."""
    period = rng.uniform(40, 400)
    wander = rng.uniform(0, 0.09e-6) * NS / (2 * math.pi / period) ** 2
    limit = 95 - wander / NS * (2 * math.pi / period) * 1e6
    return Model(hz, rng.randrange(10 * 86_400 * NS), rng.uniform(-limit, limit), wander, period)


def probe(clock: Model, at: int, out_ns: int, back_ns: int) -> Node:
    """A two-way exchange that begins at host time ``at``."""
    stamp = clock.read(at + out_ns)
    return remote_to_local(Exchange("monotonic_raw", None, "dev0", at, stamp, stamp, at + out_ns + back_ns, NS,
                                    clock.hz))


def probes(clock: Model, rng: random.Random, start_s: float, stop_s: float, *, every_s: float = 1.0, burst: int = 4,
           typical_ns: int = 700) -> list[Node]:
    """Bursts of exchanges with long-tailed latency, in the order of their measurement."""
    found = []
    for number in range(math.ceil((stop_s - start_s) / every_s)):
        at = HOST_START + round((start_s + number * every_s) * NS)
        for _ in range(burst):
            out, back = (300 + round(rng.expovariate(1 / typical_ns)) for _ in range(2))
            found.append(probe(clock, at, out, back))
            at += out + back + 2_000
    return found


def fitted(clock: Model, given: list[Node], rules: PairRules) -> Pair:
    """A pair with the probes in it."""
    pair = Pair(clock.hz)
    add_probes(pair, given, rules)
    return pair


def holding(segments: list[Segment], tick: int) -> Segment | None:
    """The newest segment for a tick."""
    return next((s for s in reversed(segments) if s.valid_from <= tick < s.valid_to), None)
