"""Numbers of a scenario given as distributions, drawn by seed: the scenario that runs holds numbers only.

A table with a key ``dist`` stands for a number::

    per_s = {dist = "uniform", low = 1.0, high = 2.0}          # low ≤ x < high; whole bounds give whole numbers, ≤ high
    per_s = {dist = "normal", mean = 1.2, sd = 0.1, low = 0}   # low and high, where given, bound the value
    per_s = {dist = "lognormal", median = 1.2, sigma = 0.3}    # sigma of ln x
    per_s = {dist = "choice", values = [1.0, 2.0], weights = [3, 1]}

Each key draws from a generator seeded by the seed and its own path, so that one draw never moves another.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

Path = tuple[str | int, ...]
Number = int | float

PURPOSE: Final = 20
"""Second word of the seed of these generators."""


class DrawError(ValueError):
    """A distribution that is none; ``path`` is where it stands."""

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(reason)
        self.path = path


def drawn(values: Any, seed: int, path: Path = ()) -> Any:
    """``values`` (of TOML) with every distribution replaced by a number. DrawError where one is wrong."""
    if isinstance(values, Mapping):
        if "dist" in values:
            return _number(values, seed, path)
        return {key: drawn(value, seed, (*path, key)) for key, value in values.items()}
    if isinstance(values, list):
        return [drawn(value, seed, (*path, index)) for index, value in enumerate(values)]
    return values


def _number(table: Mapping[str, Any], seed: int, path: Path) -> Number:
    name = table["dist"]
    if not isinstance(name, str) or name not in _DRAWS:
        raise DrawError((*path, "dist"), f"there is no distribution {name!r}; known are {', '.join(_DRAWS)}")
    needed, optional, draw = _DRAWS[name]
    for key in table:
        if key not in (*needed, *optional, "dist"):
            raise DrawError((*path, key), f"a {name} distribution has no {key}; "
                                          f"it takes {', '.join((*needed, *optional))}")
    for key in needed:
        if key not in table:
            raise DrawError(path, f"a {name} distribution needs {key}")
    for key, value in table.items():
        if key != "dist":
            _check(value, (*path, key), several=key in ("values", "weights"))
    rng = np.random.default_rng([seed, PURPOSE, zlib.crc32(".".join(map(str, path)).encode())])
    return draw(table, rng, path)


def _check(value: Any, path: Path, *, several: bool) -> None:
    values = value if several and isinstance(value, list) else [value]
    if several and (not isinstance(value, list) or not value):
        raise DrawError(path, "must be a list of numbers")
    for one in values:
        if isinstance(one, bool) or not isinstance(one, (int, float)) or not np.isfinite(one):
            raise DrawError(path, f"must be a number, not {one!r}")


def _uniform(table: Mapping[str, Any], rng: np.random.Generator, path: Path) -> Number:
    low, high = table["low"], table["high"]
    if low > high:
        raise DrawError((*path, "high"), f"high {high:g} is below low {low:g}")
    if isinstance(low, int) and isinstance(high, int):
        return int(rng.integers(low, high, endpoint=True))
    return float(rng.uniform(low, high))


def _normal(table: Mapping[str, Any], rng: np.random.Generator, path: Path) -> Number:
    if table["sd"] < 0:
        raise DrawError((*path, "sd"), "must not be negative")
    return _bounded(float(table["mean"] + table["sd"] * rng.standard_normal()), table["mean"], table, path)


def _lognormal(table: Mapping[str, Any], rng: np.random.Generator, path: Path) -> Number:
    if table["median"] <= 0:
        raise DrawError((*path, "median"), "must be above 0")
    if table["sigma"] < 0:
        raise DrawError((*path, "sigma"), "must not be negative")
    return _bounded(float(table["median"] * np.exp(table["sigma"] * rng.standard_normal())), table["median"], table,
                    path)


def _bounded(value: float, whole_like: Number, table: Mapping[str, Any], path: Path) -> Number:
    """``value`` within low and high, whole where the distribution's centre is."""
    low, high = table.get("low", -np.inf), table.get("high", np.inf)
    if low > high:
        raise DrawError((*path, "high"), f"high {high:g} is below low {low:g}")
    bounded = float(min(max(value, low), high))
    return round(bounded) if isinstance(whole_like, int) else bounded


def _choice(table: Mapping[str, Any], rng: np.random.Generator, path: Path) -> Number:
    values: list[Number] = table["values"]
    weights = np.array(table.get("weights", [1] * len(values)), dtype=np.float64)
    if len(weights) != len(values):
        raise DrawError((*path, "weights"), f"{len(weights)} weights for {len(values)} values")
    if (weights < 0).any() or weights.sum() <= 0:
        raise DrawError((*path, "weights"), "must not be negative, and not all 0")
    return values[int(np.searchsorted(np.cumsum(weights), rng.random() * weights.sum(), side="right"))]


_Draw = Callable[[Mapping[str, Any], np.random.Generator, Path], Number]
_DRAWS: Final[dict[str, tuple[tuple[str, ...], tuple[str, ...], _Draw]]] = {
    "uniform": (("low", "high"), (), _uniform),
    "normal": (("mean", "sd"), ("low", "high"), _normal),
    "lognormal": (("median", "sigma"), ("low", "high"), _lognormal),
    "choice": (("values",), ("weights",), _choice),
}
