"""The asking side: which answers become exchanges, and that the truth is within all that do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.links.initiator import EXACT_WAIT_NS, TIMEOUT_NS, FourStamps, Initiator
from ingest.links.responder import Responder
from ingest.links.wire import Message, identity

A, B = identity("a"), identity("b")
MS: Final = 1_000_000
AHEAD: Final = 777_000_000_000
"""B's clock is so far ahead of A's."""


@dataclass
class Way:
    """What the network does to one question and its answer; ns."""

    out: int = 20_000
    back: int = 20_000
    lost: bool = False
    lost_answer: bool = False
    again: bool = False


@dataclass
class Path:
    """An initiator and a responder with a network of events between them; times in ns of A's clock."""

    a: Initiator = field(default_factory=lambda: Initiator(A, B, 7))
    b: Responder = field(default_factory=lambda: Responder(B, b"secret"))
    start: int = 10_000 * MS

    def burst(self, ways: list[Way], spacing: int = 3 * MS) -> int:
        """Ask once a way, the last one as the follow-up, and play what arrives in the order of time; when it ends."""
        self.a.begin()
        events: list[tuple[int, int, str, Message, Way]] = []
        for i, way in enumerate(ways):
            at = self.start + i * spacing
            events.append((at, i, "ask", Message(0, 0, 0, 0, b"", b"", b""), way))
        at = self.start
        while events:
            events.sort(key=lambda e: (e[0], e[1]))
            at, number, what, message, way = events.pop(0)
            if what == "ask":
                asked = self.a.question(number.to_bytes(8), at, follow_up=number == len(ways) - 1)
                self.a.left(asked.sequence, at + 500)
                if not way.lost:
                    events += [(at + 600 + way.out, number, "answer", asked, way)] * (2 if way.again else 1)
            elif what == "answer":
                answer = self.b.answer(message, at + AHEAD + 300, at + AHEAD)
                if answer is not None:
                    sent = at + AHEAD + 40_000
                    self.b.sent(A, message.session, message.sequence, sent + 9_000)
                    if not way.lost_answer:
                        reply = answer._replace(sent=sent)
                        events += [(at + 50_000 + way.back, number, "back", reply, way)] * (2 if way.again else 1)
            else:
                self.a.answered(message, at + 200)
        self.start += 1_000 * MS
        return at


def holds(one: FourStamps) -> bool:
    """B − A is within what the exchange allows."""
    return one.sent - one.after <= AHEAD <= one.received - one.before


def settle(path: Path, bursts: int = 2) -> None:
    """Let the first cookies be exchanged."""
    for _ in range(bursts):
        path.a.take(path.burst([Way()] * 3) + TIMEOUT_NS + 1)


def test_all_but_the_follow_up_become_exact_exchanges_at_once() -> None:
    path = Path()
    settle(path)
    found = path.a.take(path.burst([Way()] * 9) + 1)
    assert len(found) == 8
    assert all(one.exact and holds(one) for one in found)
    assert {one.round_trip_ns for one in found} == {600 + 20_000 - 500 + 300 + 1_000 + 20_000 + 200}
    assert path.a.oldest is None


def test_without_the_follow_up_the_last_exchange_goes_out_with_its_early_stamp() -> None:
    path = Path()
    settle(path)
    end = path.burst([Way()] * 3 + [Way(lost_answer=True)])
    assert path.a.take(end + EXACT_WAIT_NS) == []
    found = path.a.take(end + TIMEOUT_NS + 1)
    assert [one.exact for one in found] == [True, True, False]
    assert all(holds(one) for one in found)


def test_lost_questions_and_answers_are_counted_and_the_others_used() -> None:
    path = Path()
    settle(path)
    end = path.burst([Way(), Way(lost=True), Way(), Way(lost_answer=True), Way(), Way()])
    found = path.a.take(end + TIMEOUT_NS + 1)
    assert len(found) == 3
    assert path.a.counts["lost"] == 2
    assert all(holds(one) for one in found)


def test_duplicates_are_used_once() -> None:
    path = Path()
    settle(path)
    end = path.burst([Way(again=True)] * 4)
    assert len(path.a.take(end + TIMEOUT_NS + 1)) == 3
    assert path.a.counts["duplicate"] == 4


def test_what_was_overtaken_is_left_out_so_that_no_stamp_runs_back() -> None:
    path = Path()
    settle(path)
    end = path.burst([Way(), Way(out=8 * MS), Way(), Way(), Way(back=8 * MS), Way(), Way(), Way()])
    found = path.a.take(end + TIMEOUT_NS + 1)
    assert len(found) == 5
    assert path.a.counts["overtaken"] == 2
    for stamps in zip(*(one[:4] for one in found), strict=True):
        assert list(stamps) == sorted(stamps)


def test_an_answer_after_its_time_or_from_nowhere_is_late() -> None:
    path = Path()
    settle(path)
    path.a.begin()
    asked = path.a.question(b"n" * 8, path.start)
    path.a.take(path.start + TIMEOUT_NS + 1)
    for wrong in (asked, asked._replace(session=8), asked._replace(sequence=999)):
        path.a.answered(wrong._replace(sender=B, received=1, sent=2), path.start + 5)
    assert path.a.counts["late"] == 3


def test_an_answer_with_another_nonce_or_of_another_host_is_not_used() -> None:
    path = Path()
    path.a.begin()
    asked = path.a.question(b"n" * 8, path.start)
    path.a.answered(asked._replace(sender=B, nonce=b"m" * 8, received=1, sent=2), path.start + 5)
    path.a.answered(asked._replace(sender=identity("c"), received=1, sent=2), path.start + 5)
    assert path.a.take(path.start + TIMEOUT_NS + 1) == []
    assert (path.a.counts["late"], path.a.counts["wrong_host"], path.a.counts["lost"]) == (1, 1, 1)


def test_stamps_that_cannot_be_are_not_used() -> None:
    path = Path()
    path.a.begin()
    for received, sent, after in ((10, 9, 50_000), (0, 900_000, 50_000), (10, 20, -5)):
        asked = path.a.question(b"n" * 8, path.start)
        path.a.answered(asked._replace(sender=B, received=received, sent=sent), path.start + after)
    assert path.a.take(path.start + TIMEOUT_NS + 1) == []
    assert path.a.counts["impossible"] == 3


def test_a_peer_that_booted_again_is_noticed_and_used_again() -> None:
    path = Path()
    for base in (AHEAD, 5):
        path.a.begin()
        for i in range(2):
            at = path.start + i * MS
            asked = path.a.question(b"n" * 8, at)
            path.a.answered(asked._replace(sender=B, received=base + i * MS, sent=base + i * MS + 10), at + 50)
        assert len(path.a.take(path.start + TIMEOUT_NS + 1)) == 2
        path.start += 2_000 * MS
    assert path.a.counts["peer_restarts"] == 1


def test_it_asks_to_be_woken_only_ahead_and_not_when_nothing_is_open() -> None:
    path = Path()
    assert path.a.wake(path.start) is None
    path.a.begin()
    path.a.question(b"n" * 8, path.start)
    for now in (path.start, path.start + EXACT_WAIT_NS + 2):
        wake = path.a.wake(now)
        assert wake is not None
        assert wake > now
    assert path.a.take(path.a.wake(path.start + EXACT_WAIT_NS + 2) or 0) == []
    assert path.a.wake(path.start) is None


WAYS = st.builds(Way, st.integers(0, 12 * MS), st.integers(0, 12 * MS), st.booleans(), st.booleans(), st.booleans())


@settings(max_examples=150, deadline=None)
@given(st.lists(st.lists(WAYS, min_size=1, max_size=10), min_size=1, max_size=4))
def test_whatever_the_network_does_the_truth_is_within_and_all_is_accounted_for(bursts: list[list[Way]]) -> None:
    path = Path()
    found: list[FourStamps] = []
    for ways in bursts:
        found += path.a.take(path.burst(ways) + TIMEOUT_NS + 1)
    assert all(holds(one) for one in found)
    for stamps in zip(*(one[:4] for one in found), strict=True):
        assert list(stamps) == sorted(set(stamps))
    counts = path.a.counts
    assert counts["sent"] == sum(len(ways) - 1 for ways in bursts) == counts["answered"] + counts["lost"]
    assert counts["answered"] == counts["used"] + counts["overtaken"] + counts["impossible"]
    assert counts["impossible"] == 0
    assert counts["used"] == len(found)
