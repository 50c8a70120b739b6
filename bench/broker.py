"""What the benchmarks ask of a Kafka broker beside the pipelines: topics, how much stands in them, how large it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka import KafkaConsumer, TopicPartition
from kafka.admin import KafkaAdminClient, NewTopic
from kafka.errors import TopicAlreadyExistsError

from fleetscope.settings import KafkaSettings


def connection(settings: KafkaSettings) -> dict[str, Any]:
    """How every client of the benchmarks reaches the broker."""
    return {"bootstrap_servers": settings.bootstrap_servers, "security_protocol": settings.security_protocol,
            **settings.extra}


def ensure_topic(settings: KafkaSettings, name: str) -> None:
    """Create the topic ``name`` (without prefix) with the partitions of the settings, unless it is there."""
    topic = NewTopic(settings.topic_prefix + name, settings.partitions, settings.replication_factor)
    admin = KafkaAdminClient(**connection(settings))
    try:
        admin.create_topics([topic])
    except TopicAlreadyExistsError:
        pass
    finally:
        admin.close()


def messages(settings: KafkaSettings, name: str) -> int:
    """How many offsets lie between the beginning and the end of the topic ``name``, over all partitions."""
    topic = settings.topic_prefix + name
    consumer = KafkaConsumer(**connection(settings))
    try:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
        first, end = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        return sum(end[p] - first[p] for p in partitions)
    finally:
        consumer.close()


def topic_bytes(settings: KafkaSettings, names: Sequence[str]) -> int:
    """Bytes of the topics' logs, batches as they travelled, one copy of each partition."""
    wanted = {settings.topic_prefix + name for name in names}
    sizes: dict[tuple[str, int], int] = {}
    admin = KafkaAdminClient(**connection(settings))
    try:
        for broker in admin.describe_log_dirs():
            for folder in broker["log_dirs"]:
                for topic in folder["topics"]:
                    for part in topic["partitions"]:
                        key = topic["name"], part["partition_index"]
                        sizes[key] = max(sizes.get(key, 0), part["partition_size"])
    finally:
        admin.close()
    return sum(size for (topic, _), size in sizes.items() if topic in wanted)
