"""Apache Kafka as a ``Stream``; the only module that imports kafka-python, whose types stay in the kafka_ modules here.

On the wire topics, groups and transactional ids carry the settings' ``topic_prefix``, so that installations can share a
cluster. Control records of transactions take offsets: offsets are not dense, and a lag counts them.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeVar

import kafka
from kafka.consumer.subscription_state import AsyncConsumerRebalanceListener
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.future import Future
from kafka.protocol.consumer import IsolationLevel, OffsetSpec
from kafka.structs import OffsetAndMetadata

from fleetscope.contracts.topics import Topic
from fleetscope.errors import FencedError, RetryError, UsageError
from fleetscope.settings import KafkaSettings
from fleetscope.step import TopicPartition
from fleetscope.stream import kafka_config as config
from fleetscope.stream.abstract import Message, PartitionsCallback, Position
from fleetscope.stream.kafka_ends import SharedEnds
from fleetscope.stream.kafka_errors import connecting, translate
from fleetscope.stream.kafka_handover import Handover
from fleetscope.stream.kafka_producer import KafkaProducer, KafkaTransactionalProducer
from fleetscope.stream.kafka_reader import Assigned, KafkaReader, Records

# without a handler of its own, kafka-python's log would reach stderr beside our one clear line
logging.getLogger("kafka").addHandler(logging.NullHandler())

_COMPACT_SEGMENT_BYTES: Final = 64 * 1024 * 1024
"""The active segment is never compacted and is read whole on every take-over; the broker's default is 1 GiB."""

Client = TypeVar("Client")


class KafkaStream:
    """See the module's text. Raises UsageError where the settings cannot hold; connects at the first use."""

    def __init__(self, settings: KafkaSettings) -> None:
        self.settings = settings
        self._where = settings.bootstrap_servers
        self._counts: dict[str, int] = {}
        self._limits: dict[str, int | None] = {}
        self._admin_client: Any = None
        self._admin_made = threading.Lock()
        self.shared_ends = SharedEnds(lambda partitions: self.ends(partitions, committed=True))
        known = (kafka.KafkaConsumer.DEFAULT_CONFIG.keys() | kafka.KafkaProducer.DEFAULT_CONFIG.keys()
                 | kafka.KafkaAdminClient.DEFAULT_CONFIG.keys())
        unknown = sorted(settings.extra.keys() - known)
        if unknown:
            raise UsageError(f"kafka.extra: kafka-python knows no option {', '.join(unknown)}")

    # topics

    def ensure_topics(self, topics: Sequence[Topic]) -> None:
        """Create what is missing, with its retention, clean-up and size limit; what exists keeps its own.

        Raises UsageError where the broker is away or refuses, or a topic has another number of partitions.
        """
        wanted = {topic.name: topic.partitions or self.settings.partitions for topic in topics}
        missing = [topic for topic in topics if self._described(topic.name) is None]
        if missing:
            self._create(missing, wanted)
        for name, count in wanted.items():
            if self.partitions(name) != count:
                raise UsageError(f"topic {name} has {self.partitions(name)} partitions, not {count}")

    def partitions(self, topic: str) -> int:
        """How many partitions; UsageError where there is no such topic."""
        count = self._described(topic)
        if count is None:
            raise UsageError(f"there is no topic {self.wire(topic)} at {self._where}")
        return count

    def limit_bytes(self, topic: str) -> int | None:
        """The largest batch that ``topic`` takes; None where the brokers do not let us ask."""
        if topic not in self._limits:
            option, name = "max.message.bytes", self.wire(topic)
            resource = kafka.admin.ConfigResource(kafka.admin.ConfigResourceType.TOPIC, name, {option: None})
            try:
                found = self._administer(f"describing {topic}",
                                         lambda admin: admin.describe_configs([resource], config_filter="all"))
                self._limits[topic] = int(found["topic"][name][option]["value"])
            except (UsageError, KeyError):  # asking needs a permission of its own; without it the broker decides
                self._limits[topic] = None
        return self._limits[topic]

    def _described(self, topic: str) -> int | None:
        if topic not in self._counts:
            found = self._administer(f"describing {topic}", lambda admin: admin.describe_topics([self.wire(topic)]))
            ready = [one for one in found if one["name"] == self.wire(topic) and one["error_code"] == 0]
            if not ready or not ready[0]["partitions"]:
                return None
            self._counts[topic] = len(ready[0]["partitions"])
        return self._counts[topic]

    def _create(self, topics: Sequence[Topic], counts: Mapping[str, int]) -> None:
        specs = {self.wire(topic.name): {"num_partitions": counts[topic.name],
                                         "replication_factor": self.settings.replication_factor,
                                         "configs": self._topic_configs(topic)} for topic in topics}
        names = ", ".join(topic.name for topic in topics)
        answer = self._administer(f"creating {names}", lambda admin: admin.create_topics(specs, raise_errors=False))
        for one in answer["topics"]:
            kind = kafka.errors.for_code(one["error_code"])
            if kind not in (kafka.errors.NoError, kafka.errors.TopicAlreadyExistsError):
                raise translate(kind(one["error_message"]), f"creating {one['name']}")
        self._administer(f"waiting for {names}", lambda admin: admin.wait_for_topics(list(specs)))

    def _topic_configs(self, topic: Topic) -> dict[str, str]:
        hours = self.settings.retention_hours.get(topic.name, topic.retention_hours)
        configs = {"cleanup.policy": topic.cleanup, "max.message.bytes": str(topic.max_message_bytes)}
        if topic.cleanup == "compact":
            return configs | {"segment.bytes": str(_COMPACT_SEGMENT_BYTES)}
        return configs | {"retention.ms": str(hours * 3_600_000)}

    # clients

    def producer(self, client: str) -> KafkaProducer:
        """An idempotent producer that waits for all replicas."""
        raw = self._connect(kafka.KafkaProducer, config.producer(self.settings, client))
        return KafkaProducer(raw, self, self.settings.request_timeout_ms / 1000)

    def transactional_producer(self, transactional_id: str) -> KafkaTransactionalProducer:
        """A transactional producer; fences the earlier one with this id and aborts what that left open."""
        raw = self._connect(kafka.KafkaProducer, config.transactional(self.settings, self.wire(transactional_id)))
        return KafkaTransactionalProducer(raw, self, self.settings.request_timeout_ms / 1000)

    def consumer(self, group: str, topics: Sequence[str], *, on_assigned: PartitionsCallback | None = None,
                 on_revoked: PartitionsCallback | None = None) -> KafkaConsumer:
        """A member of ``group``; it joins inside ``poll``. UsageError: no such topic, or the broker is away."""
        for topic in topics:
            self.partitions(topic)
        options = config.consumer(self.settings, self.wire(group)) | {
            "partition_assignment_strategy": [RangePartitionAssignor]}
        raw = self._connect(kafka.KafkaConsumer, options)
        return KafkaConsumer(raw, self, topics, on_assigned, on_revoked)

    def reader(self, partitions: Sequence[TopicPartition]) -> KafkaReader:
        """Read whole partitions from their beginning."""
        for at in partitions:
            if not 0 <= at.partition < self.partitions(at.topic):
                raise UsageError(f"topic {at.topic} has no partition {at.partition}")
        raw = self._connect(kafka.KafkaConsumer, config.reader(self.settings, "fleetscope-reader"))
        return KafkaReader(raw, self, partitions, self.ends(partitions, committed=False))

    def group_lag(self, group: str, topics: Sequence[str]) -> dict[TopicPartition, int]:
        """Offsets between the committed positions and the ends of committed data, seen from outside the group."""
        every = [TopicPartition(topic, p) for topic in topics for p in range(self.partitions(topic))]
        ends = self.ends(every, committed=True)
        firsts = self._offsets(every, OffsetSpec.EARLIEST, IsolationLevel.READ_COMMITTED)
        wire_group = self.wire(group)
        found = self._administer(f"reading positions of {group}",
                                 lambda admin: admin.list_group_offsets({wire_group: [self.tp(at) for at in every]}))
        # a group without a position stands at the beginning (offset -1); retention may have moved that past a position
        at_offset = {self.ours(tp): entry.offset for tp, entry in found.get(wire_group, {}).items()}
        return {at: max(ends[at] - max(at_offset.get(at, -1), firsts[at]), 0) for at in every}

    # for people who look from outside

    def cluster(self) -> dict[str, Any]:
        """``cluster_id``, ``brokers`` (host:port) and ``version`` of the protocol that they speak, None if not told."""
        found = self._administer("describing the cluster", lambda admin: admin.describe_cluster())
        brokers = found["brokers"]
        version = None
        if brokers:
            one = brokers[0]["broker_id"]
            version = self._administer("asking the version", lambda admin: admin.get_broker_version_data(one))
        return {"cluster_id": found["cluster_id"], "brokers": [f"{b['host']}:{b['port']}" for b in brokers],
                "version": ".".join(map(str, version.broker_version)) if version is not None else None}

    def existing(self, topics: Sequence[str]) -> dict[str, int]:
        """Partitions of those of ``topics`` that exist."""
        counts = {topic: self._described(topic) for topic in topics}
        return {topic: count for topic, count in counts.items() if count is not None}

    def members(self, groups: Sequence[str]) -> dict[str, int]:
        """How many live members each group has; 0 for a group that is not known."""
        wire = [self.wire(group) for group in groups]
        found = self._administer("describing groups", lambda admin: admin.describe_groups(wire))
        return {group: len(found.get(self.wire(group), {}).get("members") or ()) for group in groups}

    def close(self) -> None:
        """Close the administration client; producers and consumers have their own ``close``."""
        if self._admin_client is not None:
            self._admin_client.close()
            self._admin_client = None

    # for consumers and readers

    def wire(self, name: str) -> str:
        """The name of a topic, group or transactional id at the broker."""
        return self.settings.topic_prefix + name

    def tp(self, at: TopicPartition) -> Any:
        """The client's form of a partition."""
        return kafka.TopicPartition(self.wire(at.topic), at.partition)

    def ours(self, tp: Any) -> TopicPartition:
        """Our form of a partition."""
        return TopicPartition(tp.topic[len(self.settings.topic_prefix):], tp.partition)

    def ends(self, partitions: Sequence[TopicPartition], *, committed: bool) -> dict[TopicPartition, int]:
        """One past the last offset, or with ``committed`` past the last before any open transaction."""
        level = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
        return self._offsets(partitions, OffsetSpec.LATEST, level)

    def _offsets(self, partitions: Sequence[TopicPartition], spec: Any, isolation: Any) -> dict[TopicPartition, int]:
        wanted = {self.tp(at): spec for at in partitions}
        found = self._administer("listing offsets",
                                 lambda admin: admin.list_partition_offsets(wanted, isolation_level=isolation))
        return {self.ours(tp): entry.offset for tp, entry in found.items()}

    def messages(self, records: Records) -> list[Message]:
        """The client's records in our form."""
        cut = len(self.settings.topic_prefix)
        return [
            Message(tp.topic[cut:], tp.partition, record.offset, record.key, record.value,
                    tuple((name, value or b"") for name, value in record.headers), record.timestamp)
            for tp, part in records.items() for record in part
        ]

    def _connect(self, kind: Callable[..., Client], options: dict[str, Any]) -> Client:
        known = kind.DEFAULT_CONFIG.keys()  # type: ignore[attr-defined]
        with connecting(self._where, authenticates=self.settings.sasl_mechanism is not None):
            return kind(**config.with_extra(options, self.settings.extra, known))

    def _administer(self, doing: str, call: Callable[[Any], Any]) -> Any:
        with self._admin_made:
            if self._admin_client is None:
                self._admin_client = self._connect(kafka.KafkaAdminClient, config.administration(self.settings))
        try:
            return call(self._admin_client)
        except Exception as error:
            raise translate(error, f"{doing} at {self._where}") from error


class _Listener(AsyncConsumerRebalanceListener):  # type: ignore[misc]
    """Runs on the client's thread; hands the callbacks to the thread that polls and waits without blocking."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer

    async def on_partitions_assigned(self, assigned: Any) -> None:
        await self._ask(self._consumer.assigned, assigned)

    async def on_partitions_revoked(self, revoked: Any) -> None:
        await self._ask(self._consumer.revoked, revoked)
        # kafka-python keeps position and pause of a partition that comes back to the same member: what was read and not
        # committed would never be read again
        if not self._consumer.closed:
            self._consumer.client._subscription.assign_from_subscribed([])

    async def on_partitions_lost(self, lost: Any) -> None:
        await self._ask(self._consumer.revoked, lost)

    async def _ask(self, callback: PartitionsCallback, partitions: Any) -> None:
        if not partitions or self._consumer.closed:
            return
        ours = sorted(self._consumer.stream.ours(tp) for tp in partitions)
        done = Future()
        # completed on the client's thread: only there does it wake the coroutine at once
        self._consumer.handover.ask(lambda: callback(ours),
                                    lambda: self._consumer.client._manager.call_soon(done.success, None))
        await done


class KafkaConsumer(Assigned):
    """A member of a group. A rebalance takes all partitions (``on_revoked``) and gives the new ones (``on_assigned``).

    Inside ``on_revoked`` a commit still goes through, unless the membership was lost: then it raises FencedError.
    """

    def __init__(self, client: Any, stream: KafkaStream, topics: Sequence[str], on_assigned: PartitionsCallback | None,
                 on_revoked: PartitionsCallback | None) -> None:
        super().__init__(client, stream)
        self.stream = stream
        self.closed = False
        self.handover: Handover[Records] = Handover("fleetscope-kafka-poll")
        self._on_assigned = on_assigned
        self._on_revoked = on_revoked
        self._next: dict[TopicPartition, int] = {}
        client.subscribe([stream.wire(topic) for topic in topics], listener=_Listener(self))
        self._know(topics)

    def poll(self, max_messages: int, timeout_s: float) -> list[Message]:
        """Next messages of assigned, unpaused partitions; callbacks run in here, on this thread."""
        try:
            records = self.handover.run(lambda: self.fetch(max_messages, timeout_s))
        except kafka.errors.KafkaError as error:
            raise translate(error, "polling") from error
        messages = self.stream.messages(records)
        self._next.update((TopicPartition(m.topic, m.partition), m.offset + 1) for m in messages)
        return messages

    def _know(self, topics: Sequence[str]) -> None:
        """Fetch the topics' partitions before the first join.

        When they arrive while a group leader assigns, kafka-python assigns nothing and takes that for up to date: the
        group stays without partitions for good.
        """
        deadline = time.monotonic() + self._timeout_ms / 1000
        try:
            while any(not self.client.partitions_for_topic(self.stream.wire(topic)) for topic in topics):
                if time.monotonic() > deadline:
                    raise RetryError(f"Kafka does not tell the partitions of {', '.join(topics)}")
                time.sleep(0.05)
        except kafka.errors.KafkaError as error:
            raise translate(error, f"asking the partitions of {', '.join(topics)}") from error

    def assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """The group gave ``partitions``."""
        if self._on_assigned:
            self._on_assigned(partitions)

    def revoked(self, partitions: Sequence[TopicPartition]) -> None:
        """The group takes ``partitions``."""
        try:
            if self._on_revoked:
                self._on_revoked(partitions)
        finally:
            self._next.clear()

    def assignment(self) -> frozenset[TopicPartition]:
        """Partitions in effect."""
        return frozenset(self.stream.ours(tp) for tp in self.client.assignment())

    def committed(self, partition: TopicPartition) -> Position | None:
        """The group's committed position; waits for positions of a transaction that is being committed."""
        try:
            found = self.client.committed(self.stream.tp(partition), metadata=True, timeout_ms=self._timeout_ms)
        except kafka.errors.KafkaError as error:
            raise translate(error, "reading a committed position") from error
        return None if found is None or found.offset < 0 else Position(found.offset, found.metadata or "")

    def commit(self, positions: Mapping[TopicPartition, Position]) -> None:
        """Commit outside a transaction. FencedError: the partitions moved."""
        offsets = self._owned_offsets(positions)
        try:
            self.client.commit(offsets, timeout_ms=self._timeout_ms)
        except kafka.errors.KafkaError as error:
            raise translate(error, "committing positions") from error

    def transaction_offsets(self, positions: Mapping[TopicPartition, Position]) -> tuple[dict[Any, Any], Any]:
        """Offsets and group metadata for a transaction.

        A member that lost its group has no member id any more, and the broker accepts a transaction's positions
        without one: such a member is refused here.
        """
        offsets = self._owned_offsets(positions)
        metadata = self.client.group_metadata()
        if metadata.generation_id < 0 or not metadata.member_id:
            raise FencedError("this consumer is not in its group any more")
        return offsets, metadata

    def pause(self, partitions: Sequence[TopicPartition]) -> None:
        """Stop fetching; partitions not assigned are passed over, and a rebalance ends it."""
        self.client.pause(*self._assigned_of(partitions))

    def resume(self, partitions: Sequence[TopicPartition]) -> None:
        """Fetch again."""
        self.client.resume(*self._assigned_of(partitions))

    def lag(self, max_age_s: float = 0.0) -> dict[TopicPartition, int]:
        """Offsets between position and the end of committed data."""
        mine = sorted(self.assignment())
        if not mine:
            return {}
        ends = (self.stream.shared_ends.ends(mine, max_age_s) if max_age_s > 0
                else self.stream.ends(mine, committed=True))
        return {at: max(end - self.position(at), 0) for at, end in ends.items()}

    def close(self) -> None:
        """Leave the group; no callbacks."""
        if self.closed:
            return
        self.closed = True
        self.handover.close(self._timeout_ms / 1000)
        self.client.close(autocommit=False, timeout_ms=self._timeout_ms)

    def _assigned_of(self, partitions: Sequence[TopicPartition]) -> list[Any]:
        return [self.stream.tp(at) for at in partitions if at in self.assignment()]

    def _owned_offsets(self, positions: Mapping[TopicPartition, Position]) -> dict[Any, Any]:
        if self.closed:
            raise FencedError("this consumer has left its group")
        lost = sorted(positions.keys() - self.assignment())
        if lost:
            raise FencedError(f"{lost[0].topic}[{lost[0].partition}] moved to another member")
        return {self.stream.tp(at): OffsetAndMetadata(self._past_markers(at, position.offset), position.metadata, -1)
                for at, position in positions.items()}

    def _past_markers(self, at: TopicPartition, offset: int) -> int:
        """After the last message that was returned, the position also stands past transaction markers: no false lag."""
        return max(offset, self.position(at)) if self._next.get(at) == offset else offset
