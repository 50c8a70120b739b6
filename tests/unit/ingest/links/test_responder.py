"""The answering side: sessions, repeats, recorded questions, floods, and the exact stamp of the answer before."""

from __future__ import annotations

from typing import Final

from hypothesis import given
from hypothesis import strategies as st

from ingest.links.limits import Buckets
from ingest.links.responder import MAX_SENDERS, PER_SENDER, WINDOW, Responder, Sender, _advance
from ingest.links.wire import ANSWER, NO_COOKIE, QUESTION, Message, identity

A, ME = identity("a"), identity("me")
NS: Final = 1_000_000_000


def question(sequence: int, cookie: bytes = NO_COOKIE, session: int = 7, sender: bytes = A) -> Message:
    return Message(QUESTION, 0, session, sequence, sequence.to_bytes(8), cookie, sender)


class Talk:
    """A responder and one sender that keeps the cookie it was given last."""

    def __init__(self) -> None:
        self.responder = Responder(ME, b"secret")
        self.cookie = NO_COOKIE
        self.sequence = 0
        self.now = NS

    def ask(self, session: int = 7) -> Message:
        self.now += NS // 10
        self.sequence += 1
        answer = self.responder.answer(question(self.sequence, self.cookie, session), self.now, self.now)
        assert answer is not None
        self.cookie = answer.cookie
        return answer


def test_an_answer_repeats_the_question_and_states_when_it_came() -> None:
    answer = Talk().ask()
    assert (answer.kind, answer.session, answer.sequence, answer.nonce) == (ANSWER, 7, 1, (1).to_bytes(8))
    assert (answer.sender, answer.received, answer.earlier) == (ME, NS + NS // 10, 0)


def test_the_exact_stamp_of_an_answer_is_in_the_next_one() -> None:
    talk = Talk()
    for _ in range(3):
        talk.ask()
    talk.responder.sent(A, 7, 3, 555)
    talk.responder.sent(A, 7, 3, 560)
    answer = talk.ask()
    assert (answer.earlier, answer.earlier_sent) == (3, 560)


def test_a_question_is_answered_once_whatever_the_order() -> None:
    talk = Talk()
    for _ in range(3):
        talk.ask()
    cookie = talk.cookie
    for sequence, fresh in ((10, True), (8, True), (10, False), (8, False), (9, True), (3, False), (80, True),
                            (80 - WINDOW, False), (81 - WINDOW, True)):
        talk.now += NS
        answer = talk.responder.answer(question(sequence, cookie), talk.now, talk.now)
        assert (answer is not None) == fresh, sequence
    assert talk.responder.counts["replayed"] == 4


@given(st.lists(st.integers(1, 200), max_size=80))
def test_the_window_is_a_set_of_what_came_and_refuses_what_is_too_old(sequences: list[int]) -> None:
    sender, seen, highest = Sender(), set[int](), 0
    for sequence in sequences:
        expected = sequence not in seen and sequence > highest - WINDOW
        assert _advance(sender, sequence) == expected
        seen.add(sequence)
        highest = max(highest, sequence)


def test_recorded_questions_of_a_former_session_change_nothing_and_leave_the_live_one_its_share() -> None:
    talk = Talk()
    recorded = []
    for _ in range(5):
        recorded.append(question(talk.sequence + 1, talk.cookie))
        talk.ask()
    talk.sequence, talk.cookie = 0, NO_COOKIE
    for _ in range(3):
        talk.ask(session=8)
    talk.responder.sent(A, 8, 3, 999)
    for _ in range(200):
        for old in recorded:
            talk.responder.answer(old, talk.now, talk.now)
    answer = talk.ask(session=8)
    assert (answer.earlier, answer.earlier_sent) == (3, 999)
    assert talk.responder.counts["limited"] >= 900


def test_a_responder_that_starts_anew_is_followed() -> None:
    talk = Talk()
    for _ in range(3):
        talk.ask()
    talk.responder = Responder(ME, b"another")
    first, second, third = talk.ask(), talk.ask(), talk.ask()
    assert first.cookie != second.cookie == third.cookie


def test_this_host_s_own_questions_are_not_answered() -> None:
    responder = Responder(ME, b"secret")
    assert responder.answer(question(1, sender=ME), 1, 1) is None
    assert responder.counts["own"] == 1


def test_a_peer_that_asks_too_much_waits_and_others_do_not() -> None:
    talk = Talk()
    for _ in range(3):
        talk.ask()
    answered = sum(talk.responder.answer(question(100 + i, talk.cookie), talk.now, talk.now) is not None
                   for i in range(200))
    assert answered <= PER_SENDER[1]
    assert talk.responder.answer(question(1, sender=identity("b")), talk.now, talk.now) is not None
    talk.now += 2 * NS
    assert talk.responder.answer(question(500, talk.cookie), talk.now, talk.now) is not None


def test_floods_are_cut_before_any_signature_is_looked_at() -> None:
    responder = Responder(ME, b"secret")
    admitted = sum(responder.admit("198.51.100.1", NS) for _ in range(5_000))
    assert admitted == 600
    assert responder.admit("198.51.100.2", NS)
    assert sum(responder.admit(f"10.0.{i >> 8}.{i & 255}", NS) for i in range(60_000)) <= 20_000
    assert responder.counts["flooded"] > 40_000


def test_memory_is_bounded_whoever_asks() -> None:
    responder = Responder(ME, b"secret")
    for i in range(MAX_SENDERS + 500):
        responder.answer(question(1, sender=identity(str(i))), i * NS, i * NS)
    assert len(responder._senders) == MAX_SENDERS
    buckets = Buckets(1, 1, 10)
    for i in range(100):
        buckets.take(i, 0)
    assert len(buckets) == 10
