"""Aligned batches of small made-up hosts, as `align` would publish them."""

from __future__ import annotations

import random
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, Header, from_rows
from processors.windows.intake import CLOSED

Message = tuple[str, Batch]
Row = dict[str, Any]

TOPICS = {"aligned_spans": "aligned.spans", "aligned_counters": "aligned.counters",
          "aligned_inventory": "aligned.inventory", "coverage": "coverage"}


@dataclass
class Feed:
    """Batches of one host in the order they are made, with sequences by contract."""

    host: str = "h1"
    messages: list[Message] = field(default_factory=list)
    sequences: defaultdict[str, int] = field(default_factory=lambda: defaultdict(int))

    def send(self, contract: str, rows: list[Row], watermark: int | None = None, clock: str = "") -> Batch:
        header = Header(contract, 1, self.host, f"{self.host}/agent" if rows else "align/mark", 1,
                        self.sequences[contract, bool(rows)], len(rows), clock, watermark_ns=watermark)
        self.sequences[contract, bool(rows)] += 1
        batch = Batch(header, from_rows(CONTRACTS[contract], rows))
        self.messages.append((TOPICS[contract], batch))
        return batch

    def spans(self, *rows: Row, watermark: int | None = None) -> Batch:
        return self.send("aligned_spans", list(rows), watermark)

    def mark(self, watermark: int) -> None:
        """The host has come so far on every topic."""
        for contract in TOPICS:
            self.send(contract, [], watermark)

    def close(self) -> None:
        self.mark(CLOSED)


def together(*batches: Batch) -> Batch:
    """One message with the rows of several batches of spans, as `align` gathers them."""
    rows = pa.concat_batches([batch.rows for batch in batches])
    parts = tuple(part._replace(total=part.row0 + part.rows) for batch in batches for part in batch.parts)
    header = replace(batches[0].header, version=2, rows=rows.num_rows, parts=parts,
                     watermark_ns=batches[-1].header.watermark_ns)
    return Batch(header, rows)


def span(track: str, start: int, duration: int, device: str | None = "dev0", **more: Any) -> Row:
    return {"track": track, "name": track, "start_ticks": start, "duration_ticks": duration, "start_ns": start,
            "duration_ns": duration, "device": device, "err_ns": 1, "utc_err_ns": 5, "alignment": "settled",
            "process_id": 7} | more


def counter(time: int, **more: Any) -> Row:
    return {"counter": "power_w", "time_ticks": time, "time_ns": time, "status": "ok", "value": 1.0, "err_ns": 1,
            "alignment": "settled", **more}


def fact(kind: str, component: str, attribute: str, number: float | None = None, time: int = 0,
         parent: str | None = None) -> Row:
    return {"time_ticks": time, "time_ns": time, "kind": kind, "component": component, "attribute": attribute,
            "number": number, "parent": parent, "alignment": "settled"}


def coverage(begin: int, end: int, received: int, dropped: int = 0, lost: int = 0, redelivered: int = 0,
             host: str = "h1") -> Row:
    return {"host": host, "source": f"{host}/agent", "source_epoch": 1, "contract": "spans", "from_ns": begin,
            "to_ns": end, "produced_rows": received + lost, "received_rows": received, "late_rows": 0,
            "redelivered_rows": redelivered, "dropped_rows": dropped, "lost_rows": lost}


def busy_host(feed: Feed, seed: int, until: int, stride: int = 250, close: bool = True) -> None:
    """Two devices under random work, submissions and steps; beats every 400 ns; loss in the middle."""
    rng = random.Random(seed)
    facts = [fact("device", d, "kind", time=5) for d in ("dev0", "dev1")]
    for device in ("dev0", "dev1"):
        facts += [fact("peak", device, "flops_per_s", 2e9, 5), fact("peak", device, "memory_bytes_per_s", 1e9, 5),
                  fact("link", f"{device}/pcie", "speed_gt_s", 16, 6, device),
                  fact("link", f"{device}/pcie", "width_lanes", 4, 6, device)]
    feed.send("aligned_inventory", facts)
    correlation = 0
    for begin in range(0, until, stride):
        rows: dict[str, list[Row]] = {"host": [], "dev0": [], "dev1": []}
        for at in sorted(rng.sample(range(begin, begin + stride), 9)):
            correlation += 1
            rank = rng.randrange(2)
            rows["host"].append(span("driver", at, rng.randrange(1, 8), None, correlation_id=correlation, rank=rank,
                                     job="train", err_ns=rng.choice([1, 1, 2, None])))
            device = f"dev{rank}"
            track = rng.choice(["engine:matrix", "engine:matrix", "engine:vector", "pcie_h2d", "pcie_d2h",
                                "collective"])
            start = min(at + rng.randrange(20), begin + stride - 1)
            waits = {"wait_ids": [correlation - 1, correlation - 2]} if rng.random() < 0.4 else {}
            rows[device].append(span(track, start, rng.randrange(60), device, correlation_id=correlation, rank=rank,
                                     job="train", bytes=rng.randrange(80), flops=rng.randrange(80),
                                     err_ns=rng.choice([1, 1, 1, 3, None]), **waits))
        for rank in range(2):
            rows["host"].append(span("cpu_thread", begin + rng.randrange(100), rng.randrange(300), None, step=1,
                                     rank=rank, job="train"))
            rows["host"].append(span("host_api", begin + rng.randrange(100), 5, None, rank=rank))
        for part in rows.values():
            feed.spans(*part)
        feed.send("aligned_counters", [counter(begin + d, device=device, status=status) for d, device, status in (
            (10, None, "sentinel"), (110, "dev0", "wrapped"), (150, "dev0", "sentinel"), (210, "dev1", "ok"))])
        end = begin + stride
        if end % 500 == 0:
            lost = 3 if end == 1500 else 0
            feed.send("coverage", [coverage(end - 500, end, 80, dropped=lost, lost=lost, host=feed.host)])
        feed.mark(end // 500 * 500)
    if close:
        feed.close()
