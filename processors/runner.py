"""Runs workers and writers in threads: restarts what was fenced, stops all on what is fatal, drains on request."""

from __future__ import annotations

import gc
import logging
import math
import os
import socket
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final, Protocol

from fleetscope import memory
from fleetscope.clock import Clock, SystemClock
from fleetscope.contracts.codec import encode
from fleetscope.contracts.topics import TELEMETRY_TOPIC, TOPICS
from fleetscope.errors import FencedError, FleetscopeError, RetryError, UsageError
from fleetscope.settings import PipelineSettings
from fleetscope.store.abstract import Store
from fleetscope.stream.abstract import Stream
from processors.metrics import Metrics
from processors.revise.unit import Reviser
from processors.topology import REVISE, STEPS, UNITS, WRITES, windows_step
from processors.worker import SHORT_POLL_S, Worker
from processors.writer import Writer

log = logging.getLogger(__name__)

POLL_S: Final = 0.25
FAILURES_S: Final = 120.0
BACKOFF_S: Final = 1.0
TIDY_S: Final = 5.0
SETTLED_S: Final = 0.25
"""Longer than what a worker knows of its lag may be old."""
TELEMETRY_S: Final = 5.0


class Unit(Protocol):
    """What a thread runs: a worker, a writer, the reviser. ``idle_since``: nothing to do, nothing held since then."""

    name: str
    idle_since: float | None

    def round(self, timeout_s: float) -> bool: ...
    def close(self) -> None: ...
    def abandon(self) -> None: ...


@dataclass(slots=True)
class Slot:
    """A unit's place: how it is made, and the one that runs now."""

    name: str
    make: Callable[[], Unit]
    unit: Unit | None = None
    ending: bool = False
    failures: list[float] = field(default_factory=list)

    def ended(self) -> bool:
        """Whether the step that runs here was told that the input is over, and its rest is published."""
        return isinstance(self.unit, Worker) and self.unit.ended


@dataclass
class Pipeline:
    """Units on a stream and a store, a thread each."""

    stream: Stream
    store: Store | None
    settings: PipelineSettings
    instance: str = field(default_factory=lambda: f"{socket.gethostname()}-{os.getpid()}")
    clock: Clock = field(default_factory=SystemClock)
    names: Sequence[str] = UNITS
    with_telemetry: bool = True
    max_failures: int | None = None
    """So many passing faults of one unit within FAILURES_S are not passing; None: a service tries for ever."""
    on_failure: Callable[[], None] | None = None
    """Called when a unit failed for good, to wake whoever waits for the pipeline to take more."""

    def __post_init__(self) -> None:
        unknown = [n for n in self.names if n not in UNITS]
        if unknown:
            raise UsageError(f"there is no step {unknown[0]}; steps are {', '.join(UNITS)}")
        self.metrics = Metrics(self.instance)
        self.error: BaseException | None = None
        self._stop = threading.Event()
        self._poll_s = POLL_S
        self._threads: list[threading.Thread] = []
        self._slots: list[Slot] = []

    def start(self) -> None:
        """Create topics, join the groups, start the threads."""
        self.stream.ensure_topics(TOPICS)
        if self.settings.metrics_port:
            self.metrics.serve(self.settings.metrics_address, self.settings.metrics_port)
        # Joined before anything is published: the in-memory stream keeps messages for groups that it knows. At the same
        # time, since each asks the broker for its topics.
        makers = [self._maker(name) for name in self.names]
        with ThreadPoolExecutor(len(makers) or 1) as pool:
            units = list(pool.map(lambda make: make(), makers))
        for name, make, unit in zip(self.names, makers, units, strict=True):
            slot = Slot(name, make, unit)
            self._slots.append(slot)
            self._threads.append(threading.Thread(target=self._run, args=(slot,), name=name, daemon=True))
        self._threads.append(threading.Thread(target=self._tidy, name="tidy", daemon=True))
        if self.with_telemetry:
            self._threads.append(threading.Thread(target=self._report, name="telemetry", daemon=True))
        # What was made so far (modules above all) stays: without this each full collection looks at all of it again.
        gc.freeze()
        for thread in self._threads:
            thread.start()

    def stop(self, timeout_s: float = 30.0) -> None:
        """Drain, flush, commit and leave; raises what stopped a unit before."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout_s)
        if self.error is not None:
            raise self.error
        stuck = [thread.name for thread in self._threads if thread.is_alive()]
        if stuck:
            raise FleetscopeError(f"{', '.join(stuck)} did not stop within {timeout_s:g} s; what it had not committed "
                                  "is done again at the next start")

    def wait_drained(self, idle_s: float, timeout_s: float) -> bool:
        """Wait until every unit has had nothing to do and holds nothing for ``idle_s``; False after ``timeout_s``."""
        deadline = self.clock.monotonic_s() + timeout_s
        return self._wait(lambda: self.drained(idle_s), deadline)

    def finish(self, idle_s: float, timeout_s: float) -> bool:
        """The input is over: what waits for more of it goes out, step by step in the order of the flow. Then as
        ``wait_drained``. For runs that end, such as captures; a service waits for what is still to come."""
        deadline = self.clock.monotonic_s() + timeout_s
        self._poll_s = SHORT_POLL_S  # nothing comes any more: long polls would only delay the end
        moving = True
        for slot in self._slots:
            if not isinstance(slot.unit, Worker):
                continue
            if moving and not self._wait(lambda: self._settled(min(idle_s, SETTLED_S)), deadline):
                return False
            slot.ending = True
            if not self._wait(slot.ended, deadline):
                return False
            moving = not isinstance(slot.unit, Worker) or slot.unit.had_rest
        return self.wait_drained(idle_s, max(deadline - self.clock.monotonic_s(), 0.0))

    def _wait(self, true: Callable[[], bool], deadline_s: float) -> bool:
        """Until ``true``; False at the deadline. Raises what stopped a unit."""
        while not true():
            if self.error is not None:
                raise self.error
            if self.clock.monotonic_s() >= deadline_s:
                return False
            self._stop.wait(0.02)
        return True

    def _settled(self, idle_s: float) -> bool:
        """True when every unit has had nothing to do for ``idle_s``, whatever it holds."""
        now = self.clock.monotonic_s()
        for slot in self._slots:
            unit = slot.unit
            since = unit.settled_since if isinstance(unit, Worker) else None if unit is None else unit.idle_since
            if since is None or now - since < idle_s:
                return False
        return True

    def drained(self, idle_s: float) -> bool:
        """True when every unit has been idle, holding nothing, for ``idle_s``."""
        now = self.clock.monotonic_s()
        for slot in self._slots:
            unit = slot.unit
            since = None if unit is None else unit.idle_since
            if since is None or now - since < idle_s:
                return False
        return True

    def run_until(self, stop: threading.Event) -> None:
        """Block until ``stop`` is set or a unit fails, then stop in good order."""
        while not stop.wait(0.2) and self.error is None:
            pass
        self.stop()

    def _maker(self, name: str) -> Callable[[], Unit]:
        for step in STEPS:
            if step.name == name:
                made = step.make(self.settings)
                return lambda: Worker(made, self.stream, instance=self.instance, metrics=self.metrics,
                                      commit_interval_s=min(self.settings.commit_interval_s,
                                                            step.commit_interval_s or math.inf),
                                      held_bytes=self.settings.held_bytes, clock=self.clock)
        store = self.store
        if store is None:
            raise UsageError(f"{name} needs a store")
        if name == REVISE:
            return lambda: Reviser(windows_step(self.settings), self.stream, store, instance=self.instance,
                                   metrics=self.metrics, clock=self.clock)
        spec = next(w for w in WRITES if w.name == name)
        return lambda: Writer(spec.name, spec.targets, self.stream, store, metrics=self.metrics,
                              insert_rows=self.settings.insert_rows, linger_s=self.settings.insert_linger_s,
                              clock=self.clock)

    def _run(self, slot: Slot) -> None:
        try:
            while not self._stop.is_set():
                self._turn(slot)
        except BaseException as error:  # told to whoever waits, and the others are stopped
            log.exception("unit failed", extra={"unit": slot.name})
            self._fail(error)
        finally:
            self._close(slot)

    def _turn(self, slot: Slot) -> None:
        try:
            if slot.unit is None:
                slot.unit = slot.make()
            if slot.ending and isinstance(slot.unit, Worker):
                slot.unit.ending = True
            slot.unit.round(self._poll_s)
            return
        except FencedError as error:
            log.warning("replaced by another worker, joining again", extra={"unit": slot.name, "error": str(error)})
        except RetryError as error:
            log.warning("passing fault, starting again", extra={"unit": slot.name, "error": str(error)})
            now = self.clock.monotonic_s()
            slot.failures = [t for t in slot.failures if now - t < FAILURES_S] + [now]
            if self.max_failures is not None and len(slot.failures) >= self.max_failures:
                raise
            self._stop.wait(BACKOFF_S)
        unit, slot.unit = slot.unit, None
        if unit is not None:
            unit.abandon()

    def _close(self, slot: Slot) -> None:
        unit, slot.unit = slot.unit, None
        if unit is None:
            return
        try:
            if self.error is None:
                unit.close()
            else:
                unit.abandon()
        except (FencedError, RetryError) as error:
            log.warning("closed without its last commit", extra={"unit": slot.name, "error": str(error)})
        except BaseException as error:  # noqa: BLE001 - the first error is the one to tell
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.error = self.error or error
        self._stop.set()
        if self.on_failure is not None:
            self.on_failure()

    def _tidy(self) -> None:
        while not self._stop.wait(TIDY_S):
            memory.release()
            if self.store is not None:
                self.store.release()

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
