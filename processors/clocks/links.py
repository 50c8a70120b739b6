"""Decided maps between two hosts' clocks, as stretches that can be read from either end.

A stretch is a run of pieces without a gap. After a host's clock began again, its ticks come a second time: stretches
are labelled with the *run* of either clock, which counts how often that happened.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from processors.clocks.pair import Pair
from processors.clocks.segments import Segment

Key = tuple[str, str]
"""(local, remote): who measured, and whom."""

MAX_PIECES: Final = 900
_DRIFT: Final = 9_000
"""1 / 111 ppm: by how much an error grows from one clock to the other."""


class Reading(NamedTuple):
    """What the clock at the other end shows: ``tick`` ± ``err_ns``."""

    tick: int
    err_ns: int
    settled: bool


@dataclass(slots=True)
class Stretch:
    """Consecutive pieces remote → local of one epoch, all with bounds; the runs of both clocks."""

    pieces: list[Segment]
    remote_run: int
    local_run: int

    def span(self, remote: bool) -> tuple[int, int]:
        """First tick and the one after the last, on either clock."""
        first, last = self.pieces[0], self.pieces[-1]
        if remote:
            return first.valid_from, last.valid_to
        return first.at(first.valid_from), last.at(last.valid_to)

    def run(self, remote: bool) -> int:
        """Run of either clock."""
        return self.remote_run if remote else self.local_run

    def read(self, remote: bool, tick: int) -> Reading:
        """The other clock when this one (``remote`` or not) shows ``tick``, which lies in the span (or at its end)."""
        pieces = self.pieces
        if remote:
            piece = pieces[max(bisect_right(pieces, tick, key=_valid_from) - 1, 0)]
            return Reading(piece.at(tick), piece.err_ns or 0, piece.state == "settled")
        piece = pieces[max(bisect_right(pieces, tick, key=_target_from) - 1, 0)]
        err = piece.err_ns or 0
        return Reading(piece.inverse(tick), err + err // _DRIFT + 3, piece.state == "settled")


def _valid_from(piece: Segment) -> int:
    return piece.valid_from


def _target_from(piece: Segment) -> int:
    return piece.at(piece.valid_from)


@dataclass(slots=True)
class Edge:
    """Exchanges measured by ``local`` with ``remote``. ``through``: remote ticks below are decided."""

    local: str
    remote: str
    pair: Pair
    stretches: list[Stretch] = field(default_factory=list)
    open: bool = False
    """The newest piece belongs to the last stretch."""
    through: int | None = None
    runs: tuple[int, int] = (0, 0)
    """Runs of (remote, local) of the newest piece."""

    @property
    def key(self) -> Key:
        """See Key."""
        return self.local, self.remote

    def other(self, host: str) -> str:
        """The host at the other end."""
        return self.local if host == self.remote else self.remote

    def take(self, begun: Callable[[str, int, str, int], int]) -> bool:
        """Fetch what the pair decided; True where there was something.

        ``begun(host, run, other, tick)``: the clock of ``host`` fell back or the pair broke, at ``tick`` of the
        other clock; it returns the run that holds from there, at least ``run``.
        """
        taken = self.pair.take()
        for piece in taken:
            self.through = piece.valid_to
            if piece.err_ns is None:
                self.open = False
            elif self.open and self.stretches[-1].pieces[-1].epoch == piece.epoch:
                self.stretches[-1].pieces.append(piece)
            else:
                self._begin(piece, begun)
        return bool(taken)

    def _begin(self, piece: Segment, begun: Callable[[str, int, str, int], int]) -> None:
        x, y, err = piece.valid_from, piece.at(piece.valid_from), piece.err_ns or 0
        remote_run, local_run = self.runs
        if self.stretches:
            last = self.stretches[-1].pieces[-1]
            remote_run += x < last.valid_to
            local_run += y + err < last.at(last.valid_to) - (last.err_ns or 0)
        self.runs = begun(self.remote, remote_run, self.local, y), begun(self.local, local_run, self.remote, x)
        self.stretches.append(Stretch([piece], *self.runs))
        self.open = True

    def holding(self, host: str, tick: int, run: int) -> Stretch | None:
        """The newest stretch that holds ``tick`` of ``host`` in its ``run``."""
        remote = host == self.remote
        for stretch in reversed(self.stretches):
            if stretch.run(remote) == run:
                first, last = stretch.span(remote)
                if first <= tick < last:
                    return stretch
        return None

    def across(self, first: int, last: int, remote_run: int, local_run: int) -> Stretch | None:
        """The stretch that holds the remote ticks [first, last] without a break."""
        for stretch in reversed(self.stretches):
            pieces = stretch.pieces
            if (pieces[0].valid_from <= first and last <= pieces[-1].valid_to and stretch.remote_run == remote_run
                    and stretch.local_run == local_run):
                return stretch
        return None

    @property
    def newest(self) -> int | None:
        """Remote tick of the newest exchange that is in the fit."""
        return self.pair.nodes[-1].x if self.pair.nodes else None

    def forget(self, remote: int, local: int) -> None:
        """Drop pieces that end before these ticks of both clocks, in the stretches' newest runs."""
        if len(self.stretches) > 1 and len(self.stretches[0].pieces) == 0:
            del self.stretches[0]
        while len(self.stretches) > 1 and self._behind(self.stretches[0].pieces[-1], self.stretches[0], remote, local):
            del self.stretches[0]
        if not self.stretches:
            return
        first = self.stretches[0]
        keep = 0
        while keep < len(first.pieces) - 1 and self._behind(first.pieces[keep], first, remote, local):
            keep += 1
        del first.pieces[:keep]
        if len(first.pieces) > MAX_PIECES:
            del first.pieces[:-MAX_PIECES]
        del self.stretches[:-8]

    def _behind(self, piece: Segment, stretch: Stretch, remote: int, local: int) -> bool:
        old_remote, old_local = stretch.remote_run < self.runs[0], stretch.local_run < self.runs[1]
        return (old_remote or piece.valid_to < remote) and (old_local or piece.at(piece.valid_to) < local)

    def plain(self) -> dict[str, Any]:
        """State as JSON has it."""
        return {"local": self.local, "remote": self.remote, "pair": self.pair.plain(), "open": self.open,
                "through": self.through, "runs": list(self.runs),
                "segments": [s.plain() for s in self.pair.segments],
                "stretches": [[s.remote_run, s.local_run, [p.plain() for p in s.pieces]] for s in self.stretches]}

    @classmethod
    def of_plain(cls, data: dict[str, Any]) -> Edge:
        """From ``plain``."""
        pair = Pair.of_plain(data["pair"])
        pair.segments = [Segment.of_plain(s) for s in data["segments"]]
        return cls(data["local"], data["remote"], pair,
                   [Stretch([Segment.of_plain(p) for p in pieces], remote, local)
                    for remote, local, pieces in data["stretches"]],
                   data["open"], data["through"], (data["runs"][0], data["runs"][1]))
