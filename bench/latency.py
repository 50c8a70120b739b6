"""From the end of an event until it can be queried, while the fleet plays in real time at half of the highest rate.

A drained backlog has no latency worth stating, so this is a run of its own. The simulated fleet's messages are sent at
the moments they are due; an event's latency runs from its end in fleet time to the moment when the insert of its row
was acknowledged. It holds the producer's batching (200 ms), the wait for settled clocks, every queue, and the
writer's lingering. The first seconds are left out: clocks settle once, when a fleet starts.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from bench.drain import drained_at
from bench.embedded import IDLE_S, PARTITIONS, TIMEOUT_S
from bench.measure import cpu_seconds, in_child
from bench.sections import START_UNIX_NS, Bench, Options, fleet
from fleetscope.settings import PipelineSettings, StoreSettings

if TYPE_CHECKING:
    from types import TracebackType

    import pandas as pd

    from fleetscope.store.abstract import Parameter, Store
    from processors.runner import Pipeline

SECONDS: Final = 20.0
SETTLE_S: Final = 8.0
_NS: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Latency:
    """Percentiles [s] over ``events`` events, which came at ``events_per_s``; CPU seconds the run took in all."""

    events: int
    events_per_s: float
    cpu_s: float
    p50_s: float
    p99_s: float
    worst_s: float
    behind_s: float


def p99_latency_s(bench: Bench, highest: float) -> dict[str, Any]:
    """The figure and how it was measured, at half of ``highest`` events/s, as near as whole devices come."""
    options = bench.options
    one = bench.capture.spans / options.seconds / (options.hosts * options.devices)
    devices = max(1, round(highest / 2 / one / options.hosts))
    played = replace(options, devices=devices, seconds=SECONDS)
    bench.say(f"latency: {SECONDS:g} s in real time, {options.hosts} hosts with {devices} devices each")
    result = in_child(run_once, played, bench.folder("latency") / "store")
    bench.say(f"p99 {result.p99_s:.2f} s at {result.events_per_s:,.0f} events/s")
    return {"p99_latency_s": result.p99_s, "latency": {name: getattr(result, name) for name in result.__slots__}}


def run_once(options: Options, store_path: Path) -> Latency:
    """Play the fleet of ``options``; meant for a process of its own."""
    from fleetscope.store.clickhouse import open_store
    from fleetscope.store.migrate import migrate
    from fleetscope.stream.memory import MemoryStream
    from processors.runner import Pipeline

    due = [(p.flushed_ns, p.topic, p.message) for p in fleet(options)]
    with open_store(StoreSettings(path=store_path)) as store:
        migrate(store)
        watched = _Watched(store)
        stream = MemoryStream(PARTITIONS)
        pipeline = Pipeline(stream, watched, PipelineSettings())
        pipeline.start()
        cpu = cpu_seconds()
        try:
            producer = stream.producer("bench")
            origin, behind = time.time_ns(), 0
            for at, topic, message in due:
                behind = max(behind, _wait_until(origin + at, pipeline))
                producer.send(topic, message)
            drained_at(pipeline, IDLE_S, TIMEOUT_S)
        finally:
            pipeline.stop()
            stream.close()
        return _summary(watched.latencies(origin - START_UNIX_NS, options.seconds), options.seconds,
                        cpu_seconds() - cpu, behind)


def _wait_until(due_ns: int, pipeline: Pipeline) -> int:
    """Returns at ``due_ns``; how many ns it is late where that has passed."""
    if pipeline.error is not None:
        raise pipeline.error
    left = due_ns - time.time_ns()
    if left > 0:
        time.sleep(left / _NS)
    return max(-left, 0)


def _summary(latency_s: npt.NDArray[np.float64], seconds: float, cpu_s: float, behind_ns: int) -> Latency:
    p50, p99 = np.percentile(latency_s, [50, 99])
    return Latency(len(latency_s), len(latency_s) / (seconds - SETTLE_S), cpu_s, float(p50), float(p99),
                   float(latency_s.max()), behind_ns / _NS)


class _Watched:
    """A store that notes when each span's insert was acknowledged."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._seen: list[tuple[int, npt.NDArray[np.int64]]] = []

    def insert(self, table: str, rows: pa.Table, *, token: str = "") -> None:
        """Insert, then note the time."""
        self._store.insert(table, rows, token=token)
        if table == "spans":
            ends = rows.column("start_ns").to_numpy() + rows.column("duration_ns").to_numpy()
            self._seen.append((time.time_ns(), ends))

    def latencies(self, shift_ns: int, seconds: float) -> npt.NDArray[np.float64]:
        """Seconds from end to acknowledgement of events after settling; ``shift_ns`` is wall time minus fleet time."""
        first, last = (START_UNIX_NS + round(at * _NS) for at in (SETTLE_S, seconds))
        parts = [(now - (ends[(ends >= first) & (ends < last)] + shift_ns)) / _NS for now, ends in self._seen]
        return np.concatenate(parts)

    def command(self, sql: str, parameters: Mapping[str, Parameter] | None = None) -> str:
        """As the store."""
        return self._store.command(sql, parameters)

    def query(self, sql: str, parameters: Mapping[str, Parameter] | None = None) -> pa.Table:
        """As the store."""
        return self._store.query(sql, parameters)

    def frame(self, sql: str, parameters: Mapping[str, Parameter] | None = None) -> pd.DataFrame:
        """As the store."""
        return self._store.frame(sql, parameters)

    def release(self) -> None:
        """As the store."""
        self._store.release()

    def version(self) -> str:
        """As the store."""
        return self._store.version()

    def close(self) -> None:
        """As the store."""
        self._store.close()

    @property
    def database(self) -> str:
        """As the store."""
        return self._store.database

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()
