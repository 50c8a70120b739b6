"""What a host publishes, for `align`: spans, samples of a device clock, heartbeats, and its map to fleet time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.step import Output
from processors.align.step import AlignState, AlignStep
from processors.clocks.segments import Segment, segment_rows
from tests.unit.processors.clocks.models import HOST_START, NS, Model

RAW = "monotonic_raw"
SHIFT = 1_790_000_000 * NS - HOST_START
"""Fleet time is host time plus this."""
KINDS = (("spans", RAW), ("spans", "dev0"), ("clock_samples", RAW))


def host(seconds: float) -> int:
    return HOST_START + round(seconds * NS)


@dataclass
class Feed:
    """One producer of host h1. Times are seconds of the host's clock since the models' start.

    ``busy``: the next batch is at hand already, so that nobody asks the step for what it gathers.
    """

    step: AlignStep
    state: AlignState
    device: Model = field(default_factory=lambda: Model(100_000_000, ppm=20.0))
    producer: str = "h1/agent"
    epoch: int = 1
    busy: bool = False
    batches: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    rows: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))
    outputs: list[Output] = field(default_factory=list)

    def give(self, batch: Batch) -> list[Output]:
        self.state, out = self.step.on_batch(self.state, batch)
        if not self.busy:
            out = out + self.step.gathered(self.state)
        self.outputs += out
        return out

    def batch(self, contract: str, rows: list[dict[str, Any]], clock: str, sent: int | None) -> Batch:
        """The next batch of a kind, counted; not given yet."""
        made = from_rows(CONTRACTS[contract], rows)
        column = CONTRACTS[contract].time_column
        times = [row[str(column)] for row in rows]
        header = Header(contract, 1, "h1", self.producer, self.epoch, self.batches[contract], len(rows), clock,
                        min_time=min(times), max_time=max(times), flushed_ticks=sent)
        self.batches[contract] += 1
        self.rows[contract] += len(rows)
        return Batch(header, made)

    def spans(self, clock: str, *seconds: float, sent_s: float, ticks: Iterable[int] = ()) -> Batch:
        """Spans of 100 ticks; not given yet."""
        read = self.device.read if clock == "dev0" else int
        starts = [*(read(host(s)) for s in seconds), *ticks]
        return self.batch("spans", [{"track": "driver", "name": "k", "start_ticks": t, "duration_ticks": 100}
                                    for t in starts], clock, host(sent_s))

    def sample(self, second: float, clock: str = "dev0") -> list[Output]:
        """A burst of four exchanges with the device clock, 1 µs each way."""
        rows = [{"kind": "exchange", "local_clock": RAW, "remote_clock": clock, "local_before_ticks": at,
                 "remote_first_ticks": self.device.read(at + 1_000), "local_after_ticks": at + 2_000, "local_hz": NS,
                 "remote_hz": self.device.hz}
                for at in range(host(second), host(second) + 40_000, 10_000)]
        return self.give(self.batch("clock_samples", rows, RAW, host(second) + 50_000))

    def beat(self, second: float, *, closed: bool = False,
             kinds: Iterable[tuple[str, str]] = KINDS) -> list[Output]:
        """Counts of everything so far; later rows are not earlier than now."""
        now = host(second)
        rows = [{"time_ticks": now, "contract": contract, "clock": clock, "batches_total": self.batches[contract],
                 "rows_total": self.rows[contract], "dropped_rows_total": 0,
                 "through_ticks": self.device.read(now) if clock == "dev0" else now, "closed": closed}
                for contract, clock in kinds]
        return self.give(self.batch("heartbeats", rows, RAW, now))

    def silence(self, state: str, last: float, now: float) -> list[Output]:
        """What the other hosts say of h1."""
        rows = from_rows(CONTRACTS["silences"], [{"state": state, "last_ticks": host(last), "now_ticks": host(now)}])
        sequence = self.batches["silences"]
        self.batches["silences"] += 1
        return self.give(Batch(Header("silences", 1, "h1", "silence", 0, sequence, 1), rows))

    def second(self, number: float, *, samples: bool = True) -> None:
        """A second of an ordinary host: samples, a span on each clock, a heartbeat, fleet time up to now."""
        if samples:
            self.sample(number)
        self.give(self.spans("dev0", number + 0.2, number + 0.5, sent_s=number + 0.9))
        self.give(self.spans(RAW, number + 0.2, number + 0.5, sent_s=number + 0.9))
        self.beat(number + 0.95)
        fleet_through(self, number + 0.99)


def new_feed(**thresholds: Any) -> Feed:
    step = AlignStep(**thresholds)
    return Feed(step, step.start())


def fleet_through(feed: Feed, second: float) -> list[Output]:
    """The fleet clock step decides h1's map up to a time: 3 ns of error, 50 against UTC."""
    sequence = feed.batches["fleet"]
    feed.batches["fleet"] += 1
    start = host(-1_000) if sequence == 0 else feed.rows["fleet"]
    stop = host(second)
    feed.rows["fleet"] = stop
    piece = Segment(0, start, stop, start, start + SHIFT, 1 << 32, 3, 50, "settled", stop)
    rows = segment_rows("h1", RAW, "h1", "fleet", [piece])
    return feed.give(Batch(Header("segments", 1, "h1", "fleet_clocks/h1", 0, sequence, 1, RAW), rows))


def rows_of(outputs: Iterable[Output], contract: str) -> list[dict[str, Any]]:
    """All rows of a kind, with the clock of their batch."""
    return [{**row, "clock": o.batch.header.clock} for o in outputs if o.batch.header.contract == contract
            for row in o.batch.rows.to_pylist()]


def marks(outputs: Iterable[Output]) -> Iterator[int]:
    """Watermarks in the order of publication."""
    return (o.batch.header.watermark_ns for o in outputs if o.batch.header.watermark_ns is not None)


def marks_rise(outputs: Iterable[Output]) -> bool:
    """True where no topic's watermark ever falls; a topic's promise says nothing of another's."""
    latest: dict[str, int] = {}
    for output in outputs:
        mark = output.batch.header.watermark_ns
        if mark is not None and mark < latest.get(output.topic, mark):
            return False
        latest[output.topic] = latest.get(output.topic, 0) if mark is None else mark
    return True


def fleet(second: float) -> int:
    """The true fleet time."""
    return host(second) + SHIFT
