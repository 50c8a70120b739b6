"""The step that closes windows: aligned spans, counters, inventory and coverage in, time accounting out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from fleetscope.contracts.batch import Batch, Header
from fleetscope.contracts.derived import WINDOWS
from fleetscope.contracts.topics import ALIGNED_TOPICS, COVERAGE_TOPIC, WINDOWS_TOPIC
from fleetscope.ledger import Ledger
from fleetscope.step import Output, TopicPartition
from processors.windows import late
from processors.windows.close import WindowRow, amend_last, close_window, window_batch
from processors.windows.intake import CLOSED, take, take_again
from processors.windows.state import Host, State, restore, snapshot
from processors.windows.view import host_rows

_TOPIC_OF: Final = {
    "aligned_spans": ALIGNED_TOPICS["aligned_spans"].name,
    "aligned_counters": ALIGNED_TOPICS["aligned_counters"].name,
    "aligned_inventory": ALIGNED_TOPICS["aligned_inventory"].name,
    "coverage": COVERAGE_TOPIC.name,
}


@dataclass(frozen=True)
class WindowsStep:
    """Tumbling windows ``[k·window_ns, (k+1)·window_ns)`` of each host on the host's own watermarks.

    A window closes when the watermark of each of the four inputs has reached its end; a topic that never spoke has no
    watermark. Watermarks promise that later rows do not start earlier, for `coverage` that they do not speak of a time
    (``from_ns``) before it. A watermark of 2^62 says that the host has closed: its windows close up to the end of the
    last row. The first window is the one of the host's first row.

    A row that starts in a closed window is late: it is counted in ``late_rows`` of the host's next window (the last
    one is written again where the host has closed), and what of it lies in open windows is accounted for there. The
    closed windows that it touches are asked for again on `late_windows`, once for each batch; whoever answers counts
    the row in ``received_rows`` of its own window and leaves ``late_rows`` where they were told: over all windows each
    adds up to what came.
    Repeats are recognised by identity, dropped and counted in ``redelivered_rows`` likewise.

    ``lookback_ns``: how long before its work a submission may have ended. ``max_span_ns``: longer spans are cut.
    ``max_empty_windows``: a host that is silent for longer gets no further windows until its next row.
    """

    window_ns: int = 1_000_000_000
    lookback_ns: int = 1_000_000_000
    max_span_ns: int = 600_000_000_000
    max_empty_windows: int = 3_600

    name: ClassVar[str] = "windows"
    inputs: ClassVar[tuple[str, ...]] = tuple(_TOPIC_OF.values())
    broadcast: ClassVar[tuple[str, ...]] = ()

    def __post_init__(self) -> None:
        if self.window_ns <= 0 or self.lookback_ns < 0 or self.max_span_ns <= 0 or self.max_empty_windows < 0:
            raise ValueError(f"window_ns {self.window_ns}, lookback_ns {self.lookback_ns}, "
                             f"max_span_ns {self.max_span_ns}, max_empty_windows {self.max_empty_windows}")

    def start(self) -> State:
        """No host yet."""
        return State()

    def on_batch(self, state: State, batch: Batch) -> tuple[State, list[Output]]:
        """Take one batch of one host. Raises KeyError for a contract that is not an input."""
        topic = _TOPIC_OF[batch.header.contract]
        name = batch.header.host
        host = state.hosts.setdefault(name, Host())
        was_catching_up = bool(state.catching_up)
        if self._is_again(state, batch):
            take_again(host, batch, self.max_span_ns, self.lookback_ns)
        else:
            take(host, batch, topic, self.window_ns, self.max_span_ns, self.lookback_ns)
        outputs: list[Output] = []
        if not state.catching_up:
            outputs = self._close_all(state) if was_catching_up else self._close(name, host)
        return state, outputs + late.requests(host, name, batch, self.window_ns)

    def _close_all(self, state: State) -> list[Output]:
        """What a restart held back."""
        for known in state.hosts.values():
            known.reread = Ledger()
        return [out for name in sorted(state.hosts) for out in self._close(name, state.hosts[name])]

    def on_end(self, state: State) -> list[Output]:
        """Close every host as if it had said so."""
        outputs = []
        for name, host in sorted(state.hosts.items()):
            host.watermarks = dict.fromkeys(self.inputs, CLOSED)
            outputs += self._close(name, host)
        return outputs

    def held(self, state: State) -> Mapping[TopicPartition, int]:
        """Lowest offset of each input partition with a row that an open window needs."""
        return state.held()

    def snapshot(self, state: State) -> bytes:
        """JSON in a zstd frame, without rows."""
        return snapshot(state, self.window_ns)

    def restore(self, data: bytes) -> State:
        """ValueError for another step, version or window length."""
        return restore(data, self.window_ns)

    def _is_again(self, state: State, batch: Batch) -> bool:
        """Whether a batch was counted before a restart; moves the positions."""
        if batch.origin is None:
            return False
        at = TopicPartition(batch.origin.topic, batch.origin.partition)
        following = state.next_offset.get(at, 0)
        if batch.origin.offset >= following - 1:
            state.catching_up.pop(at, None)
        if batch.origin.offset < following:
            return True
        if batch.header.row0 + len(batch) >= batch.header.rows:  # else pieces of the same message follow
            state.next_offset[at] = batch.origin.offset + 1
        return False

    def _close(self, name: str, host: Host) -> list[Output]:
        watermark = min((host.watermarks.get(topic, -CLOSED) for topic in self.inputs), default=-CLOSED)
        closed = watermark >= CLOSED
        limit, known_to = watermark, watermark
        if closed:
            # the same windows whichever topic closes last
            known_to = max(host.last_end_ns, host.alive_ns)
            limit = max(-(-host.last_end_ns // self.window_ns), host.alive_ns // self.window_ns) * self.window_ns
        outputs = []
        if self._open_first(host, limit) or (host.edge_ns is not None and host.edge_ns + self.window_ns <= limit):
            outputs = self._close_through(name, host, limit, known_to)
            host.release(self.lookback_ns)
        if closed:
            host.chunks.clear()
        if closed and host.edge_ns is not None and (rows := amend_last(host)):
            outputs.append(_output(name, host, rows, host.edge_ns))
        return outputs

    def _open_first(self, host: Host, limit: int) -> bool:
        """Place the first window at the host's first row once no earlier row can come."""
        if host.edge_ns is not None or host.known_from_ns is None:
            return False
        first = host.known_from_ns // self.window_ns * self.window_ns
        if first + self.window_ns > limit:
            return False
        host.edge_ns = first
        return True

    def _close_through(self, name: str, host: Host, limit: int, known_to: int) -> list[Output]:
        rows = host_rows(host.chunks, limit)
        outputs = []
        while host.edge_ns is not None and host.edge_ns + self.window_ns <= limit:
            start, stop = host.edge_ns, host.edge_ns + self.window_ns
            if not any(key <= start for key in (*host.received, *host.coverage)) and rows.silent(start, stop):
                host.empty_run += 1
                if host.empty_run > self.max_empty_windows:
                    host.edge_ns = self._next_spoken(host, rows.next_start(stop), stop, limit)
                    continue
            else:
                host.empty_run = 0
            windows = close_window(host, name, rows, start, stop, known_to, self.lookback_ns)
            if windows:
                outputs.append(_output(name, host, windows, stop))
        return outputs

    def _next_spoken(self, host: Host, next_row: int | None, stop: int, limit: int) -> int:
        """Start of the next window that anything was said about, at most the first that cannot close yet."""
        starts = [key for key in (*host.received, *host.coverage) if key >= stop]
        if next_row is not None:
            starts.append(next_row // self.window_ns * self.window_ns)
        return max(min([limit // self.window_ns * self.window_ns, *starts]), stop)


def _output(name: str, host: Host, rows: list[WindowRow], end_ns: int) -> Output:
    times: list[Any] = [row["window_start_ns"] for row in rows]
    header = Header(WINDOWS.name, WINDOWS.version, name, "windows", 0, host.sequence, len(rows), min_time=min(times),
                    max_time=max(times), watermark_ns=end_ns)
    host.sequence += 1
    return Output(WINDOWS_TOPIC.name, Batch(header, window_batch(rows)))
