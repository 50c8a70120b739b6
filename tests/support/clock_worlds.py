"""Random pairs of clocks with everything that may go wrong, for property tests of their maps. The target is true time.

Everything follows from (seed, number).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from processors.clocks.hull import Node
from processors.clocks.pair import Pair, PairRules, Rate, add_probes, advance, finish
from processors.clocks.probes import Exchange, remote_to_local
from processors.clocks.segments import NO_BOUND, Segment, SegmentMap

NS = 1_000_000_000
CONGESTED = 30
ABSURD = (1, 0xFFFF_FFFF, 1 << 61)


@dataclass(frozen=True, slots=True)
class Spell:
    """From target time ``at`` (ns) on the source shows ``value`` (nominal ns) and runs at ``factor`` of nominal."""

    at: int
    value: int
    factor: float


@dataclass
class World:
    """A source clock within the assumptions but for steps, resets, stops and published rates, and probes of it."""

    hz: int
    bits: int
    grain: int
    start: int
    """Target time at which it begins."""
    seconds: float
    ppm: float
    wander_ns: float
    period_ns: float
    out_ns: float
    back_ns: float
    """Typical latencies of its probes."""
    spells: list[Spell] = field(default_factory=list)
    published: list[tuple[int, float]] = field(default_factory=list)
    broken: list[int] = field(default_factory=list)
    """Target times of steps, resets and stops."""

    def ticks(self, at: int) -> int:
        """What the counter has counted at target time ``at``, without a wrap."""
        count = self.counted(at)
        return count - count % self.grain

    def counted(self, at: int) -> int:
        """The same of a counter as fine as it says."""
        spell = next((s for s in reversed(self.spells) if s.at <= at), self.spells[0])
        since = at - spell.at
        shown = spell.value + (since if spell.factor == 1 else round(since * spell.factor))
        if spell.factor:
            shown += math.floor((self._deviation(at) - self._deviation(spell.at)) * spell.factor)
        return shown * self.hz // NS

    def shows(self, at: int) -> int:
        """What it shows."""
        return self.ticks(at) & ((1 << self.bits) - 1) if self.bits < 64 else self.ticks(at)

    def _deviation(self, at: int) -> float:
        since = at - self.start
        return since * self.ppm * 1e-6 + self.wander_ns * math.sin(since / self.period_ns * 2 * math.pi)


def world(rng: random.Random, rules: PairRules) -> World:
    """A random clock: rate and change of rate within nine tenths of what is assumed."""
    rho, curvature = rules.assumptions.rho, rules.assumptions.curvature_per_ns or 0.0
    period = rng.uniform(20, 400) * NS
    omega = 2 * math.pi / period
    swing = min(rng.uniform(0, 0.9) * curvature / omega, 0.3 * rho)
    hz = rng.choice([NS, NS, 100_000_000, 19_200_000, 2_500_000_000])
    bits = rng.choice([64, 64, 64, 32])
    grain = rng.choice([1, 1, 1, 1, 1_000 if hz >= NS else 1])
    start = rng.choice([NS, rng.randrange(30 * 86_400 * NS), rng.randrange(1 << 61)])
    made = World(hz, bits, grain, start, rng.uniform(15, 60), rng.uniform(-1, 1) * (0.9 * rho - swing) * 1e6,
                 swing / omega, period,
                 10 ** rng.uniform(2, 4.5), 10 ** rng.uniform(2, 4.5))
    made.spells = [Spell(start - 20 * NS, rng.choice([25 * NS, rng.randrange(30 * 86_400 * NS)]), 1.0)]
    at = float(start + rng.uniform(5, 15) * NS)
    kinds = rng.choice([[], [], ["step"], ["step", "step"], ["reset"], ["stop"], ["rate", "rate", "rate"],
                        ["step", "reset", "stop"]])
    for kind in kinds:
        _change(made, rng, kind, int(at))
        at += rng.uniform(6, 20) * NS
    return made


def _change(made: World, rng: random.Random, kind: str, at: int) -> None:
    before = made.spells[-1]
    value = made.counted(at) * NS // made.hz
    if kind == "step":
        # Smaller ones than probes are wide, or than the drift that is possible between them, nothing can show.
        least = math.log10(6 * (CONGESTED * made.out_ns + made.back_ns) + 1_000_000)
        size = round(10 ** rng.uniform(least, 9.8)) * rng.choice([-1, 1])
        made.spells.append(Spell(at, max(value + size, 1), before.factor))
        made.broken.append(at)
    elif kind == "reset":
        made.spells.append(Spell(at, rng.randrange(1, NS // 10), before.factor))
        made.broken.append(at)
    elif kind == "stop":
        until = at + round(rng.uniform(0.3, 5) * NS)
        made.spells += [Spell(at, value, 0.0), Spell(until, value, before.factor)]
        made.broken.append(at)
    else:
        factor = rng.choice([0.4, 0.5, 0.75, 1.0, 1.25])
        made.spells.append(Spell(at, value, factor))
        made.published.append((at, factor))


def arrivals(made: World, rng: random.Random) -> list[Node | Rate]:
    """Bursts of probes with long-tailed, asymmetric latencies, congestion, losses, repeats and wrong stamps."""
    found: list[Node | Rate] = [Rate(made.shows(at), round((factor - 1) * 1e9), at) for at, factor in made.published]
    every, burst = rng.choice([0.5, 1.0, 1.0, 2.0]), rng.choice([4, 8, 8, 16])
    spoiled = rng.random() < 0.3
    busy = rng.uniform(0, made.seconds)
    silent = rng.uniform(0, made.seconds) if rng.random() < 0.3 else made.seconds
    at_s = 0.0
    while at_s < made.seconds:
        if silent <= at_s < silent + 12:
            at_s += every
            continue
        slow = CONGESTED if busy <= at_s < busy + 8 else 1
        found += _burst(made, rng, made.start + round(at_s * NS), burst,
                        (made.out_ns * slow, made.back_ns), spoiled)
        at_s += every
    return sorted(found, key=lambda a: a.local) if not spoiled else _shuffled(found, rng)


def _burst(made: World, rng: random.Random, at: int, count: int, typical: tuple[float, float], spoiled: bool) \
        -> Iterator[Node]:
    for _ in range(count):
        away, home = (round(t * (0.5 + rng.expovariate(1.5))) + 20 for t in typical)
        shown = made.shows(at + away)
        after = at + away + home
        if spoiled and rng.random() < 0.05:
            shown = rng.choice([a for a in ABSURD if made.bits == 64 or a < 1 << made.bits])
        node = remote_to_local(Exchange("raw", None, "dev0", at, shown, shown, after, NS, made.hz))
        yield node
        if spoiled and rng.random() < 0.1:
            yield node
        at = after + rng.randrange(500, 5_000)


def _shuffled(found: list[Node | Rate], rng: random.Random) -> list[Node | Rate]:
    """Disorder within a burst, as far as 30 ms."""
    return sorted(found, key=lambda a: a.local + rng.randrange(30_000_000))


def fit(made: World, stream: list[Node | Rate], rng: random.Random, rules: PairRules, *, restarts: bool = False) \
        -> tuple[list[Segment], Pair]:
    """All segments; with ``restarts`` in random pieces, with promises and ways through plain values between."""
    pair, segments = Pair(made.hz, made.bits), []
    at = 0
    while at < len(stream):
        size = rng.randrange(1, 40) if restarts else len(stream)
        add_probes(pair, stream[at:at + size], rules)
        at += size
        if restarts:
            segments += pair.take()
            pair = Pair.of_plain(pair.plain())
            if at < len(stream) and rng.random() < 0.5:
                advance(pair, min(a.local for a in stream[at:]), rules)
    finish(pair, rules)
    return segments + pair.take(), pair


@dataclass(frozen=True, slots=True)
class Verdict:
    """Of rows stamped at random times: how many have a bound, and the target times at which it does not hold."""

    bounded: int
    rows: int
    outside: list[int]


def judge(made: World, segments: list[Segment], moments: list[int], rng: random.Random, rows: int = 200) -> Verdict:
    """Map rows as `align` does, sent up to 1 s after they were stamped, and compare with when that was.

    Where a clock breaks in a long silence, or after the last of the probes at ``moments``, no probe shows it in time.
    """
    found, outside, bounded = SegmentMap(segments, made.bits), [], 0
    low, high = made.start - NS, made.start + round(made.seconds * NS)
    unseen = _unseen(made, moments)
    tick = -(-NS * made.grain // made.hz)
    for _ in range(rows):
        at = rng.randrange(low, high)
        if made.broken and rng.random() < 0.3:  # most of what can go wrong goes wrong there
            at = rng.choice(made.broken) + round(rng.gauss(0, 1.5) * NS)
        shown = np.array([made.shows(at)], np.int64)
        sent = at + rng.randrange(NS)
        mapped = found.apply(shown, shown, sent)
        if mapped.err_ns[0] == NO_BOUND or any(a <= at < b for a, b in unseen):
            continue
        bounded += 1
        if abs(int(mapped.time[0]) - at) > int(mapped.err_ns[0]) + tick:
            outside.append(at)
    return Verdict(bounded, rows, outside)


def _unseen(made: World, moments: list[int]) -> list[tuple[int, int]]:
    found = []
    for broken in made.broken:
        before = max((m for m in moments if m <= broken), default=-1 << 62)
        after = min((m for m in moments if m > broken), default=1 << 62)
        if after - before > 9 * NS:
            found.append((before, after))
    return found
