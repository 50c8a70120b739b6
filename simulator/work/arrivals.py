"""When requests arrive and how long they are: point processes and length distributions, all from a seeded generator.

Rates follow a piecewise or sinusoidal intensity; times come from thinning a Poisson process at the highest rate (Lewis
and Shedler, 1979), which is exact for any bounded intensity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final, Literal, Protocol

import numpy as np

from fleetscope.errors import UsageError

NS: Final = 1_000_000_000
NEVER: Final = 1 << 62
"""Later than every run."""


def _require(condition: bool, key: str, reason: str) -> None:
    if not condition:
        raise UsageError(f"{key}: {reason}")


@dataclass(frozen=True, slots=True)
class ArrivalConfig:
    """How requests arrive. ``per_s`` is the mean rate over a long time, of every kind but ``closed``.

    ``bursts`` is a two-state Markov-modulated Poisson process: on for ``on_s``, off for ``off_s`` in the mean, with
    rate ``burst_factor`` times the off rate while on. ``diurnal`` swings by ``swing`` (0..1) around the mean with
    ``period_s``. ``closed`` has ``users`` that each wait ``think_s`` in the mean after an answer.
    """

    kind: Literal["poisson", "bursts", "diurnal", "fixed", "closed"] = "poisson"
    per_s: float = 1.0
    on_s: float = 2.0
    off_s: float = 8.0
    burst_factor: float = 10.0
    period_s: float = 86_400.0
    swing: float = 0.6
    phase: float = 0.0
    """Share of the period that has passed at time 0; the rate is highest at a quarter."""
    users: int = 8
    think_s: float = 1.0

    def __post_init__(self) -> None:
        _require(self.per_s >= 0, "per_s", "a rate is not negative")
        _require(min(self.on_s, self.off_s, self.period_s) > 0, "on_s, off_s, period_s", "a duration is positive")
        _require(self.burst_factor >= 1, "burst_factor", "a burst is not slower than the rest (at least 1)")
        _require(0 <= self.swing <= 1, "swing", "a share lies within 0..1")
        _require(self.users >= 1, "users", "a closed loop has at least 1 user")
        _require(self.think_s >= 0, "think_s", "a time is not negative")


class Arrivals(Protocol):
    """Times of arrivals in ns, in order."""

    @property
    def next_ns(self) -> int:
        """The arrival not taken yet; NEVER: none."""

    def take(self) -> None:
        """The arrival at ``next_ns`` has been used."""

    def completed(self, now_ns: int) -> None:
        """A request was answered at ``now_ns``; only closed loops mind."""


class _Open:
    """Arrivals that do not mind answers: ``_draw`` gives the time after a time."""

    def __init__(self, config: ArrivalConfig, rng: np.random.Generator, start_ns: int) -> None:
        self._config = config
        self._rng = rng
        self._prepare(start_ns)
        self.next_ns = self._draw(start_ns) if config.per_s > 0 else NEVER

    def take(self) -> None:
        self.next_ns = self._draw(self.next_ns)

    def completed(self, now_ns: int) -> None:
        """Nothing: the demand is open."""

    def _prepare(self, start_ns: int) -> None:
        """State of the intensity at the start."""

    def _gap_ns(self, per_s: float) -> int:
        return int(self._rng.exponential(NS / per_s)) + 1

    def _draw(self, after_ns: int) -> int:
        return after_ns + self._gap_ns(self._config.per_s)


class _Fixed(_Open):
    def _draw(self, after_ns: int) -> int:
        return after_ns + max(1, round(NS / self._config.per_s))


class _Diurnal(_Open):
    def _draw(self, after_ns: int) -> int:
        config = self._config
        top, time_ns = config.per_s * (1 + config.swing), after_ns
        while True:
            time_ns += self._gap_ns(top)
            turn = (time_ns / NS / config.period_s + config.phase) % 1.0
            rate = config.per_s * (1 + config.swing * math.sin(2 * math.pi * turn))
            if self._rng.random() * top < rate:
                return time_ns


class _Bursts(_Open):
    """Mean rate = (on·factor + off)/(on + off) times the off rate, hence the off rate."""

    def _prepare(self, start_ns: int) -> None:
        config = self._config
        total = config.on_s + config.off_s
        self._off_rate = config.per_s * total / (config.on_s * config.burst_factor + config.off_s)
        self._on = bool(self._rng.random() < config.on_s / total)
        self._until_ns = start_ns + self._stay_ns()

    def _stay_ns(self) -> int:
        return int(self._rng.exponential((self._config.on_s if self._on else self._config.off_s) * NS)) + 1

    def _draw(self, after_ns: int) -> int:
        time_ns = after_ns
        while True:
            rate = self._off_rate * (self._config.burst_factor if self._on else 1.0)
            then_ns = time_ns + self._gap_ns(rate)
            if then_ns <= self._until_ns:
                return then_ns
            time_ns, self._on = self._until_ns, not self._on  # exponential gaps have no memory: draw again from here
            self._until_ns += self._stay_ns()


class _Closed:
    """Users that ask, wait for the answer, think, and ask again."""

    def __init__(self, config: ArrivalConfig, rng: np.random.Generator, start_ns: int) -> None:
        self._think_ns = config.think_s * NS
        self._rng = rng
        self._due = sorted(start_ns + self._think() for _ in range(config.users))

    @property
    def next_ns(self) -> int:
        return self._due[0] if self._due else NEVER

    def take(self) -> None:
        self._due.pop(0)

    def completed(self, now_ns: int) -> None:
        self._due.append(now_ns + self._think())
        self._due.sort()

    def _think(self) -> int:
        return int(self._rng.exponential(self._think_ns)) + 1


_KINDS: Final = {"poisson": _Open, "fixed": _Fixed, "diurnal": _Diurnal, "bursts": _Bursts}


def arrivals(config: ArrivalConfig, rng: np.random.Generator, start_ns: int = 0) -> Arrivals:
    """The process of ``config`` from ``start_ns`` on."""
    if config.kind == "closed":
        return _Closed(config, rng, start_ns)
    if config.kind not in _KINDS:
        raise UsageError(f"kind: there is no arrival process {config.kind!r}; known are closed, {', '.join(_KINDS)}")
    return _KINDS[config.kind](config, rng, start_ns)


@dataclass(frozen=True, slots=True)
class Lengths:
    """A distribution of token counts ≥ 1 with a mean (before rounding and clipping to ``most``).

    ``spread`` is the coefficient of variation of ``lognormal`` and ``gamma``; ``geometric`` and ``fixed`` have none.
    """

    kind: Literal["lognormal", "gamma", "geometric", "fixed"] = "fixed"
    mean: float = 128.0
    spread: float = 0.5
    most: int = 131_072

    def __post_init__(self) -> None:
        _require(self.mean >= 1, "mean", "a request has at least 1 token")
        _require(self.spread > 0, "spread", "a coefficient of variation is positive")
        _require(self.most >= 1, "most", "a request has at least 1 token")

    def draw(self, rng: np.random.Generator) -> int:
        """One length in tokens."""
        value = self.mean
        if self.kind == "lognormal":
            variance = math.log1p(self.spread ** 2)
            value = float(rng.lognormal(math.log(self.mean) - variance / 2, math.sqrt(variance)))
        elif self.kind == "gamma":
            value = float(rng.gamma(self.spread ** -2, self.mean * self.spread ** 2))
        elif self.kind == "geometric":
            value = float(rng.geometric(1 / self.mean))
        elif self.kind != "fixed":
            raise UsageError(f"kind: there is no distribution of lengths {self.kind!r}; known are lognormal, gamma, "
                             "geometric, fixed")
        return min(max(1, round(value)), self.most)
