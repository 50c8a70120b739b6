"""What only a real broker can do: be absent, refuse, restart, compact."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest
from kafka import KafkaProducer as ForeignProducer

from fleetscope.contracts.codec import Encoded
from fleetscope.contracts.topics import Topic
from fleetscope.errors import FencedError, UsageError
from fleetscope.settings import KafkaSettings
from fleetscope.step import TopicPartition
from fleetscope.stream.abstract import Position
from fleetscope.stream.kafka import KafkaStream
from tests.support.kafka_broker import SASL_PASSWORD, SASL_USERNAME, KafkaBroker
from tests.support.stream_case import (
    KEPT,
    StreamCase,
    kafka_case,
    kafka_settings,
    message,
    nothing,
    take,
    texts,
    wait_for,
)

pytestmark = pytest.mark.kafka


@pytest.fixture
def broker_case(kafka_broker: KafkaBroker):
    """A stream on the session's broker under a fresh prefix."""
    case = kafka_case(kafka_broker.bootstrap_servers)
    yield case
    case.close()


def test_an_absent_broker_is_one_clear_line_within_seconds() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{unused.getsockname()[1]}"
        stream = KafkaStream(KafkaSettings(bootstrap_servers=where, request_timeout_ms=2_000))
        before = time.monotonic()
        with pytest.raises(UsageError, match=f"no Kafka broker at {where} answers") as caught:
            stream.ensure_topics([KEPT])
        assert time.monotonic() - before < 6
        assert "\n" not in str(caught.value)


def test_wrong_credentials_are_called_so_and_right_ones_work(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    settings = kafka_settings(kafka_broker.sasl_bootstrap_servers, security_protocol="SASL_PLAINTEXT",
                              sasl_mechanism="PLAIN", sasl_username=SASL_USERNAME, sasl_password="wrong",
                              request_timeout_ms=1_500)
    with pytest.raises(UsageError, match="refused the credentials") as caught:
        KafkaStream(settings).ensure_topics([KEPT])
    assert "wrong" not in str(caught.value)
    (tmp_path / "password").write_text(SASL_PASSWORD + "\n")
    good = KafkaStream(settings.model_copy(update={"sasl_password_file": tmp_path / "password"}))
    good.ensure_topics([KEPT])
    assert good.partitions("kept") == 4
    good.close()


def test_a_commit_goes_through_while_partitions_are_revoked(broker_case: StreamCase) -> None:
    first_partition = TopicPartition("in", 0)
    first = broker_case.joined(on_revoked=lambda lost: first.commit({at: Position(7, "kept") for at in lost}))
    second = broker_case.consumer()

    def shared() -> bool:
        first.poll(1, 0.05)
        second.poll(1, 0.05)
        return len(first.assignment()) == len(second.assignment()) == 2

    wait_for(shared, "two members")
    assert second.committed(first_partition) == Position(7, "kept")


def test_a_message_beyond_the_topics_limit_names_the_topic_and_the_size(broker_case: StreamCase) -> None:
    broker_case.stream.ensure_topics([Topic("small", (), max_message_bytes=100_000)])
    big = Encoded(b"host-a", b"x" * 200_000, ())
    producer = broker_case.producer()
    with pytest.raises(UsageError, match="a message of 200134 bytes is too large for topic small, which takes 100000"):
        producer.send("small", big)
    producer.send("small", message("fits"))
    producer.flush()


def test_a_message_too_large_in_a_transaction_is_refused_and_the_producer_lives(broker_case: StreamCase) -> None:
    broker_case.stream.ensure_topics([Topic("small", (), max_message_bytes=100_000)])
    source, seen = broker_case.joined(), broker_case.consumer("seer", ["small"])
    producer = broker_case.transactional()
    producer.begin()
    producer.send("small", message("forgotten with it"))
    with pytest.raises(UsageError, match="too large for topic small"):
        producer.send("small", Encoded(b"host-a", b"x" * 200_000, ()))
    producer.abort()
    producer.begin()
    producer.send("small", message("fits"))
    producer.commit({}, source)
    assert texts(take(seen, 1)) == ["fits"]
    assert source.committed(TopicPartition("in", 0)) is None


def test_a_message_as_large_as_a_snapshot_arrives(broker_case: StreamCase) -> None:
    broker_case.stream.ensure_topics([Topic("large", (), partitions=1, max_message_bytes=16 * 1024 * 1024)])
    producer = broker_case.producer()
    producer.send("large", Encoded(b"k", bytes(15 * 1024 * 1024), ()))
    producer.flush()
    (got,) = take(broker_case.reader([TopicPartition("large", 0)]), 1)
    assert got.value is not None
    assert len(got.value) == 15 * 1024 * 1024


def test_a_zombies_unfinished_work_is_fenced_even_without_positions(broker_case: StreamCase) -> None:
    source = broker_case.joined()
    zombie = broker_case.transactional("same")
    zombie.begin()
    zombie.send("out", message("x"))
    zombie.flush()
    broker_case.transactional("same")
    with pytest.raises(FencedError):
        zombie.commit({}, source)


def test_a_reader_waits_for_transactions_that_were_open_when_it_began(broker_case: StreamCase) -> None:
    at = TopicPartition("kept", 0)
    source, producer = broker_case.joined(), broker_case.transactional()
    producer.begin()
    producer.send("kept", message("snapshot"), 0)
    producer.flush()
    reader = broker_case.reader([at])
    assert nothing(reader)
    assert not reader.caught_up()
    producer.commit({}, source)
    assert texts(take(reader, 1)) == ["snapshot"]
    wait_for(lambda: not reader.poll(1, 0.05) and reader.caught_up(), "caught up")


def test_a_reader_catches_up_over_the_gaps_of_compaction(kafka_broker: KafkaBroker) -> None:
    from kafka import KafkaAdminClient

    settings = kafka_settings(kafka_broker.bootstrap_servers)
    stream = KafkaStream(settings)
    name = settings.topic_prefix + "compacted"
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker.bootstrap_servers)
    admin.create_topics({name: {"num_partitions": 1, "replication_factor": 1, "configs": {
        "cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "0", "min.compaction.lag.ms": "0"}}}, wait_for_metadata=True)
    admin.close()
    at = TopicPartition("compacted", 0)
    foreign = ForeignProducer(bootstrap_servers=kafka_broker.bootstrap_servers)

    def compacted() -> bool:
        for number in range(20):
            foreign.send(name, f"{number}".encode(), b"key", partition=0)
        foreign.flush()
        reader = stream.reader([at])
        try:
            got = []
            wait_for(lambda: bool(got.extend(reader.poll(500, 0.1))) or reader.caught_up(), "caught up")
        finally:
            reader.close()
        assert got[-1].value == b"19"
        offsets = [one.offset for one in got]
        return offsets[-1] - offsets[0] + 1 > len(offsets) or offsets[0] > 0

    wait_for(compacted, "a compaction")
    foreign.close()
    stream.close()


def test_a_hard_restart_of_the_broker_loses_and_repeats_nothing_acknowledged() -> None:
    with KafkaBroker(heap_mb=256) as broker:
        case = kafka_case(broker.bootstrap_servers)
        consumer, producer = case.joined(), case.producer()
        for number in range(50):
            producer.send("in", message(f"{number:03}"))
        producer.flush()
        before = take(consumer, 50)
        consumer.commit({TopicPartition("in", before[-1].partition): Position(before[-1].offset + 1, "half")})
        broker.kill()
        for number in range(50, 100):
            producer.send("in", message(f"{number:03}"))
        broker.start()
        producer.flush(60)
        after = take(consumer, 50)
        assert texts(before) + texts(after) == [f"{number:03}" for number in range(100)]
        held = consumer.committed(TopicPartition("in", before[-1].partition))
        assert held is not None
        assert held.metadata == "half"
        assert sum(case.stream.group_lag("group", ["in"]).values()) == 50
        case.close()
