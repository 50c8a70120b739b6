"""The pipeline people write first, done well: one JSON message an event, kafka-python, orjson, inserts of 50k rows.

What was tried for it on two cores with 150,000 events of 260 B (produce, then consume and decode, in events/s):
no compression 60,000 and 107,000 to 128,000; lz4 59,000 and 134,000; zstd 51,000 to 55,000 and 128,000 to 139,000; gzip
38,000 and 140,000. lz4 costs the producer nothing and makes the reader's fetches small. Batches of 256 KiB and of
900 KiB were alike; lingering 50 ms fills them, acks=1 spares waiting for replicas.

With ``workers`` above 1 that many processes share the partitions, decode, and hand columns to this one, which inserts:
the embedded engine belongs to one process.
"""

from __future__ import annotations

import gc
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from kafka import KafkaConsumer, KafkaProducer, TopicPartition

from bench import broker
from bench.json_rows import Aligner, BusyWindows, Rows, messages, windows_table
from bench.measure import Measured, Meter
from fleetscope.contracts.batch import Batch
from fleetscope.settings import KafkaSettings, Settings
from fleetscope.store.abstract import Store

TOPIC: Final = "json.spans"
COMPRESSION: Final = "lz4"
GROUP: Final = "json-pipeline"
_NS: Final = 1_000_000_000
_FLUSH_EVERY: Final = 100_000
_POLL_MS: Final = 200
_POLL_RECORDS: Final = 10_000
_log = logging.getLogger(__name__)


class StalledError(RuntimeError):
    """The topic holds or gave less than was expected."""


@dataclass(frozen=True, slots=True)
class Block:
    """What is delivered at once: rows of ``spans``, windows that closed, how many messages were no events."""

    spans: pa.Table
    windows: pa.Table
    rejected: int
    token: str


def prefill(settings: KafkaSettings, events: Iterable[Batch], *, compression: str | None = COMPRESSION,
            clock_hz: Mapping[tuple[str, str], int] | None = None) -> int:
    """Publish every span of ``events`` as a JSON message of its own; returns how many that were.

    ``clock_hz`` gives ticks a second by (host, clock); 1e9 where it says nothing. Raises StalledError where the broker
    holds another number of messages afterwards than were sent.
    """
    hz = {} if clock_hz is None else clock_hz  # may be filled while the events are read
    broker.ensure_topic(settings, TOPIC)
    before = broker.messages(settings, TOPIC)
    topic, sent = settings.topic_prefix + TOPIC, 0
    producer = KafkaProducer(**broker.connection(settings), acks=1, enable_idempotence=False, linger_ms=50,
                             batch_size=512 * 1024, compression_type=compression)
    try:
        for batch in events:
            key = f"{batch.header.host}/{batch.header.clock}".encode()  # by device: spreads even a small fleet
            for value in messages(batch, hz.get((batch.header.host, batch.header.clock), _NS)):
                producer.send(topic, value, key)
                sent += 1
                if sent % _FLUSH_EVERY == 0:
                    producer.flush()  # the client sets no limit to what waits in memory
        producer.flush()
    finally:
        producer.close()
    stored = broker.messages(settings, TOPIC) - before
    if stored != sent:
        raise StalledError(f"{topic}: {sent} messages sent, {stored} stored")
    return sent


def consume(settings: Settings, store: Store, expected: int, *, workers: int = 1, idle_s: float = 30.0,
            group: str = GROUP) -> Measured:
    """Bring ``expected`` messages of the topic into ``spans`` and ``windows`` of ``store``, and measure that.

    What is no event is logged with topic, partition and offset, and counted in ``rejected``. Raises StalledError when
    nothing comes for ``idle_s`` seconds before all were seen. Peak memory is the sum over the processes; starting them
    and their imports are not measured.
    """
    tally = Tally(store)
    if workers == 1:
        with Meter() as meter:
            read(settings, group, Share(), tally.deliver, lambda seen: seen >= expected, idle_s)
    else:
        from bench.json_workers import run_workers

        meter = run_workers(settings, group, tally, expected, workers, idle_s)
    share = expected / max(broker.messages(settings.kafka, TOPIC), 1)
    return Measured(events=tally.stored, rejected=tally.rejected, wall_s=meter.wall_s, cpu_s=meter.cpu_s,
                    peak_rss_bytes=meter.peak_rss_bytes,
                    wire_bytes=round(broker.topic_bytes(settings.kafka, [TOPIC]) * share))


class Tally:
    """Inserts blocks and counts them."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.stored = 0
        self.rejected = 0

    def deliver(self, block: Block) -> None:
        """Insert the block; returns when the database has it."""
        if block.spans.num_rows:
            self._store.insert("spans", block.spans, token=block.token)
        if block.windows.num_rows:
            self._store.insert("windows", block.windows, token=f"{block.token}/windows")
        self.stored += block.spans.num_rows
        self.rejected += block.rejected


@dataclass(frozen=True, slots=True)
class Share:
    """Which partitions a reader takes: every ``of``-th from ``index`` on."""

    index: int = 0
    of: int = 1

    def partitions(self, consumer: KafkaConsumer, topic: str) -> list[TopicPartition]:
        """Its partitions of ``topic``."""
        numbers = sorted(consumer.partitions_for_topic(topic) or ())
        return [TopicPartition(topic, number) for number in numbers[self.index::self.of]]


def read(settings: Settings, group: str, share: Share, deliver: Callable[[Block], None], done: Callable[[int], bool],
         idle_s: float) -> None:
    """Decode the messages of ``share`` until ``done`` of how many were seen; commit for ``group`` after each delivery.

    Partitions are assigned by hand: a rebalance while several readers start would have rows read twice.

    Raises StalledError when nothing comes for ``idle_s`` seconds.
    """
    topic = settings.kafka.topic_prefix + TOPIC
    consumer = KafkaConsumer(
        **broker.connection(settings.kafka), group_id=settings.kafka.topic_prefix + group,
        enable_auto_commit=False, auto_offset_reset="earliest", max_poll_records=_POLL_RECORDS,
        max_partition_fetch_bytes=8 * 1024 * 1024, fetch_min_bytes=64 * 1024, fetch_max_wait_ms=_POLL_MS,
    )
    consumer.assign(share.partitions(consumer, topic))
    intake = _Intake(topic)
    last = time.monotonic()
    collector = gc.get_threshold()
    gc.set_threshold(1_000_000, *collector[1:])  # hundreds of thousands of live dicts, no cycles: a quarter faster
    try:
        while not done(intake.seen):
            polled = consumer.poll(timeout_ms=_POLL_MS)
            if polled:
                last = time.monotonic()
            elif time.monotonic() - last > idle_s:
                raise StalledError(f"{topic}: nothing came for {idle_s:g} s after {intake.seen} messages")
            for records in polled.values():
                for record in records:
                    intake.add(record.value, record.partition, record.offset, record.timestamp)
            if intake.waiting >= settings.pipeline.insert_rows or (intake.waiting and not polled):
                deliver(intake.take())
                consumer.commit()
        deliver(intake.take(last=True))
        consumer.commit()
    finally:
        gc.set_threshold(*collector)
        consumer.close(autocommit=False)


class _Intake:
    """Messages on their way into a block."""

    def __init__(self, topic: str) -> None:
        self._topic = topic
        self._busy = BusyWindows()
        self._rows = Rows(Aligner(), self._busy)
        self._rejected = 0
        self._token = ""
        self.seen = 0

    @property
    def waiting(self) -> int:
        """Messages that the next block will carry or count."""
        return len(self._rows) + self._rejected

    def add(self, value: bytes | None, partition: int, offset: int, time_ms: int) -> None:
        """Take one message, or count and log why it is no event."""
        self.seen += 1
        self._token = f"{self._topic}[{partition}]@{offset}"
        try:
            self._rows.add(value, partition, offset, time_ms)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            self._reject(f"[{partition}]@{offset}: {type(error).__name__}: {error}")

    def take(self, *, last: bool = False) -> Block:
        """What waits, as a block; with ``last`` the open windows too."""
        spans, unfit = self._rows.take()
        for reason in unfit:
            self._reject(reason)
        rejected, self._rejected = self._rejected, 0
        windows = self._busy.rest() if last else self._busy.closed()
        return Block(spans, windows_table(windows), rejected, self._token + ("/last" if last else ""))

    def _reject(self, reason: str) -> None:
        self._rejected += 1
        _log.warning("%s%s", self._topic, reason)
