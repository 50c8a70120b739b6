"""Aligned spans of made-up hosts whose work and submissions are partly in the wrong order."""

from __future__ import annotations

import random
from typing import Any

from tests.unit.processors.windows.hosts import Feed, span

S = 10**9


def submission(at: int, end: int, correlation: int, err: int | None = 100, **more: Any) -> dict[str, Any]:
    return span("driver", at, end - at, None, correlation_id=correlation, err_ns=err, **more)


def kernel(start: int, end: int, correlation: int, err: int | None = 400, **more: Any) -> dict[str, Any]:
    return span("engine:matrix", start, end - start, correlation_id=correlation, err_ns=err, **more)


def wait(start: int, end: int, *ids: int, err: int | None = 100, **more: Any) -> dict[str, Any]:
    return span("host_api", start, end - start, None, wait_ids=list(ids), err_ns=err, **more)


def muddled_host(feed: Feed, seed: int, seconds: int) -> None:
    """Host and device in batches of their own; one work in ten begins before its submission, one wait in ten ends
    before what it waited for, some by less than the bounds; the device's batches come up to a second later."""
    rng = random.Random(seed)
    correlation = 0
    held: list[tuple[int, list[dict[str, Any]]]] = []
    for begin in range(0, seconds * S, S // 4):
        host, device = [], []
        for at in sorted(rng.sample(range(begin, begin + S // 5, 1_000), 12)):
            correlation += 1
            wrong = rng.random() < 0.2
            end = at + 5_000
            start = end - rng.choice([300, 501, 90_000]) if wrong else end + rng.randrange(20_000)
            host.append(submission(at, end, correlation, rng.choice([100, 100, None])))
            done = start + rng.randrange(50_000)
            device.append(kernel(start, done, correlation, rng.choice([400, 400, 900, None])))
            back = done - rng.choice([400, 2_000]) if rng.random() < 0.2 else done + rng.randrange(9_000)
            host.append(wait(at, max(back, at), correlation))
        feed.spans(*host)
        held.append((begin, device))
        while held and (rng.random() < 0.5 or held[0][0] <= begin - S // 2):
            feed.spans(*held.pop(0)[1])
        feed.mark(min([begin, *(at for at, _ in held)]) // (S // 2) * (S // 2))
    for _, device in held:
        feed.spans(*device)
