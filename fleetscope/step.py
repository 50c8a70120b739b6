"""The protocol every step follows, and ``replay``, which runs one over a list.

A step is a frozen dataclass of thresholds. It owns no Kafka, no ClickHouse and no clock: time reaches it as data. The
same object runs in batch, in a stream and in tests. There is one state for each partition.

Restart: the runner stores ``snapshot(state)`` together with the outputs and the input positions. Rows that a state
still waits with are not in the snapshot; ``held(state)`` names the lowest offset they came from, and the runner commits
that. After a restart those messages come again: the step recognises them by ``Batch.origin`` (an offset below the one
its state has already counted) and must not count them twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeVar

from fleetscope.contracts.batch import Batch


class TopicPartition(NamedTuple):
    """A topic (without prefix) and one of its partitions."""

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class Output:
    """A batch for a topic (without prefix); the partition follows from the host."""

    topic: str
    batch: Batch


State = TypeVar("State")


class Step(Protocol[State]):
    """See the module's text. ``inputs`` are consumed by partition, ``broadcast`` is read whole by every worker."""

    @property
    def name(self) -> str: ...
    @property
    def inputs(self) -> tuple[str, ...]: ...
    @property
    def broadcast(self) -> tuple[str, ...]: ...

    def start(self) -> State:
        """The state before any input."""
        ...

    def on_batch(self, state: State, batch: Batch) -> tuple[State, list[Output]]:
        """Take one batch; return the state (the same object may be changed and returned) and what to publish."""
        ...

    def on_end(self, state: State) -> list[Output]:
        """The input is over: publish what still waits."""
        ...

    def held(self, state: State) -> Mapping[TopicPartition, int]:
        """Lowest offset of each input partition that waiting rows came from."""
        ...

    def snapshot(self, state: State) -> bytes:
        """Plain serialised state without the waiting rows; equal states give equal bytes."""
        ...

    def restore(self, data: bytes) -> State:
        """The state of ``snapshot``; raises ValueError for bytes of another step or version."""
        ...


def replay(step: Step[State], batches: Iterable[Batch], *, end: bool = True) -> list[Output]:
    """All outputs of ``step`` over ``batches`` in order; with ``end`` the waiting rows come out too."""
    state = step.start()
    outputs: list[Output] = []
    for batch in batches:
        state, out = step.on_batch(state, batch)
        outputs.extend(out)
    if end:
        outputs.extend(step.on_end(state))
    return outputs
