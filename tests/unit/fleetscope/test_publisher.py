"""Numbering, splitting and counting of one producer's batches, and an outbox that loses nothing."""

from __future__ import annotations

import random

import pyarrow as pa

from fleetscope.contracts.batch import Batch, from_rows
from fleetscope.contracts.codec import MAX_MESSAGE_BYTES, MAX_ROWS, Encoded, decode
from fleetscope.contracts.raw import MARKS
from fleetscope.errors import RetryError
from fleetscope.outbox import Outbox
from fleetscope.publisher import Promise, Publisher


class Sender:
    """Refuses while ``down``; keeps the rest."""

    def __init__(self) -> None:
        self.down = False
        self.messages: list[tuple[str, Encoded]] = []

    def send(self, topic: str, message: Encoded) -> None:
        if self.down:
            raise RetryError("down")
        self.messages.append((topic, message))

    def flush(self, timeout_s: float = 30.0) -> None:
        if self.down:
            raise RetryError("down")

    def batches(self, topic: str) -> list[Batch]:
        return [decode(m.key, m.value, m.headers) for t, m in self.messages if t == topic]


def marks(count: int, detail_bytes: int = 0) -> pa.RecordBatch:
    """Rows of a contract; the details do not compress."""
    noise = random.Random(1)
    return from_rows(MARKS, [{"time_ticks": n, "kind": "note", "subject": "host", "name": "n",
                              "detail": noise.randbytes(detail_bytes).hex()} for n in range(count)])


def test_rows_beyond_the_limits_are_split_and_numbered_on() -> None:
    sender = Sender()
    publisher = Publisher("h", "h/p", 1, Outbox(sender))
    publisher.publish(MARKS, marks(MAX_ROWS + 5), "c", "t", 9)
    publisher.publish(MARKS, marks(60, 50_000), "c", "t", 9)
    batches = sender.batches("t")
    assert [b.header.sequence for b in batches] == list(range(len(batches)))
    assert [len(b) for b in batches[:2]] == [MAX_ROWS, 5]
    assert len(batches) > 3
    assert [t for b in batches[2:] for t in b.rows.column("time_ticks").to_pylist()] == list(range(60))
    assert all(len(m.value) <= MAX_MESSAGE_BYTES for _, m in sender.messages)
    assert publisher.counts("marks").rows == MAX_ROWS + 65


def test_a_row_larger_than_a_message_is_dropped_and_counted() -> None:
    sender = Sender()
    publisher = Publisher("h", "h/p", 1, Outbox(sender))
    assert publisher.publish(MARKS, marks(1, 2_000_000), "c", "t", 9) == 1
    publisher.publish(MARKS, marks(1), "c", "t", 9)
    (batch,) = sender.batches("t")
    assert (batch.header.sequence, batch.header.dropped_rows) == (0, 1)


def test_a_full_outbox_drops_new_rows_and_says_so_once_in_headers_and_always_in_heartbeats() -> None:
    sender = Sender()
    outbox = Outbox(sender, limit_bytes=1)
    publisher = Publisher("h", "h/p", 1, outbox)
    sender.down = True
    assert publisher.publish(MARKS, marks(2), "c", "t", 9) == 0
    assert publisher.publish(MARKS, marks(3), "c", "t", 9) == 3
    sender.down = False
    assert outbox.settle()
    publisher.publish(MARKS, marks(4), "c", "t", 9)
    outbox.settle()
    publisher.publish(MARKS, marks(5), "c", "t", 9, dropped=2)
    outbox.settle()
    publisher.heartbeat("beats", 100, {"marks": Promise("c", 90)}, closed=True)
    assert [(b.header.sequence, len(b), b.header.dropped_rows) for b in sender.batches("t")] \
        == [(0, 2, 0), (1, 4, 3), (2, 5, 2)]
    (beat,) = sender.batches("beats")
    assert beat.rows.to_pylist() == [{
        "time_ticks": 100, "contract": "marks", "clock": "c", "batches_total": 3, "rows_total": 11,
        "dropped_rows_total": 5, "through_ticks": 90, "closed": True}]


def test_after_a_refusal_nothing_overtakes_what_waits() -> None:
    sender = Sender()
    outbox = Outbox(sender)
    publisher = Publisher("h", "h/p", 1, outbox)
    sender.down = True
    publisher.publish(MARKS, marks(1), "c", "t", 9)
    sender.down = False
    publisher.publish(MARKS, marks(2), "c", "t", 9)
    assert sender.messages == []
    assert outbox.settle()
    assert [b.header.sequence for b in sender.batches("t")] == [0, 1]
    assert len(outbox) == 0


def test_what_was_taken_but_never_acknowledged_is_sent_again() -> None:
    sender = Sender()
    outbox = Outbox(sender)
    publisher = Publisher("h", "h/p", 1, outbox)
    publisher.publish(MARKS, marks(1), "c", "t", 9)
    sender.down = True
    assert not outbox.settle()
    assert (len(outbox), outbox.refusals) == (1, 1)
    sender.down = False
    assert outbox.settle()
    assert [b.header.sequence for b in sender.batches("t")] == [0, 0]
