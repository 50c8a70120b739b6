"""The broker, its topics, and how far each group of workers is behind."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

from fleetscope.cli.doctor_report import Column, Part, Table
from fleetscope.errors import RetryError

if TYPE_CHECKING:
    from fleetscope.settings import Settings
    from fleetscope.stream.kafka import KafkaStream

MAX_LAG: Final = 2_000
"""Messages that one group may lag on one topic before it is called behind: minutes of a busy host's batches."""
COORDINATOR_TRIES: Final = 12
COORDINATOR_WAIT_S: Final = 0.5


def look_at_kafka(given: Settings) -> Part:
    """Raises UsageError or RetryError where no broker answers."""
    from fleetscope.contracts.topics import TOPICS
    from fleetscope.stream.kafka import KafkaStream

    settings = given.kafka
    stream = KafkaStream(settings)
    try:
        part = Part("kafka", f"Kafka at {settings.bootstrap_servers}", {
            **stream.cluster(), "topic_prefix": settings.topic_prefix})
        have = stream.existing([topic.name for topic in TOPICS])
        _topics(part, have, {t.name: t.partitions or settings.partitions for t in TOPICS}, settings.topic_prefix)
        if have:
            _lag(part, stream, given, have)
    finally:
        stream.close()
    return part


def _topics(part: Part, have: dict[str, int], want: dict[str, int], prefix: str) -> None:
    part.tables.append(Table("topics", "Topics", (
        Column("topic", "topic"), Column("partitions", "partitions", "count"), Column("expected", "expected", "count")),
        [{"topic": name, "partitions": have.get(name), "expected": count} for name, count in want.items()],
        shown=any(have.get(name) != count for name, count in want.items())))
    part.facts["topics_present"] = f"{len(have)} of {len(want)}"
    missing = [name for name in want if name not in have]
    if len(missing) == len(want):
        part.find("warning", "topics", f"there is none with the prefix {prefix}",
                  "Start `fleetscope process`, which makes them, or set FLEETSCOPE_KAFKA__TOPIC_PREFIX.")
    elif missing:
        part.find("warning", "topics", f"{len(missing)} of {len(want)} are missing: {_some(missing)}",
                  "Start `fleetscope process`, which makes what is missing.")
    odd: dict[tuple[int, int], list[str]] = {}
    for name, count in have.items():
        if count != want[name]:
            odd.setdefault((count, want[name]), []).append(name)
    for (count, wanted), names in odd.items():
        part.find("critical", "topics", f"{_some(names)}: {count} partitions, expected {wanted}: workers will refuse "
                  "to start", "Delete it and let `fleetscope process` make it again: it must have one partition."
                  if wanted == 1 else f"Set FLEETSCOPE_KAFKA__PARTITIONS={count}.")


def _some(names: list[str]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _lag(part: Part, stream: KafkaStream, given: Settings, have: dict[str, int]) -> None:
    groups = _groups(given)
    members = _members(stream, list(groups))
    rows: list[dict[str, Any]] = []
    for group, topics in groups.items():
        there = [topic for topic in topics if topic in have]
        lags = stream.group_lag(group, there) if there else {}
        of_group = {t: [lag for at, lag in lags.items() if at.topic == t] for t in there}
        rows += [{"group": group, "topic": t, "members": members[group], "lag_messages": sum(of_group[t]),
                  "largest_partition_lag": max(of_group[t], default=0)} for t in there]
        _judge(part, group, members[group], {t: sum(of_group[t]) for t in there})
    part.tables.append(Table("lag", "How far groups are behind, in messages", (
        Column("group", "group"), Column("members", "members", "count"), Column("topic", "topic"),
        Column("lag_messages", "behind", "count"), Column("largest_partition_lag", "worst partition", "count")), rows))
    idle = [g for g in groups if members[g] == 0 and not any(r["lag_messages"] for r in rows if r["group"] == g)]
    if idle:
        part.find("info", "groups", f"nobody works on {', '.join(idle)}; nothing waits there",
                  "Start workers before data comes: fleetscope process.")


def _members(stream: KafkaStream, groups: list[str]) -> dict[str, int]:
    """A broker that no group has used yet makes its book of groups when first asked, and says so until it is there."""
    for _ in range(COORDINATOR_TRIES - 1):
        try:
            return stream.members(groups)
        except RetryError:
            time.sleep(COORDINATOR_WAIT_S)
    return stream.members(groups)


def _groups(given: Settings) -> dict[str, tuple[str, ...]]:
    """Group → topics it consumes, in the order of the flow."""
    from fleetscope.contracts.topics import LATE_WINDOWS_TOPIC
    from processors.topology import REVISE, STEPS, WRITES

    steps = {spec.name: tuple(spec.make(given.pipeline).inputs) for spec in STEPS}
    return steps | {REVISE: (LATE_WINDOWS_TOPIC.name,)} | {spec.name: tuple(spec.targets) for spec in WRITES}


def _judge(part: Part, group: str, members: int, lags: dict[str, int]) -> None:
    behind = sum(lags.values())
    if members == 0 and behind:
        part.find("warning", f"group {group}", f"nobody works on it and {behind:,} messages wait",
                  f"Start a worker: fleetscope process {group}.")
    for topic, lag in lags.items():
        if members and lag > MAX_LAG:
            part.find("warning", f"group {group}", f"{lag:,} messages of {topic} behind with {members} members",
                      "Look again in a minute; if it grows, start more workers (up to one a partition).")
