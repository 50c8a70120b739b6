"""Runs workers and writers in threads: restarts what was fenced, stops all on what is fatal, drains on request."""

from __future__ import annotations

import logging
import os
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from fleetscope.clock import Clock, SystemClock
from fleetscope.contracts.codec import encode
from fleetscope.contracts.topics import TELEMETRY_TOPIC, TOPICS
from fleetscope.errors import FencedError, RetryError, UsageError
from fleetscope.settings import PipelineSettings
from fleetscope.store.abstract import Store
from fleetscope.stream.abstract import Stream
from processors.metrics import Metrics
from processors.topology import STEPS, UNITS, WRITES
from processors.worker import Worker
from processors.writer import Writer

log = logging.getLogger(__name__)

POLL_S: Final = 0.1
BACKOFF_S: Final = 1.0
TELEMETRY_S: Final = 5.0


class Unit(Protocol):
    """What a thread runs: a worker or a writer."""

    name: str
    idle_since: float | None

    def round(self, timeout_s: float) -> bool: ...
    def holding(self) -> bool: ...
    def close(self) -> None: ...


@dataclass(slots=True)
class Slot:
    """A unit's place: how it is made, and the one that runs now."""

    name: str
    make: Callable[[], Unit]
    unit: Unit | None = None


@dataclass
class Pipeline:
    """Units on a stream and a store, a few to a thread. ``groups`` are tuples of unit names that share one."""

    stream: Stream
    store: Store | None
    settings: PipelineSettings
    instance: str = field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}")
    clock: Clock = field(default_factory=SystemClock)
    names: Sequence[str] = UNITS
    with_telemetry: bool = True

    def __post_init__(self) -> None:
        unknown = [n for n in self.names if n not in UNITS]
        if unknown:
            raise UsageError(f"there is no step {unknown[0]}; steps are {', '.join(UNITS)}")
        self.metrics = Metrics(self.instance)
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._slots: list[Slot] = []

    def start(self) -> None:
        """Create topics, join the groups, start the threads."""
        self.stream.ensure_topics(TOPICS)
        if self.settings.metrics_port:
            self.metrics.serve(self.settings.metrics_address, self.settings.metrics_port)
        for group in self._groups():
            slots = [Slot(name, self._maker(name)) for name in group]
            for slot in slots:
                slot.unit = slot.make()  # joined before anything is published: the in-memory stream keeps it for them
            self._slots.extend(slots)
            thread = threading.Thread(target=self._run, args=(slots,), name="+".join(group)[:60], daemon=True)
            self._threads.append(thread)
        if self.with_telemetry:
            self._threads.append(threading.Thread(target=self._report, name="telemetry", daemon=True))
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float = 30.0) -> None:
        """Drain, flush, commit and leave; raises what stopped a unit before."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout_s)
        if self.error is not None:
            raise self.error

    def wait_drained(self, idle_s: float, timeout_s: float) -> bool:
        """Wait until every unit has had nothing to do and holds nothing for ``idle_s``; False after ``timeout_s``."""
        deadline = self.clock.monotonic_s() + timeout_s
        while self.clock.monotonic_s() < deadline:
            if self.error is not None:
                raise self.error
            if self.drained(idle_s):
                return True
            self._stop.wait(0.05)
        return False

    def drained(self, idle_s: float) -> bool:
        """True when every unit has been idle, holding nothing, for ``idle_s``."""
        now = self.clock.monotonic_s()
        for slot in self._slots:
            unit = slot.unit
            if unit is None or unit.idle_since is None or now - unit.idle_since < idle_s or unit.holding():
                return False
        return True

    def run_until(self, stop: threading.Event) -> None:
        """Block until ``stop`` is set or a unit fails, then stop in good order."""
        while not stop.wait(0.2) and self.error is None:
            pass
        self.stop()

    def _groups(self) -> Iterable[tuple[str, ...]]:
        """Steps and heavy writers have a thread each, the small writers share one."""
        heavy = {f"write-{w.table}" for w in WRITES if w.heavy}
        steps = [n for n in self.names if n in {s.name for s in STEPS}]
        clocks = tuple(n for n in steps if n in ("fleet_clocks", "align"))
        rest = tuple(n for n in steps if n not in clocks)
        small = tuple(n for n in self.names if n.startswith("write-") and n not in heavy)
        return [g for g in (clocks, rest, *((n,) for n in self.names if n in heavy), small) if g]

    def _maker(self, name: str) -> Callable[[], Unit]:
        for step in STEPS:
            if step.name == name:
                made = step.make(self.settings)
                return lambda: Worker(made, self.stream, instance=self.instance, metrics=self.metrics,
                                      commit_interval_s=self.settings.commit_interval_s,
                                      held_bytes=self.settings.held_bytes, clock=self.clock)
        spec = next(w for w in WRITES if f"write-{w.table}" == name)
        store = self.store
        if store is None:
            raise UsageError(f"{name} needs a store")
        return lambda: Writer(spec.table, spec.topics, self.stream, store, metrics=self.metrics,
                              insert_rows=self.settings.insert_rows, linger_s=self.settings.insert_linger_s,
                              clock=self.clock)

    def _run(self, slots: list[Slot]) -> None:
        try:
            while not self._stop.is_set():
                busy = False
                for slot in slots:
                    busy |= self._turn(slot, 0.0 if len(slots) > 1 else POLL_S)
                if not busy and len(slots) > 1:
                    self._stop.wait(POLL_S / 4)
        except BaseException as error:  # told to whoever waits, and the others are stopped
            log.exception("unit failed")
            self.error = self.error or error
            self._stop.set()
        finally:
            for slot in slots:
                self._close(slot)

    def _turn(self, slot: Slot, timeout_s: float) -> bool:
        try:
            if slot.unit is None:
                slot.unit = slot.make()
            return slot.unit.round(timeout_s)
        except FencedError as error:
            log.warning("replaced by another worker, joining again", extra={"unit": slot.name, "error": str(error)})
        except RetryError as error:
            log.warning("passing fault, starting again", extra={"unit": slot.name, "error": str(error)})
            self._stop.wait(BACKOFF_S)
        self._abandon(slot)
        return True

    def _abandon(self, slot: Slot) -> None:
        unit, slot.unit = slot.unit, None
        if isinstance(unit, Worker):
            unit.abandon()
        elif unit is not None:
            self._leave(slot.name, unit)

    def _leave(self, name: str, unit: Unit) -> None:
        try:
            unit.close()
        except (FencedError, RetryError) as error:
            log.warning("closed without its last commit", extra={"unit": name, "error": str(error)})

    def _close(self, slot: Slot) -> None:
        unit, slot.unit = slot.unit, None
        if unit is None:
            return
        try:
            self._leave(slot.name, unit)
        except BaseException as error:  # noqa: BLE001 - the first error is the one to tell
            self.error = self.error or error

    def _report(self) -> None:
        producer = self.stream.producer(f"telemetry-{self.instance}")
        epoch = self.clock.unix_ns()
        while True:
            stopping = self._stop.wait(TELEMETRY_S)
            batch = self.metrics.batch(self.clock.unix_ns(), epoch)
            try:
                if len(batch) and not stopping:
                    producer.send(TELEMETRY_TOPIC.name, encode(batch))
                    producer.flush()
            except (RetryError, FencedError) as error:
                log.warning("telemetry not sent", extra={"error": str(error)})
            if stopping:
                producer.close()
                return
