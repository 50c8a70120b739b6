"""The unit `revise`: answers requests on `late_windows` with rows of `windows`, from the store.

A request waits until the store has every row that the windows step had counted when it asked; then its windows are
accounted for again and published together with the position. Requests that wait together are answered together: a
window asked for several times is computed once, for the last of them.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final

from fleetscope.clock import Clock, SystemClock
from fleetscope.contracts.batch import Batch, Header
from fleetscope.contracts.codec import decode, encode
from fleetscope.contracts.derived import WINDOWS
from fleetscope.contracts.topics import LATE_WINDOWS_TOPIC, WINDOWS_TOPIC
from fleetscope.errors import FencedError, Origin, RejectedError, RetryError
from fleetscope.step import Output, TopicPartition
from fleetscope.store.abstract import Store
from fleetscope.stream.abstract import Consumer, Message, Position, Stream, TransactionalProducer
from processors.dead_letters import dead_letter
from processors.metrics import Metrics
from processors.revise.asks import AskedWindow, Request, request_of
from processors.revise.history import NS, Archive
from processors.revise.landed import Landed
from processors.revise.rebuild import recompute
from processors.windows.close import WindowRow, window_batch
from processors.windows.step import WindowsStep

log = logging.getLogger(__name__)

NAME: Final = "revise"
LOOK_S: Final = 0.25
LAG_S: Final = 0.2
TOGETHER: Final = 256
"""Requests answered in one transaction."""
MAX_PENDING: Final = 2_048
RUN_NS: Final = 10 * NS
"""Neighbouring windows that are read at once: at least one, else as many as fit in this time."""
SLICE_ROWS: Final = 1_000
"""Rows of `windows` in one message."""


@dataclass(frozen=True, slots=True)
class Item:
    """A message: what it asks for (None: nothing), or what became of it."""

    offset: int
    request: Request | None = None
    refused: Output | None = None


@dataclass(slots=True)
class Lane:
    """One partition: what waits, since when, and when to look into the store again."""

    at: TopicPartition
    items: deque[Item] = field(default_factory=deque)
    waiting_since: float = 0.0
    look_at: float = 0.0


class Reviser:
    """A member of the group ``revise``; ``round`` does one turn. ``wait_s``: how long rows may take to the store."""

    def __init__(self, step: WindowsStep, stream: Stream, store: Store, *, instance: str, metrics: Metrics,
                 wait_s: float = 60.0, clock: Clock | None = None) -> None:
        self.name = NAME
        self._step = step
        self._archive = Archive(store, step)
        self._landed = Landed(store)
        self._metrics = metrics
        self._wait = wait_s
        self._clock = clock or SystemClock()
        self._lanes: dict[TopicPartition, Lane] = {}
        self._lag_at = -1.0
        self._ended = False
        self._producer: TransactionalProducer = stream.transactional_producer(f"{NAME}-{instance}")
        self._consumer: Consumer = stream.consumer(NAME, (LATE_WINDOWS_TOPIC.name,), on_assigned=self._assigned,
                                                   on_revoked=self._revoked)
        self.idle_since: float | None = None

    def round(self, timeout_s: float) -> bool:
        """One turn; True if anything was done. Raises RetryError where rows do not reach the store, or it is away:
        nothing is committed then and the requests come again."""
        messages = self._consumer.poll(500, timeout_s)
        for message in messages:
            self._take(message)
        busy = bool(messages)
        now = self._clock.monotonic_s()
        for lane in list(self._lanes.values()):
            busy |= self._answer_ready(lane, now)
            self._throttle(lane)
        idle = not busy and not any(lane.items for lane in self._lanes.values()) and self._at_end(now)
        self.idle_since = (self.idle_since or now) if idle else None
        return busy

    def close(self) -> None:
        """Leave the group; what was not answered is asked again."""
        self._consumer.close()
        self._producer.close()

    def abandon(self) -> None:
        """As ``close``: between rounds no transaction is open."""
        self.close()

    def _assigned(self, partitions: Sequence[TopicPartition]) -> None:
        for at in partitions:
            self._lanes[at] = Lane(at)
        self._lag_at = -1.0

    def _revoked(self, partitions: Sequence[TopicPartition]) -> None:
        for at in partitions:
            self._lanes.pop(at, None)

    def _at_end(self, now: float) -> bool:
        if not self._lanes:
            return False
        if now - self._lag_at >= LAG_S:
            self._lag_at = now
            lag = self._consumer.lag(LAG_S)
            self._ended = not any(lag.values())
            for at, messages in lag.items():
                self._metrics.gauge("lag_messages", f"{NAME}:{at.topic}", at.partition, messages)
        return self._ended

    def _take(self, message: Message) -> None:
        at = TopicPartition(message.topic, message.partition)
        lane = self._lanes.get(at)
        if lane is None:
            return
        if not lane.items:
            lane.waiting_since, lane.look_at = self._clock.monotonic_s(), 0.0
        try:
            batch = decode(message.key, message.value, message.headers,
                           Origin(message.topic, message.partition, message.offset))
        except RejectedError as error:
            self._metrics.count("dead_letters", NAME, message.partition, 1)
            lane.items.append(Item(message.offset, refused=dead_letter(NAME, message, error, None)))
            return
        request = request_of(batch)
        if request is not None and request.window_ns != self._step.window_ns:
            log.warning("windows of another length are left as they are",
                        extra={"unit": NAME, "offset": message.offset, "window_ns": request.window_ns})
            self._metrics.count("other_windows", NAME, message.partition, len(request.windows))
            request = None
        lane.items.append(Item(message.offset, request))

    def _throttle(self, lane: Lane) -> None:
        if len(lane.items) > MAX_PENDING:
            self._consumer.pause([lane.at])
        elif len(lane.items) < MAX_PENDING // 2:
            self._consumer.resume([lane.at])

    # answering

    def _answer_ready(self, lane: Lane, now: float) -> bool:
        """Answer the first requests of a lane, up to the first whose rows are not in the store."""
        if not lane.items or now < lane.look_at:
            return False
        waited = now - lane.waiting_since
        items = list(islice(lane.items, TOGETHER))
        missing = self._landed.first_missing([item.request for item in items], final=waited >= self._wait)
        ready = items if missing is None else items[:missing.index]
        if not ready:
            lane.look_at = now + LOOK_S
            if waited >= self._wait and missing is not None:
                raise RetryError(f"{lane.at.topic}/{lane.at.partition}/{items[0].offset}: {missing.what} not in the "
                                 f"store after {waited:.0f} s")
            return False
        self._answer(lane, ready)
        for _ in ready:
            lane.items.popleft()
        lane.waiting_since = now
        return True

    def _answer(self, lane: Lane, items: Sequence[Item]) -> None:
        """Publish the answers and commit the position, together or not at all."""
        rows = self._rows([item.request for item in items if item.request is not None])
        outputs = [output for item in items for output in _outputs(item, rows)]
        self._producer.begin()
        try:
            for output in outputs:
                self._producer.send(output.topic, encode(output.batch))
            self._producer.commit({lane.at: Position(items[-1].offset + 1)}, self._consumer)
        except (FencedError, RetryError):
            self._producer.abort()
            raise
        done = sum(len(found) for found in rows.values())
        self._metrics.count("revised_rows", NAME, lane.at.partition, done)

    def _rows(self, requests: Sequence[Request]) -> dict[tuple[str, int], list[WindowRow]]:
        """Rows by host and number of the request that gets them: of each window the last that asks."""
        last: dict[tuple[str, int], tuple[AskedWindow, Request]] = {}
        for request in requests:
            for window in request.windows:
                last[request.host, window.start_ns] = (window, request)
        rows: dict[tuple[str, int], list[WindowRow]] = {}
        for host in sorted({request.host for request in requests}):
            windows = sorted((w for (name, _), (w, _r) in last.items() if name == host), key=lambda w: w.start_ns)
            for run in _runs(windows, self._step.window_ns):
                history = self._archive.history(host, run[0].start_ns, run[-1].start_ns + self._step.window_ns)
                for row in recompute(history, run, self._step):
                    request = last[host, row["window_start_ns"]][1]
                    rows.setdefault((host, request.header.sequence), []).append(row)
        return rows


def _runs(windows: Iterable[AskedWindow], window_ns: int) -> Iterator[list[AskedWindow]]:
    """Neighbours together, as many as are read at once."""
    most = max(1, RUN_NS // window_ns)
    run: list[AskedWindow] = []
    for window in windows:
        if run and (len(run) >= most or window.start_ns != run[-1].start_ns + window_ns):
            yield run
            run = []
        run.append(window)
    if run:
        yield run


def _outputs(item: Item, rows: dict[tuple[str, int], list[WindowRow]]) -> list[Output]:
    """What a message brought. Every request is answered, if only with an empty batch: the answers keep its number, so
    that they are numbered without gap."""
    if item.refused is not None:
        return [item.refused]
    if item.request is None:
        return []
    host, asked = item.request.host, item.request.header
    found = rows.get((host, asked.sequence), [])
    times = [int(row["window_start_ns"]) for row in found]
    header = Header(WINDOWS.name, WINDOWS.version, host, NAME, asked.epoch, asked.sequence, len(found),
                    min_time=min(times, default=None), max_time=max(times, default=None))
    whole = Batch(header, window_batch(found))
    pieces = [whole.slice(at, min(SLICE_ROWS, len(found) - at)) for at in range(0, len(found), SLICE_ROWS)] or [whole]
    return [Output(WINDOWS_TOPIC.name, piece) for piece in pieces]
