"""The windows and bottleneck steps keep what every step must keep."""

from __future__ import annotations

from fleetscope.step import replay
from processors.bottleneck.step import BottleneckStep
from processors.windows.step import WindowsStep
from tests.conformance.step_suite import Case, StepSuite
from tests.unit.processors.windows.hosts import Feed, busy_host


def two_hosts() -> list[Feed]:
    feeds = [Feed("h1"), Feed("h2")]
    busy_host(feeds[0], 1, 4000)
    busy_host(feeds[1], 2, 3000)
    return feeds


def step() -> WindowsStep:
    return WindowsStep(window_ns=1000, lookback_ns=500)


class TestWindowsStep(StepSuite):
    def case(self) -> Case:
        feeds = two_hosts()
        return Case(step(), [m for feed in feeds for m in feed.messages])


class TestWindowsStepShort(StepSuite):
    """Windows shorter than a batch, a beat and many spans."""

    def case(self) -> Case:
        feed = Feed("h1")
        busy_host(feed, 3, 2000)
        return Case(WindowsStep(window_ns=100, lookback_ns=50), feed.messages)


class TestBottleneckStep(StepSuite):
    def case(self) -> Case:
        outputs = [o for feed in two_hosts() for o in replay(step(), [b for _, b in feed.messages])]
        return Case(BottleneckStep(), [(o.topic, o.batch) for o in outputs])
