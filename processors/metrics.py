"""The pipeline's own figures: kept here, sent as rows of `telemetry`, and shown on a Prometheus endpoint."""

from __future__ import annotations

import threading
from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, start_http_server

from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.derived import TELEMETRY

Key = tuple[str, str, int]
"""Metric, step, partition."""


class Metrics:
    """Counters and gauges by step and partition. Thread-safe."""

    def __init__(self, instance: str = "fleetscope") -> None:
        self.instance = instance
        self.registry = CollectorRegistry()
        self._lock = threading.Lock()
        self._values: dict[Key, float] = {}
        self._counters: dict[str, Counter] = {}
        self._gauges: dict[str, Gauge] = {}
        self._sequence = 0

    def count(self, metric: str, step: str, partition: int, amount: float) -> None:
        """Add to a counter."""
        with self._lock:
            key = (f"{metric}_total", step, partition)
            self._values[key] = self._values.get(key, 0.0) + amount
            if metric not in self._counters:
                self._counters[metric] = Counter(f"fleetscope_{metric}", f"{metric} by step and partition",
                                                 ["step", "partition"], registry=self.registry)
        self._counters[metric].labels(step, partition).inc(amount)

    def gauge(self, metric: str, step: str, partition: int, value: float) -> None:
        """Set a gauge."""
        with self._lock:
            self._values[metric, step, partition] = value
            if metric not in self._gauges:
                self._gauges[metric] = Gauge(f"fleetscope_{metric}", f"{metric} by step and partition",
                                             ["step", "partition"], registry=self.registry)
        self._gauges[metric].labels(step, partition).set(value)

    def values(self) -> Mapping[Key, float]:
        """A copy of everything."""
        with self._lock:
            return dict(self._values)

    def total(self, metric: str, step: str) -> float:
        """Sum of a counter over partitions."""
        return sum(v for (m, s, _), v in self.values().items() if m == f"{metric}_total" and s == step)

    def batch(self, time_ns: int, epoch: int) -> Batch:
        """Everything as rows of `telemetry`."""
        rows: list[dict[str, object]] = [
            {"time_ns": time_ns, "step": step, "partition": partition, "metric": metric, "value": value}
            for (metric, step, partition), value in sorted(self.values().items())
        ]
        header = Header(TELEMETRY.name, TELEMETRY.version, self.instance, f"telemetry/{self.instance}", epoch,
                        self._sequence, len(rows))
        self._sequence += 1
        return Batch(header, from_rows(TELEMETRY, rows))

    def serve(self, address: str, port: int) -> None:
        """A Prometheus endpoint on ``address``:``port``; loopback unless the settings say otherwise."""
        start_http_server(port, addr=address, registry=self.registry)
