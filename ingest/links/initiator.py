"""The side that asks one peer: bursts of questions, and of the answers the exchanges that can be used.

No sockets and no clock. A burst is decided when all its questions are answered with their exact stamps, or when its
time is over. Exchanges come out in the order of their questions; one that a later one overtook is left out, since it
was slow and its stamps would run back. What is not used is counted by reason.
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ingest.links.wire import FOLLOW_UP, NO_COOKIE, QUESTION, Message

TIMEOUT_NS: Final = 1_000_000_000
EXACT_WAIT_NS: Final = 200_000_000
"""After the last answer the exact stamps of answers are waited for no longer than this."""
QUICK_KEPT: Final = 64


class FourStamps(NamedTuple):
    """ns of MONOTONIC_RAW: question left, came (at the peer), answer left, came back. ``exact``: ``sent`` is not early.
    """

    before: int
    received: int
    sent: int
    after: int
    exact: bool

    @property
    def round_trip_ns(self) -> int:
        """Time on the way, both ways, without what the peer took."""
        return self.after - self.before - (self.sent - self.received)


@dataclass(slots=True)
class _Question:
    nonce: bytes
    follow_up: bool
    at: int
    before: int
    answer: tuple[int, int, int] | None = None
    """received, sent, after."""
    exact: bool = False


@dataclass(slots=True)
class _Burst:
    questions: dict[int, _Question] = field(default_factory=dict)
    last_at: int = 0


class Initiator:
    """Of one peer. ``expected`` is the identity that its answers must have."""

    def __init__(self, me: bytes, expected: bytes, session: int) -> None:
        self._me, self._expected, self._session = me, expected, session
        self._sequence = 0
        self._cookie = NO_COOKIE
        self._bursts: deque[_Burst] = deque()
        self._last: FourStamps | None = None
        self.counts: Counter[str] = Counter()
        """sent, answered, lost, duplicate, late, wrong_host, impossible, overtaken, used, exact, peer_restarts."""
        self.round_trips: deque[int] = deque(maxlen=QUICK_KEPT)
        """Of the exchanges used last, ns."""

    @property
    def oldest(self) -> int | None:
        """When the first question left that is not decided yet; None where all are."""
        return next((q.before for burst in self._bursts for q in burst.questions.values()), None)

    def begin(self) -> None:
        """The next question opens a new burst."""
        self._bursts.append(_Burst())

    def question(self, nonce: bytes, now: int, *, follow_up: bool = False) -> Message:
        """The next question of the burst; its stamp is ``now`` until ``left`` gives a better one."""
        if not self._bursts:
            self.begin()
        self._sequence += 1
        burst = self._bursts[-1]
        burst.questions[self._sequence] = _Question(nonce, follow_up, now, now)
        burst.last_at = now
        self.counts["sent"] += not follow_up
        return Message(QUESTION, FOLLOW_UP if follow_up else 0, self._session, self._sequence, nonce, self._cookie,
                       self._me)

    def left(self, sequence: int, before: int) -> None:
        """The question left no earlier than ``before``; the latest such statement counts."""
        found = self._find(sequence)
        if found is not None:
            found.before = max(found.before, before)

    def answered(self, answer: Message, after: int) -> None:
        """Take an authentic answer that was there by ``after``, or count why not."""
        if answer.sender != self._expected:
            self.counts["wrong_host"] += 1
            return
        found = self._find(answer.sequence) if answer.session == self._session else None
        if found is None or found.nonce != answer.nonce:
            self.counts["late"] += 1
            return
        if found.answer is not None:
            self.counts["duplicate"] += 1
            return
        self._cookie = answer.cookie
        found.answer = (answer.received, answer.sent, after)
        earlier = self._find(answer.earlier) if answer.earlier else None
        if earlier is not None and earlier.answer is not None and not earlier.exact:
            received, sent, back = earlier.answer
            if sent <= answer.earlier_sent:
                earlier.answer, earlier.exact = (received, answer.earlier_sent, back), True

    def take(self, now: int) -> list[FourStamps]:
        """Exchanges of the bursts that are decided, in order."""
        found: list[FourStamps] = []
        while self._bursts and _decided(self._bursts[0], now):
            found += self._use(self._bursts.popleft())
        return found

    def wake(self, now: int) -> int | None:
        """When `take` may have something though nothing comes; None where nothing is open."""
        if not self._bursts:
            return None
        exact = self._bursts[0].last_at + EXACT_WAIT_NS + 1
        return exact if now < exact else self._bursts[0].last_at + TIMEOUT_NS + 1

    def _find(self, sequence: int) -> _Question | None:
        return next((b.questions[sequence] for b in self._bursts if sequence in b.questions), None)

    def _use(self, burst: _Burst) -> list[FourStamps]:
        stamps = []
        for question in burst.questions.values():
            if question.answer is None:
                self.counts["lost"] += not question.follow_up
                continue
            if question.follow_up:
                continue
            self.counts["answered"] += 1
            one = FourStamps(question.before, *question.answer, question.exact)
            if one.before <= one.after and one.received <= one.sent and one.round_trip_ns >= -_allowance(one):
                stamps.append(one)
            else:
                self.counts["impossible"] += 1
        used = _without_overtaken(stamps, self._last)
        self.counts["overtaken"] += len(stamps) - len(used)
        self.counts["used"] += len(used)
        self.counts["exact"] += sum(one.exact for one in used)
        self.round_trips.extend(one.round_trip_ns for one in used)
        if used:
            self.counts["peer_restarts"] += self._last is not None and used[0].received < self._last.received
            self._last = used[-1]
        return used


def _allowance(one: FourStamps) -> int:
    """Two clocks may differ in rate by 200 ppm while the peer holds the question, and each stamp by a tick."""
    return (one.sent - one.received) // 5_000 + 4


def _decided(burst: _Burst, now: int) -> bool:
    open_, inexact = False, False
    for question in burst.questions.values():
        open_ |= question.answer is None
        inexact |= not question.exact and not question.follow_up
    age = now - burst.last_at
    return age > TIMEOUT_NS or (not open_ and (not inexact or age > EXACT_WAIT_NS))


def _without_overtaken(stamps: list[FourStamps], last: FourStamps | None) -> list[FourStamps]:
    """From the end: an exchange stays if each of its stamps is before those of all that stay after it."""
    kept: list[FourStamps] = []
    for one in reversed(stamps):
        if not kept or all(a < b for a, b in zip(one[:4], kept[-1][:4], strict=True)):
            kept.append(one)
    kept.reverse()
    # A peer that booted again counts from 0: only its own stamps may fall, and only between bursts.
    return [one for one in kept if last is None or (last.before < one.before and last.after < one.after)]
