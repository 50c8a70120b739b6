"""What every step must keep, judged on the final stored rows: however its input is cut, interleaved, repeated or
interrupted, the same rows stand in the end.

Use: subclass ``StepSuite`` in a test module and return a ``Case`` from ``case``. Batches are given in the order of
their topics, without origins; the suite numbers them as one partition a topic.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import pytest

from fleetscope.contracts.batch import Batch
from fleetscope.errors import Origin
from fleetscope.step import Output, Step, TopicPartition, replay

Message = tuple[str, Batch]
Stored = dict[tuple[Any, ...], dict[str, Any]]

SEEDS: Final = range(4)

KEYS: Final[dict[str, tuple[str, ...]]] = {
    "windows": ("host", "device", "window_start_ns"),
    "verdicts": ("host", "device", "window_start_ns"),
    "incidents": ("host", "device", "kind", "start_ns"),
    "segments": ("host", "clock", "target_host", "target_clock", "epoch", "valid_from_ticks", "version"),
    "coverage": ("host", "source", "source_epoch", "contract", "to_ns"),
    "operators": ("host", "device", "job", "team", "name", "engine", "window_start_ns"),
    "job_shares": ("host", "device", "window_start_ns", "role"),
    "job_arrivals": ("host", "device", "communicator", "communicator_sequence"),
    "job_kernels": ("host", "device", "rank", "name", "track", "flops", "bytes", "window_start_ns"),
    "job_windows": ("job", "window_start_ns"),
    "collective_waits": ("job", "communicator", "window_start_ns", "host", "device"),
    "causality_violations": ("host", "rule", "cause_producer", "cause_epoch", "cause_sequence", "cause_row",
                             "effect_producer", "effect_epoch", "effect_sequence", "effect_row"),
}
"""What tells rows apart in the store; rows of contracts that are not named here by (producer, epoch, contract,
sequence, row), which must then come out once only."""


@dataclass(frozen=True)
class Case:
    """A step, its input by topic, and columns that may differ (revision never counts)."""

    step: Step[Any]
    messages: Sequence[Message]
    ignore: frozenset[str] = frozenset()


def final_rows(outputs: Iterable[Output], ignore: frozenset[str] = frozenset()) -> Stored:
    """The rows a store would show: of equal keys the highest revision, the later one among equals."""
    stored: Stored = {}
    revisions: dict[tuple[Any, ...], int] = {}
    for output in outputs:
        header = output.batch.header
        names = KEYS.get(header.contract)
        identities = [(part.producer, part.epoch, part.sequence, part.row0 + index)
                      for part in output.batch.parts for index in range(part.rows)]
        for identity, row in zip(identities, output.batch.rows.to_pylist(), strict=True):
            key = (output.topic, *((row[name] for name in names) if names else (header.host, *identity)))
            assert names or key not in stored, f"{key} came out twice"
            revision = row.pop("revision", 0)
            if revision >= revisions.get(key, revision):
                revisions[key] = revision
                stored[key] = {name: value for name, value in row.items() if name not in ignore}
    return stored


def numbered(messages: Iterable[Message]) -> list[Batch]:
    """Batches with origins: one partition a topic, offsets from 0."""
    following: defaultdict[str, int] = defaultdict(int)
    batches = []
    for topic, batch in messages:
        batches.append(replace(batch, origin=Origin(topic, 0, following[topic])))
        following[topic] += 1
    return batches


def cut(batches: Iterable[Batch], rng: random.Random) -> list[Batch]:
    """Each message in pieces of the same origin; only the last one may promise the message's watermark."""
    pieces: list[Batch] = []
    for batch in batches:
        marks = sorted(rng.sample(range(1, len(batch)), min(rng.randrange(4), len(batch) - 1))) if len(batch) else []
        for start, stop in pairwise([0, *marks, len(batch)]):
            piece = batch.slice(start, stop - start)
            if stop < len(batch):
                piece = replace(piece, header=replace(piece.header, watermark_ns=None))
            pieces.append(piece)
    return pieces


def _ends_message(batch: Batch) -> bool:
    return batch.header.row0 + len(batch) >= batch.header.rows


def shuffled(batches: Sequence[Any], topic: Callable[[Any], str], rng: random.Random) -> list[Any]:
    """Another order that keeps each topic's own."""
    queues: defaultdict[str, list[Any]] = defaultdict(list)
    for batch in reversed(batches):
        queues[topic(batch)].append(batch)
    order = []
    while queues:
        chosen = rng.choice(sorted(queues))
        run = rng.randrange(1, 6)
        while run and queues[chosen]:
            order.append(queues[chosen].pop())
            run -= 1
        if not queues[chosen]:
            del queues[chosen]
    return order


def repeated(messages: Sequence[Message], rng: random.Random) -> list[Message]:
    """Some batches once more, at once or much later; a repeat promises nothing new."""
    result = list(messages)
    for topic, batch in rng.sample(list(messages), min(len(messages), 12)):
        first = next(i for i, (_, other) in enumerate(result) if other is batch)
        result.insert(rng.randrange(first, len(result)) + 1, (topic, replace(batch)))
    return result


def with_restarts(step: Step[Any], batches: Sequence[Batch], rng: random.Random, restarts: int) -> list[Output]:
    """Outputs of a run that is stopped after a commit and taken up by another worker, some times.

    The commit holds the outputs, the snapshot, and of each partition the held offset or the next one. The new worker
    reads on from there, its partitions interleaved in another way, broadcast topics from their beginning.
    """
    state = step.start()
    outputs: list[Output] = []
    position: dict[TopicPartition, int] = {}
    stops = sorted(rng.sample(range(1, len(batches)), min(restarts, len(batches) - 1)))
    todo, done = list(batches), 0
    open_topics: set[str] = set()
    while todo:
        batch = todo.pop(0)
        assert batch.origin is not None
        state, out = step.on_batch(state, batch)
        outputs.extend(out)
        at = TopicPartition(batch.origin.topic, batch.origin.partition)
        (open_topics.discard if _ends_message(batch) else open_topics.add)(at.topic)
        position[at] = batch.origin.offset + 1
        done += 1
        if stops and done >= stops[0] and not open_topics:  # a worker takes whole messages
            stops.pop(0)
            data = step.snapshot(state)
            held = step.held(state)
            position = {at: min(offset, held.get(at, offset)) for at, offset in position.items()}
            state = step.restore(data)
            todo = shuffled([b for b in batches if _unread(b, position, step)], _topic_of, rng)
    return outputs + step.on_end(state)


def _unread(batch: Batch, position: dict[TopicPartition, int], step: Step[Any]) -> bool:
    assert batch.origin is not None
    if batch.origin.topic in step.broadcast:
        return True
    return batch.origin.offset >= position.get(TopicPartition(batch.origin.topic, batch.origin.partition), 0)


def _topic_of(batch: Batch) -> str:
    assert batch.origin is not None
    return batch.origin.topic


def _same(found: Stored, expected: Stored) -> None:
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    for key, row in expected.items():
        other = found[key]
        assert {n: other[n] for n in row if other[n] != row[n]} == {n: row[n] for n in row if other[n] != row[n]}, key


class StepSuite:
    """Subclass and give ``case``."""

    def case(self) -> Case:
        raise NotImplementedError

    def _plain(self) -> tuple[Case, Stored]:
        case = self.case()
        return case, final_rows(replay(case.step, numbered(case.messages)), case.ignore)

    def test_the_case_has_something_to_say(self) -> None:
        _, expected = self._plain()
        assert len(expected) >= 5

    def test_input_without_origins_gives_the_same_rows(self) -> None:
        case, expected = self._plain()
        _same(final_rows(replay(case.step, [b for _, b in case.messages]), case.ignore), expected)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_splitting_the_input_changes_nothing(self, seed: int) -> None:
        case, expected = self._plain()
        pieces = cut(numbered(case.messages), random.Random(seed))
        _same(final_rows(replay(case.step, pieces), case.ignore), expected)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_another_interleaving_of_topics_changes_nothing(self, seed: int) -> None:
        case, expected = self._plain()
        order = shuffled(case.messages, lambda m: str(m[0]), random.Random(seed))
        _same(final_rows(replay(case.step, numbered(order)), case.ignore), expected)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_redelivery_changes_nothing(self, seed: int) -> None:
        case, expected = self._plain()
        batches = numbered(repeated(case.messages, random.Random(seed)))
        ignore = case.ignore | {"redelivered_rows"}
        plain = {key: {n: v for n, v in row.items() if n not in ignore} for key, row in expected.items()}
        _same(final_rows(replay(case.step, batches), ignore), plain)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_snapshot_and_restore_anywhere_changes_nothing(self, seed: int) -> None:
        case, expected = self._plain()
        rng = random.Random(seed)
        batches = numbered(shuffled(case.messages, lambda m: str(m[0]), rng))
        _same(final_rows(with_restarts(case.step, batches, rng, 4), case.ignore), expected)

    @pytest.mark.parametrize("seed", SEEDS)
    def test_restarts_amid_redelivered_pieces_change_nothing(self, seed: int) -> None:
        case, expected = self._plain()
        rng = random.Random(seed)
        batches = cut(numbered(repeated(case.messages, rng)), rng)
        ignore = case.ignore | {"redelivered_rows"}
        plain = {key: {n: v for n, v in row.items() if n not in ignore} for key, row in expected.items()}
        _same(final_rows(with_restarts(case.step, batches, rng, 6), ignore), plain)

    def test_equal_states_give_equal_snapshots(self) -> None:
        case = self.case()
        batches = numbered(case.messages)
        half = len(batches) // 2
        states = []
        for _ in range(2):
            state = case.step.start()
            for batch in batches[:half]:
                state, _out = case.step.on_batch(state, batch)
            states.append(case.step.snapshot(state))
        assert states[0] == states[1]
        assert case.step.snapshot(case.step.restore(states[0])) == states[0]

    def test_bytes_that_are_no_snapshot_are_refused(self) -> None:
        with pytest.raises(ValueError):
            self.case().step.restore(b"not a snapshot")
