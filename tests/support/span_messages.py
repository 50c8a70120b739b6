"""Messages of the topic aligned.spans, numbered as a producer would, for tests of the loops around steps and tables."""

from __future__ import annotations

from fleetscope.contracts.batch import Batch, from_rows
from fleetscope.contracts.codec import Encoded, encode
from fleetscope.contracts.derived import ALIGNED_SPANS
from fleetscope.stream.abstract import Stream
from tests.support.contract_batches import header

TOPIC = "aligned.spans"
NOON_NS = 1_790_000_000_000_000_000 // 86_400_000_000_000 * 86_400_000_000_000 + 43_200_000_000_000
"""Noon of a day in 2026."""

DAY_NS = 86_400_000_000_000


def spans(host: str, sequence: int, starts_ns: list[int], **changes: object) -> Batch:
    """One span a start."""
    rows: list[dict[str, object]] = [
        {"track": "engine:0", "name": f"kernel-{sequence}", "start_ticks": start, "duration_ticks": 5, "wait_ids": [],
         "attributes": [], "start_ns": start, "duration_ns": 5, "err_ns": 10, "alignment": "settled"}
        for start in starts_ns
    ]
    made = header(ALIGNED_SPANS, len(rows), host=host, producer=f"{host}/agent", sequence=sequence, **changes)
    return Batch(made, from_rows(ALIGNED_SPANS, rows))


def spans_message(host: str, sequence: int, rows: int, start_ns: int = NOON_NS) -> Encoded:
    """``rows`` spans from ``start_ns`` on, 1 µs apart."""
    return encode(spans(host, sequence, [start_ns + 1_000 * i for i in range(rows)]))


def send(stream: Stream, *messages: Encoded, topic: str = TOPIC) -> None:
    """Publish by key."""
    producer = stream.producer("test")
    for message in messages:
        producer.send(topic, message)
    producer.flush()
    producer.close()


def damaged(message: Encoded) -> Encoded:
    """The same headers over bytes that cannot be decoded."""
    return Encoded(message.key, b"\x00" * 20, message.headers)
