"""Machines and seats that tests share."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from simulator.engine.program import Program
from simulator.machine import load_machine
from simulator.work.hosts import HostCosts
from simulator.work.names import NAMES
from simulator.work.plan import Seat

CARD = load_machine("infer-24")
LARGE = load_machine("h100-like")
QUIET = HostCosts(call_spread=0.0, gap_spread=0.0, device_noise=0.0)
"""No noise."""


def seats(count: int, **more: object) -> list[Seat]:
    """Seats on large devices."""
    return [Seat(LARGE, **more) for _ in range(count)]  # type: ignore[arg-type]


def words(codes: np.ndarray) -> list[str]:
    """Names of codes; nulls left out."""
    return [NAMES[code] for code in codes if code >= 0]


def where(program: Program, name: str) -> np.ndarray:
    """Indices of the calls that give the device an op of a name."""
    return np.flatnonzero(program.name == NAMES.index(name))


def equal(one: Program, other: Program) -> bool:
    """Whether all columns are."""
    return all(np.array_equal(getattr(one, f.name), getattr(other, f.name)) for f in fields(Program))
