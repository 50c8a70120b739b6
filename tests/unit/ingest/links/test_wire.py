"""Messages: what was packed comes back, and nothing else passes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ingest.links.wire import ANSWER, QUESTION, SIZE, Message, identity, seal, unseal

KEY = b"k" * 32
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
UINT64 = st.integers(0, (1 << 64) - 1)
MESSAGES = st.builds(Message, st.sampled_from([QUESTION, ANSWER]), st.integers(0, 65_535), UINT64, UINT64,
                     st.binary(min_size=8, max_size=8), st.binary(min_size=8, max_size=8),
                     st.binary(min_size=16, max_size=16), INT64, INT64, UINT64, INT64)


@given(MESSAGES)
def test_messages_survive_the_way_and_have_one_size(message: Message) -> None:
    data = seal(KEY, message)
    assert len(data) == SIZE
    assert unseal(KEY, data) == message


@given(MESSAGES, st.integers(0, SIZE - 1), st.integers(1, 255))
def test_any_changed_byte_is_noticed(message: Message, place: int, change: int) -> None:
    data = bytearray(seal(KEY, message))
    data[place] ^= change
    assert unseal(KEY, bytes(data)) in ("foreign", "version", "forged")


@given(MESSAGES, st.integers(0, 400))
def test_any_other_length_is_refused_before_the_signature_is_looked_at(message: Message, size: int) -> None:
    data = (seal(KEY, message) * 4)[:size]
    assert unseal(KEY, data) == (message if size == SIZE else "size")


def test_another_key_is_a_forgery() -> None:
    assert unseal(b"j" * 32, seal(KEY, Message(QUESTION, 0, 1, 1, bytes(8), bytes(8), bytes(16)))) == "forged"


def test_a_kind_that_is_neither_is_named() -> None:
    assert unseal(KEY, seal(KEY, Message(3, 0, 1, 1, bytes(8), bytes(8), bytes(16)))) == "kind"


@given(st.text(max_size=80), st.text(max_size=80))
def test_identities_are_those_of_their_hosts(one: str, other: str) -> None:
    assert len(identity(one)) == 16
    assert (identity(one) == identity(other)) == (one == other)
