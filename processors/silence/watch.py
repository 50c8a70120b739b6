"""Who is silent, by the beats of all hosts in the order of one log.

There is no wall clock here, and hosts' clocks do not agree. A time F of the whole fleet follows the host that is
furthest: a host that is known stands at ``offset`` + its own clock, and F is the highest of those. A host is known once
its own clock and F have gone on together for some beats; one that delivers what it kept for long runs through it while
F stands still, and must not carry F into the future.

How long a host has said nothing is how far F went beyond what the host's last beat said, but no more than it went since
that beat was read: the beats of a host that is read late were there all the time.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median_low
from typing import Any, Final

PROBATION_BEATS: Final = 5
INTERVALS: Final = 9
"""Of the newest intervals between beats the median is the usual one; with less than three the fleet's is taken."""
STALLED_NS: Final = 600_000_000_000
"""Where F stands still for so long by a host's own clock, those that moved it are gone, and it may."""
SCAN_NS: Final = 250_000_000


@dataclass(frozen=True, slots=True)
class Beat:
    """``time``: reading of the host's reference clock, ns; ``run``: its producer's epoch, ascending."""

    host: str
    run: int
    time: int
    closed: bool


@dataclass(frozen=True, slots=True)
class Told:
    """``last``: its newest beat; ``now``: what its clock shows meanwhile, by the others; both in ns of its clock."""

    host: str
    state: str
    last: int
    now: int


@dataclass(slots=True)
class Member:
    """A host. ``steady``: beats in which it went on with F, up to PROBATION_BEATS; ``heard``: F when its last beat was
    read; ``stalled``: how long F stood still by its clock; ``stage``: what was told of its silence so far."""

    run: int
    time: int
    offset: int
    heard: int
    steady: int = 0
    stalled: int = 0
    closed: bool = False
    stage: int = 0
    intervals: list[int] = field(default_factory=list)

    @property
    def known(self) -> bool:
        """Whether it may move F."""
        return self.steady >= PROBATION_BEATS

    def usual_ns(self) -> int | None:
        """Its usual interval between beats."""
        return median_low(self.intervals) if len(self.intervals) >= 3 else None


@dataclass(slots=True)
class Fleet:
    """All hosts; ``now`` is F."""

    members: dict[str, Member] = field(default_factory=dict)
    now: int = 0
    scanned: int = 0

    def beat(self, beat: Beat, limits: Limits) -> list[Told]:
        """Take a beat; what it lets one say."""
        member = self.members.get(beat.host)
        if member is None:
            first = not self.members
            self.now = beat.time if first else self.now
            self.members[beat.host] = Member(beat.run, beat.time, self.now - beat.time, self.now,
                                             PROBATION_BEATS if first else 0, closed=beat.closed)
            return []
        if beat.run < member.run or (beat.run == member.run and beat.time <= member.time):
            member.closed = member.closed or (beat.run == member.run and beat.closed)
            return []
        return [*self._heard(member, beat), *self._scan(limits)]

    def _heard(self, member: Member, beat: Beat) -> list[Told]:
        passed = beat.time - member.time
        if beat.run > member.run and passed <= 0:  # its clock began again
            member.offset, passed = self.now - beat.time, 0
        elif not member.known:
            member.steady = member.steady + 1 if 2 * (self.now - member.heard) >= passed else 0
            member.stalled = member.stalled + passed if self.now == member.heard else 0
            member.steady = PROBATION_BEATS if member.stalled >= STALLED_NS else member.steady
            member.offset = min(member.offset, self.now - beat.time)
        told = []
        if member.stage:
            told = [Told(beat.host, "back", member.time, max(self.now - member.offset, beat.time))]
        elif passed > 0:
            member.intervals = [*member.intervals[1 - INTERVALS:], passed]
        member.run, member.time, member.closed, member.stage = beat.run, beat.time, beat.closed, 0
        if member.known or not any(m.known and not m.closed for m in self.members.values()):
            self.now = max(self.now, member.offset + beat.time)
        member.heard = self.now
        return told

    def _scan(self, limits: Limits) -> list[Told]:
        if self.now - self.scanned < SCAN_NS:
            return []
        self.scanned = self.now
        known = [usual for member in self.members.values() if (usual := member.usual_ns()) is not None]
        usual = median_low(known) if known else None
        return [told for name in sorted(self.members) for told in self._judge(name, self.members[name], limits, usual)]

    def _judge(self, name: str, member: Member, limits: Limits, usual_ns: int | None) -> list[Told]:
        elapsed = self.now - max(member.offset + member.time, member.heard)
        found = []
        for stage, (state, limit) in enumerate(limits.of(member, usual_ns), 1):
            if limit is not None and elapsed >= limit and member.stage < stage:
                member.stage = stage
                found.append(Told(name, state, member.time, member.time + limit))
        return found

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {"now": self.now, "scanned": self.scanned, "members": {
            name: [getattr(member, field) for field in Member.__dataclass_fields__]
            for name, member in sorted(self.members.items())}}

    @classmethod
    def of_plain(cls, data: dict[str, Any]) -> Fleet:
        """From ``plain``."""
        return cls({name: Member(*values) for name, values in data["members"].items()}, data["now"], data["scanned"])


@dataclass(frozen=True, slots=True)
class Limits:
    """``missed``: a host is silent after so many of its usual intervals; ``gone_s``: others stop waiting for what it
    had measured; ``closed_s``: so long after a host ended they stop waiting for what was on its way."""

    missed: int
    gone_s: float
    closed_s: float

    def of(self, member: Member, usual_ns: int | None) -> list[tuple[str, int | None]]:
        """States of a silence and after how many ns they begin, ascending. ``usual_ns``: what is usual in the fleet,
        for a host whose own habit is not known."""
        if member.closed:
            return [("ended", round(self.closed_s * 1e9))]
        usual, gone = member.usual_ns() or usual_ns, round(self.gone_s * 1e9)
        silent = None if usual is None else min(self.missed * usual, gone)
        return [("silent", silent), ("gone", gone)]
