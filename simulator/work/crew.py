"""The ranks of one replica: their hosts' noise, and the numbers of the collectives they meet in."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from simulator.engine.program import NONE, Program
from simulator.work.hosts import contended
from simulator.work.layout import Filler, Layout
from simulator.work.plan import IDEAL, Conditions, Seat
from simulator.work.table import Table

_RANK = 16
"""Purposes of random streams below this are the planner's own."""


class Crew:
    """Makes the programs of all ranks of a step from their layouts and tables."""

    def __init__(self, key: tuple[int, ...], seats: Sequence[Seat], groups: tuple[tuple[int, ...], ...]) -> None:
        self.seats = tuple(seats)
        self.groups = groups
        self._fillers = [Filler(seat.host, np.random.default_rng([*key, _RANK + rank]))
                         for rank, seat in enumerate(seats)]
        self._sequences = np.zeros(len(groups), dtype=np.int64)

    def programs(self, layouts: Sequence[Layout], tables: Sequence[Table], conditions: Sequence[Conditions] = (),
                 request: int = NONE) -> tuple[Program, ...]:
        """One program a rank; counts the collectives of each group on."""
        ranks = zip(self.seats, self._fillers, layouts, tables, conditions or (IDEAL,) * len(self.seats), strict=True)
        made = []
        for seat, filler, layout, table, now in ranks:
            program = filler.fill(layout, table, self._sequences, request, seat.host_factor * now.host_factor,
                                  seat.device_factor * now.device_factor)
            if now.contention > 1:
                program = contended(program, now.contention, seat.host.slice_ns, filler.rng)
            made.append(program)
        for group, members in enumerate(self.groups):
            self._sequences[group] += layouts[members[0]].collectives[group]  # every member passes the same ones
        return tuple(made)
