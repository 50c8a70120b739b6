"""Made-up jobs as `windows` and `align` would tell of them."""

from __future__ import annotations

import random
from typing import Any

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.derived import STATE_NAMES
from fleetscope.step import Step, replay
from tests.unit.processors.windows.hosts import Feed, Message, Row, fact, span

S = 1_000
"""Length of a window of these tests, ns."""


def window(of: str, device: str, number: int, job: str | None, revision: int = 1, coverage: float = 1.0,
           err: int | None = 1, **states: int) -> Row:
    """A row of the contract windows; what is left of it is ``no_demand``."""
    rest = S - sum(states.values())
    assert rest >= 0
    times = {f"{name}_ns": states.get(name, rest if name == "no_demand" else 0) for name in STATE_NAMES}
    counts = dict.fromkeys(("orphans", "late_rows", "dropped_rows", "lost_rows", "redelivered_rows"), 0)
    return {"host": of, "device": device, "job": job, "window_start_ns": number * S, "window_ns": S,
            "revision": revision, **times, **counts, "kernels": 3, "transfers": 1, "received_rows": 9,
            "coverage": coverage, "err_ns": err}


def windows_batch(host: str, sequence: int, rows: list[Row], watermark: int | None) -> Batch:
    """A message of `windows`."""
    header = Header("windows", 2, host, "windows", 0, sequence, len(rows), watermark_ns=watermark)
    return Batch(header, from_rows(CONTRACTS["windows"], rows))


def handed_on(step: Step[Any], messages: list[Message]) -> list[Message]:
    """What a step makes of messages, as messages."""
    return [(out.topic, out.batch) for out in replay(step, [batch for _, batch in messages])]


def training_host(feed: Feed, first_rank: int, windows: int, ranks: int, slow: dict[int, float], seed: int = 1,
                  devices: int = 2) -> None:
    """Devices of a job that compute and meet 10 times a window; ``slow``: kernels of a rank take so many times as long.

    A step of 100 ns: kernels of 20 ns (times what is slow), then a collective that ends when all have come.
    """
    rng = random.Random(seed)
    feed.send("aligned_inventory", [fact("device", f"dev{d}", "kind", time=1) | {"text": "made-up"}
                                    for d in range(devices)])
    feed.mark(0)
    longest = max(slow.values(), default=1.0)
    for number in range(windows):
        rows: list[Row] = []
        for step in range(10):
            begin = number * S + step * 100
            for device in range(devices):
                rank = first_rank + device
                stretch = slow.get(rank, 1.0)
                about: dict[str, Any] = {"job": "train", "rank": rank}
                length = round(20 * stretch)
                for at, name in ((0, "matmul"), (length, "norm")):
                    rows.append(span("engine:matrix", begin + at + rng.randrange(2), length, f"dev{device}", name=name,
                                     flops=100, bytes=50, **about))
                enter = begin + 2 * length + 2
                rows.append(span("collective", enter, round(40 * longest) + 12 - 2 * length, f"dev{device}",
                                 communicator="train/0", communicator_sequence=number * 10 + step,
                                 communicator_size=ranks, bytes=10, **about))
        feed.spans(*rows)
        feed.mark((number + 1) * S)
    feed.close()
