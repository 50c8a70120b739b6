"""A message that could not be used, as a row."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fleetscope.contracts.batch import Header
from fleetscope.contracts.codec import decode, encode
from fleetscope.errors import Origin, RejectedError
from fleetscope.stream.abstract import Message
from processors.dead_letters import HEAD_BYTES, dead_letter

MESSAGE = Message("raw.spans", 3, 17, b"h1", b"\x01\x02" * 100, (), 1_790_000_000_123)
ERROR = RejectedError("not_arrow", "the value is no Arrow stream", Origin("raw.spans", 3, 17))
HEADER = Header("spans", 1, "h1", "h1/agent", 4, 9, 250)


def test_it_says_where_the_message_stood_why_it_was_refused_and_what_it_claimed() -> None:
    output = dead_letter("align", MESSAGE, ERROR, HEADER)
    (row,) = output.batch.rows.to_pylist()
    assert output.topic == "dead_letters"
    assert {name: row[name] for name in ("topic", "partition", "offset", "step", "code", "reason", "rows", "host",
                                         "size_bytes", "time_ms")} == {
        "topic": "raw.spans", "partition": 3, "offset": 17, "step": "align", "code": "not_arrow",
        "reason": "the value is no Arrow stream", "rows": 250, "host": "h1", "size_bytes": 200,
        "time_ms": 1_790_000_000_123}
    assert row["head"] == ("0102" * 100)[:2 * HEAD_BYTES]


def test_the_same_message_refused_again_has_the_same_identity() -> None:
    one, again = (dead_letter("align", MESSAGE, ERROR, HEADER).batch.header for _ in range(2))
    other = dead_letter("align", replace(MESSAGE, offset=18), ERROR, HEADER).batch.header
    assert one == again
    assert (one.stream, one.sequence) != (other.stream, other.sequence)


@pytest.mark.parametrize("key", [None, b"", b"\xff\xfe", b"x" * 1_000, "h\u00f6st".encode()])
@pytest.mark.parametrize("value", [None, b"", b"\x00"])
def test_whatever_the_message_is_its_dead_letter_can_be_published(key: bytes | None, value: bytes | None) -> None:
    made = dead_letter("align", replace(MESSAGE, key=key, value=value), ERROR, None)
    message = encode(made.batch)
    (row,) = decode(message.key, message.value, message.headers).rows.to_pylist()
    assert row["rows"] == 0
    assert row["size_bytes"] == len(value or b"")


def test_a_claim_of_absurdly_many_rows_is_bounded() -> None:
    (row,) = dead_letter("align", MESSAGE, ERROR, replace(HEADER, rows=1 << 62)).batch.rows.to_pylist()
    assert row["rows"] == 1 << 40
