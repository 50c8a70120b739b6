"""The steps of jobs keep what every step must keep."""

from __future__ import annotations

import random

from processors.jobs.ranks import JobRanksStep
from processors.jobs.shares import JobSharesStep
from processors.jobs.step import JobsStep
from processors.jobs.stragglers import StragglersStep
from tests.conformance.step_suite import Case, Message, StepSuite
from tests.unit.processors.jobs.feeds import S, handed_on, training_host, window, windows_batch
from tests.unit.processors.windows.hosts import CLOSED, Feed


def windows_of(host: str, seed: int, count: int = 12) -> list[Message]:
    """Two devices that work for two jobs, pause, and have windows revised."""
    rng = random.Random(seed)
    messages: list[Message] = []
    for number in range(count):
        rows = []
        for device in ("dev0", "dev1"):
            job = rng.choice(["train", "train", "serve", None])
            rows.append(window(host, device, number, job, revision=2 * number, compute=rng.randrange(400),
                               host=rng.randrange(300)))
        if number > 2 and rng.random() < 0.5:
            old = number - 2
            rows.append(window(host, "dev0", old, rng.choice(["train", "serve"]), revision=2 * number + 1, compute=7))
        watermark = CLOSED if number == count - 1 else (number + 1) * S
        messages.append(("windows", windows_batch(host, number, rows, watermark)))
    return messages


def spans_of(ranks: int = 4) -> list[Message]:
    feeds = [Feed("h1"), Feed("h2")]
    for number, feed in enumerate(feeds):
        training_host(feed, 2 * number, 6, ranks, {1: 2.0}, seed=number)
    halves = [[m for m in feed.messages if m[0] in ("aligned.spans", "aligned.inventory")] for feed in feeds]
    return [m for pair in zip(*halves, strict=True) for m in pair]


def both(first: list[Message], second: list[Message]) -> list[Message]:
    return [m for pair in zip(first, second, strict=True) for m in pair]


class TestJobSharesStep(StepSuite):
    def case(self) -> Case:
        return Case(JobSharesStep(member_s=2e-6), both(windows_of("h1", 1), windows_of("h2", 2)))


class TestJobsStep(StepSuite):
    def case(self) -> Case:
        messages = both(windows_of("h1", 1), windows_of("h2", 2))
        return Case(JobsStep(), handed_on(JobSharesStep(member_s=2e-6), messages))


class TestJobRanksStep(StepSuite):
    def case(self) -> Case:
        return Case(JobRanksStep(window_ns=S), spans_of())


class TestStragglersStep(StepSuite):
    def case(self) -> Case:
        shares = [(f"h{h}", number) for number in range(6) for h in (1, 2)]
        messages: list[Message] = []
        for host, number in shares:
            rows = [window(host, device, number, "train", compute=800 if (host, device) == ("h1", "dev1") else 400,
                           collective_wait=0 if (host, device) == ("h1", "dev1") else 400)
                    for device in ("dev0", "dev1")]
            messages.append(("windows", windows_batch(host, number, rows, (number + 1) * S)))
        return Case(StragglersStep(window_ns=S), [*handed_on(JobRanksStep(window_ns=S), spans_of()),
                                                 *handed_on(JobSharesStep(), messages)])
