"""The agent: reads this host in a steady rhythm and publishes what it read, with counts that show what is lost.

Two producers speak for a host. ``<host>/agent`` has counters, inventory and clocks of the host itself, for the
partition of the host; ``<host>/links`` has what the one fleet clock step needs. Each numbers its own batches.
"""

from __future__ import annotations

import hashlib
import threading
from typing import Final

import pyarrow as pa

from fleetscope.contracts import Contract
from fleetscope.contracts.raw import CLOCK_SAMPLES, COUNTERS, HEARTBEATS, INVENTORY, MARKS, PROFILES, SPANS
from fleetscope.contracts.topics import CLOCK_LINKS, RAW_TOPICS
from fleetscope.outbox import Outbox, Sender
from fleetscope.publisher import Promise, Publisher
from ingest.clocks import HZ, REFERENCE, HostClocks, LinuxClocks
from ingest.hostroot import HostRoot
from ingest.links.prober import Prober
from ingest.probe import Probe, host_collectors
from ingest.ptp import PtpClocks
from ingest.reading import Fact, Reading
from ingest.rows import counter_rows, descriptor_facts, inventory_rows, sample_rows, suspend_rows
from ingest.sampling import ClockSampler

HEARTBEAT_NS: Final = HZ
CLOCKS_NS: Final = HZ
INVENTORY_CHECK_NS: Final = 60 * HZ
INVENTORY_REPEAT_NS: Final = 600 * HZ
MAX_BUFFERED_ROWS: Final = 20_000
SETTLE_TIMEOUT_S: Final = 2.0
CLOSE_TIMEOUT_S: Final = 30.0
_OWN: Final = (COUNTERS, CLOCK_SAMPLES, INVENTORY, MARKS)
_SILENT: Final = (SPANS, PROFILES)
"""Kinds the agent never publishes: its heartbeats say so, so that nobody waits for them."""


def epoch_of(boot_id: str, realtime_ns: int, salt: int) -> int:
    """A number below 2^63 that grows from start to start and differs between boots that start at the same ms.

    44 bits of ms since 1970, then 19 bits of a hash of boot id, start time and ``salt`` (a process id).
    """
    digest = hashlib.blake2b(f"{boot_id}/{realtime_ns}/{salt}".encode(), digest_size=8).digest()
    return (realtime_ns // 1_000_000 & (1 << 44) - 1) << 19 | int.from_bytes(digest) & (1 << 19) - 1


class Agent:
    """Publishes one host. Drive it with ``run``, or in tests with ``tick`` and a clock moved by hand.

    ``period_s`` is the time between readings; rows wait at most ``linger_s`` before they are sent. ``prober`` exchanges
    stamps with other hosts; the agent starts and stops it with ``run``.
    """

    def __init__(self, host_id: str, producer: Sender, root: HostRoot, period_s: float = 1.0,
                 clocks: HostClocks | None = None, *, linger_s: float = 1.0, salt: int = 0,
                 probe: Probe | None = None, prober: Prober | None = None) -> None:
        if period_s <= 0 or linger_s < 0:
            raise ValueError("the period must be positive and the linger not negative")
        self.clocks: HostClocks = clocks or LinuxClocks()
        self._ptp, self._prober = PtpClocks(root, self.clocks), prober
        self._probe = probe or Probe(root, self.clocks, host_collectors(self.clocks, self._ptp, prober))
        self._period_s = period_s
        self._linger_ns = round(linger_s * HZ)
        boot_id = (root.text("proc/sys/kernel/random/boot_id", "agent", optional=True) or "").strip()
        epoch = epoch_of(boot_id, self.clocks.realtime_ns(), salt)
        self.outbox = Outbox(producer)
        self.own = Publisher(host_id, f"{host_id}/agent", epoch, self.outbox)
        self.links = Publisher(host_id, f"{host_id}/links", epoch, self.outbox)
        self._readings: list[tuple[int, Reading]] = []
        self._samples = ClockSampler(self.clocks, self._ptp, prober)
        self._facts: list[Fact] = []
        self._facts_sent_at: int | None = None
        start = self.clocks.monotonic_raw_ns()
        self._due = dict.fromkeys(("read", "clocks", "inventory", "heartbeat"), start)
        self._every = {"read": round(period_s * HZ), "clocks": CLOCKS_NS, "inventory": INVENTORY_CHECK_NS,
                       "heartbeat": HEARTBEAT_NS}

    def run(self, stop: threading.Event, duration_s: float | None = None) -> None:
        """Tick until ``stop`` is set or ``duration_s`` passed, then ``close``, also when a tick raises."""
        end = None if duration_s is None else self.clocks.monotonic_raw_ns() + round(duration_s * HZ)
        if self._prober is not None:
            self._prober.start()
        try:
            while not stop.is_set():
                wake = self.tick()
                now = self.clocks.monotonic_raw_ns()
                if end is not None and now >= end:
                    break
                stop.wait(max(min(wake, end or wake) - now, 0) / HZ)
        finally:
            self.close()

    def tick(self) -> int:
        """Do what is due; returns the ticks at which something is due again."""
        now = self.clocks.monotonic_raw_ns()
        if self._is_due("inventory", now):
            self._publish_inventory(now)
        if self._is_due("read", now):
            self._readings.extend(self._probe.read())
        if self._is_due("clocks", now):
            self._samples.read()
        self._samples.gather()
        beat = self._is_due("heartbeat", now)
        oldest = self._oldest()
        # What would fall due before the next heartbeat goes out now, so that this one can promise more.
        until = self._due["heartbeat"] if beat else self.clocks.monotonic_raw_ns()
        if (oldest is not None and oldest + self._linger_ns <= until) or len(self._readings) >= MAX_BUFFERED_ROWS:
            self._flush()
        if beat:
            self._heartbeat()
            self.outbox.settle(SETTLE_TIMEOUT_S)
        oldest = self._oldest()
        wakes = [*self._due.values(), *([] if oldest is None else [oldest + self._linger_ns])]
        return min(wakes)

    def close(self) -> None:
        """Send what waits and the closing heartbeats. ``len(outbox)`` is what the stream did not acknowledge."""
        if self._prober is not None:
            self._prober.stop()
            self._samples.gather()
        self._ptp.close()
        self._flush()
        if self.outbox.full:
            self.outbox.settle(SETTLE_TIMEOUT_S)
        self._heartbeat(closed=True)
        self.outbox.settle(CLOSE_TIMEOUT_S)

    def _is_due(self, what: str, now: int) -> bool:
        if now < self._due[what]:
            return False
        # Beats that were missed are not made up for: two readings at one moment tell nothing.
        every = self._every[what]
        self._due[what] += every * ((now - self._due[what]) // every + 1)
        return True

    def _oldest(self) -> int | None:
        first = [self._readings[0][0]] if self._readings else []
        waiting = self._samples.oldest()
        first += [] if waiting is None else [waiting]
        return min(first, default=None)

    def _flush(self) -> None:
        now = self.clocks.monotonic_raw_ns()
        if self._readings:
            self._publish(self.own, COUNTERS, counter_rows(self._readings), RAW_TOPICS[COUNTERS.name].name, now)
            self._readings.clear()
        for waiting, publisher, topic in ((self._samples.links, self.links, CLOCK_LINKS),
                                          (self._samples.own, self.own, RAW_TOPICS[CLOCK_SAMPLES.name])):
            if waiting:
                self._publish(publisher, CLOCK_SAMPLES, sample_rows(waiting), topic.name, now)
                waiting.clear()
        if self._samples.slept:
            self._publish(self.own, MARKS, suspend_rows(self._samples.slept), RAW_TOPICS[MARKS.name].name, now)
            self._samples.slept.clear()

    def _publish_inventory(self, now: int) -> None:
        facts = [*self._probe.facts(), *descriptor_facts(self._probe.descriptors, self._period_s)]
        sent = self._facts_sent_at
        if facts == self._facts and sent is not None and now - sent < INVENTORY_REPEAT_NS:
            return
        self._facts, self._facts_sent_at = facts, now
        self._publish(self.own, INVENTORY, inventory_rows(facts, now), RAW_TOPICS[INVENTORY.name].name, now)

    @staticmethod
    def _publish(publisher: Publisher, contract: Contract, rows: pa.RecordBatch, topic: str, now: int) -> None:
        publisher.publish(contract, rows, REFERENCE, topic, now)

    def _heartbeat(self, *, closed: bool = False) -> None:
        now = self.clocks.monotonic_raw_ns()
        oldest = self._oldest()
        through = Promise(REFERENCE, now if oldest is None else min(oldest, now))
        own = {c.name: through for c in _OWN} | {c.name: Promise(REFERENCE, now) for c in _SILENT}
        self.own.heartbeat(RAW_TOPICS[HEARTBEATS.name].name, now, own, closed=closed)
        links = Promise(REFERENCE, self._samples.links_through(now))
        self.links.heartbeat(CLOCK_LINKS.name, now, {CLOCK_SAMPLES.name: links}, closed=closed)
