"""One message that a step cannot take, and a snapshot that cannot be read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from fleetscope.clock import ManualClock
from fleetscope.contracts.batch import Batch
from fleetscope.contracts.codec import Encoded, decode, encode
from fleetscope.contracts.raw import SPANS
from fleetscope.contracts.topics import TOPICS
from fleetscope.errors import UsageError
from fleetscope.step import Output, TopicPartition
from fleetscope.stream.memory import MemoryStream
from processors.metrics import Metrics
from processors.worker import Worker
from tests.support.contract_batches import header, plain


@dataclass(frozen=True)
class Counting:
    """Counts batches; cannot take sequence 1."""

    name: str = "counting"
    inputs: tuple[str, ...] = ("raw.spans",)
    broadcast: tuple[str, ...] = ()
    seen: list[int] = field(default_factory=list)

    def start(self) -> int:
        return 0

    def on_batch(self, state: int, batch: Batch) -> tuple[int, list[Output]]:
        if batch.header.sequence == 1:
            raise OverflowError("too large to convert")
        self.seen.append(batch.header.sequence)
        return state + 1, []

    def on_end(self, state: int) -> list[Output]:
        return []

    def held(self, state: int) -> Mapping[TopicPartition, int]:
        return {}

    def snapshot(self, state: int) -> bytes:
        return str(state).encode()

    def restore(self, data: bytes) -> int:
        return int(data)


def stream_with(sequences: range) -> MemoryStream:
    stream = MemoryStream(1)
    stream.ensure_topics(TOPICS)
    stream.declare_group("counting", ["raw.spans"])
    stream.declare_group("watch", ["dead_letters"])
    producer = stream.producer("test")
    for sequence in sequences:
        producer.send("raw.spans", encode(Batch(header(SPANS, 1, sequence=sequence), plain(SPANS, 1).rows)))
    return stream


def worker(stream: MemoryStream, step: Counting) -> Worker:
    return Worker(step, stream, instance="t", metrics=Metrics(), commit_interval_s=0.0, held_bytes=1 << 20,
                  clock=ManualClock())


def test_a_message_that_a_step_fails_on_becomes_a_dead_letter_and_the_flow_goes_on() -> None:
    stream, step = stream_with(range(4)), Counting()
    running = worker(stream, step)
    for _ in range(8):
        running.round(0.0)
    assert step.seen == [0, 2, 3]
    (letter,) = stream.consumer("watch", ["dead_letters"]).poll(10, 0.0)
    (row,) = decode(letter.key, letter.value, letter.headers).rows.to_pylist()
    assert (row["code"], row["topic"], row["offset"]) == ("step_failed", "raw.spans", 1)
    assert "OverflowError: too large to convert" in row["reason"]


def test_a_snapshot_that_cannot_be_read_is_named_with_its_remedy() -> None:
    stream = stream_with(range(1))
    damaged = Encoded(b"counting/0", b"junk", ())
    stream.producer("test").send("snapshots", damaged, 0)
    with pytest.raises(UsageError, match=r"snapshots, key counting/0: .*tombstone"):
        worker(stream, Counting()).round(0.0)


def test_an_empty_record_for_the_key_begins_anew() -> None:
    stream, step = stream_with(range(1)), Counting()
    for value in (b"junk", b""):
        stream.producer("test").send("snapshots", Encoded(b"counting/0", value, ()), 0)
    running = worker(stream, step)
    for _ in range(3):
        running.round(0.0)
    assert step.seen == [0]
