"""Faults on demand: a broker in memory and a store that fail at named points, before or after they did their work.

Points: ``transaction``, ``transacted`` (around a worker's commit), ``plan``, ``planned``, ``insert``, ``inserted``,
``end``, ``ended`` (around a writer's three steps).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd
import pyarrow as pa

from fleetscope.step import TopicPartition
from fleetscope.store.abstract import Parameter, Store
from fleetscope.stream.abstract import Consumer, Position
from fleetscope.stream.memory import MemoryProducer, MemoryStream

WRITER_POINTS = ("plan", "planned", "insert", "inserted", "end", "ended")


class CrashError(Exception):
    """The process died here: nobody catches this."""


class Faults:
    """What fails next, and how often each point was reached."""

    def __init__(self) -> None:
        self.reached: dict[str, int] = {}
        self._armed: dict[str, tuple[int, Exception]] = {}

    def arm(self, point: str, error: Exception, nth: int = 1) -> None:
        """Raise ``error`` once, at the ``nth`` time from now that ``point`` is reached."""
        self._armed[point] = (nth, error)

    def disarm(self) -> None:
        """Nothing fails from now on."""
        self._armed.clear()

    @property
    def armed(self) -> bool:
        """True while an armed fault has not struck."""
        return bool(self._armed)

    def reach(self, point: str) -> None:
        """Called at each point."""
        self.reached[point] = self.reached.get(point, 0) + 1
        if point in self._armed:
            left, error = self._armed[point]
            if left > 1:
                self._armed[point] = (left - 1, error)
            else:
                del self._armed[point]
                raise error


class FaultyStream(MemoryStream):
    """A broker in memory whose commits fail on demand."""

    def __init__(self, faults: Faults, partitions: int, **options: Any) -> None:
        super().__init__(partitions, **options)
        self.faults = faults
        self.in_transaction = False

    def transactional_producer(self, transactional_id: str) -> MemoryProducer:
        """A producer whose commit passes the points ``transaction`` and ``transacted``."""
        made = super().transactional_producer(transactional_id)
        commit = made.commit

        def faulty(positions: Mapping[TopicPartition, Position], consumer: Consumer) -> None:
            self.faults.reach("transaction")
            self.in_transaction = True
            try:
                commit(positions, consumer)
            finally:
                self.in_transaction = False
            self.faults.reach("transacted")

        made.commit = faulty  # type: ignore[method-assign]
        return made

    def store_positions(self, group: str, positions: Mapping[TopicPartition, Position]) -> None:
        """Outside transactions: a position with metadata is a writer's plan, one without the end of a range."""
        if self.in_transaction:
            super().store_positions(group, positions)
            return
        before, after = ("plan", "planned") if any(p.metadata for p in positions.values()) else ("end", "ended")
        self.faults.reach(before)
        super().store_positions(group, positions)
        self.faults.reach(after)


class FaultyStore:
    """A store whose inserts fail on demand, and which remembers what was asked of it."""

    def __init__(self, store: Store, faults: Faults) -> None:
        self._store = store
        self.faults = faults
        self.inserts: list[tuple[str, pa.Table, str]] = []

    @property
    def database(self) -> str:
        return self._store.database

    def command(self, sql: str, parameters: Mapping[str, Parameter] | None = None) -> str:
        return self._store.command(sql, parameters)

    def insert(self, table: str, rows: pa.Table, *, token: str = "") -> None:
        self.faults.reach("insert")
        self._store.insert(table, rows, token=token)
        self.inserts.append((table, rows, token))
        self.faults.reach("inserted")

    def query(self, sql: str, parameters: Mapping[str, Parameter] | None = None) -> pa.Table:
        return self._store.query(sql, parameters)

    def frame(self, sql: str, parameters: Mapping[str, Parameter] | None = None) -> pd.DataFrame:
        return self._store.frame(sql, parameters)

    def release(self) -> None:
        self._store.release()

    def version(self) -> str:
        return self._store.version()

    def close(self) -> None:
        self._store.close()

    def __enter__(self) -> FaultyStore:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()
