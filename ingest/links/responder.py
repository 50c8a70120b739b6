"""The side that answers: no sockets and no clock, so that every case can be played.

A question changes what the responder knows of a sender only if it carries the cookie that an answer gave for that
session. The cookie is made anew whenever a session replaces the former one, so recorded questions of an old session are
worth nothing; within a session a window of sequence numbers lets every question through once (RFC 4303, 3.4.3).
"""

from __future__ import annotations

import hmac
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Final

from ingest.links.limits import Bucket, Buckets
from ingest.links.wire import ANSWER, Message

WINDOW: Final = 64
MAX_SENDERS: Final = 4096
PER_SENDER: Final = 30.0, 40.0
"""Answers a second and in one go; a peer asks 9 times a second."""
PER_STRANGER: Final = 5.0, 20.0
"""The same for a session whose questions have no valid cookie, as the first ones have none."""
PER_ADDRESS: Final = 600.0, 600.0
IN_ALL: Final = 20_000.0, 20_000.0
"""Packets a second whose signature is looked at."""


@dataclass(slots=True)
class Sender:
    """What is known of one host that asks: its session, the window of its sequence, and the last exact stamp."""

    generation: int = 0
    session: int = 0
    highest: int = 0
    seen: int = 0
    earlier: int = 0
    earlier_sent: int = 0


class Responder:
    """``secret`` is random bytes of this process; ``me`` the identity of this host."""

    def __init__(self, me: bytes, secret: bytes) -> None:
        self._me = me
        self._secret = secret
        self._senders: OrderedDict[bytes, Sender] = OrderedDict()
        self._by_sender = Buckets(*PER_SENDER, MAX_SENDERS)
        self._strangers = Buckets(*PER_STRANGER, MAX_SENDERS)
        self._by_address = Buckets(*PER_ADDRESS, MAX_SENDERS)
        self._all = Bucket(*IN_ALL, IN_ALL[1], 0)
        self.counts: Counter[str] = Counter()
        """answered, flooded, limited, replayed, own."""

    def admit(self, address: str, now: int) -> bool:
        """Whether a packet from ``address`` is looked at: what is not authenticated yet may cost no more than this."""
        if self._all.take(now) and self._by_address.take(address, now):
            return True
        self.counts["flooded"] += 1
        return False

    def answer(self, question: Message, received: int, now: int) -> Message | None:
        """The answer but for ``sent``, or None. ``received`` and ``now`` are ns of MONOTONIC_RAW."""
        if question.sender == self._me:
            self.counts["own"] += 1
            return None
        sender = self._sender(question.sender)
        right = hmac.compare_digest(question.cookie,
                                    self._cookie(question.sender, question.session, sender.generation))
        if right and not self._is_new(sender, question):
            self.counts["replayed"] += 1
            return None
        # Recorded questions can only use up what strangers get of one session, never what the live session gets.
        allowed = self._by_sender.take(question.sender, now) if right \
            else self._strangers.take((question.sender, question.session), now)
        if not allowed:
            self.counts["limited"] += 1
            return None
        known = sender.session == question.session
        self.counts["answered"] += 1
        return Message(ANSWER, question.flags, question.session, question.sequence, question.nonce,
                       self._cookie(question.sender, question.session, sender.generation), self._me, received, 0,
                       sender.earlier if known else 0, sender.earlier_sent if known else 0)

    def sent(self, who: bytes, session: int, sequence: int, exact: int) -> None:
        """The answer to ``sequence`` left at ``exact``: the next answer says so. May be called again with a better one.
        """
        sender = self._senders.get(who)
        if sender is not None and sender.session == session and sequence >= sender.earlier:
            sender.earlier, sender.earlier_sent = sequence, exact

    def _sender(self, who: bytes) -> Sender:
        if who in self._senders:
            self._senders.move_to_end(who)
            return self._senders[who]
        if len(self._senders) >= MAX_SENDERS:
            self._senders.popitem(last=False)
        sender = self._senders[who] = Sender()
        return sender

    @staticmethod
    def _is_new(sender: Sender, question: Message) -> bool:
        """False for a repeat within the session; another session replaces the former, whose cookie dies with it."""
        if sender.session != question.session:
            sender.generation += 1
            sender.session, sender.highest, sender.seen, sender.earlier = question.session, 0, 0, 0
        return _advance(sender, question.sequence)

    def _cookie(self, who: bytes, session: int, generation: int) -> bytes:
        return hmac.digest(self._secret, who + session.to_bytes(8) + generation.to_bytes(8), "sha256")[:8]


def _advance(sender: Sender, sequence: int) -> bool:
    """Whether ``sequence`` is new; notes it. Bit i of ``seen`` stands for ``highest`` − i."""
    ahead = sequence - sender.highest
    if ahead > 0:
        sender.seen = (sender.seen << min(ahead, WINDOW) | 1) & (1 << WINDOW) - 1
        sender.highest = sequence
        return True
    if -ahead >= WINDOW or sender.seen >> -ahead & 1:
        return False
    sender.seen |= 1 << -ahead
    return True
