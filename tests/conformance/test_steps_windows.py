"""The windows and bottleneck steps keep what every step must keep."""

from __future__ import annotations

from itertools import groupby

from fleetscope.step import replay
from processors.bottleneck.step import BottleneckStep
from processors.windows.step import WindowsStep
from tests.conformance.step_suite import Case, Message, StepSuite, final_rows, numbered
from tests.unit.processors.windows.hosts import Feed, busy_host, together


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


def gathered(feed: Feed) -> list[Message]:
    """The feed's messages, those of spans in twos and threes where they follow each other."""
    found: list[Message] = []
    for topic, run in groupby(feed.messages, key=lambda m: m[0]):
        batches = [batch for _, batch in run]
        whole = topic == "aligned.spans" and all(len(batch) for batch in batches)
        found += [(topic, together(*batches))] if whole else [(topic, batch) for batch in batches]
    return found


class TestWindowsStepGathered(StepSuite):
    """Several producers' batches in one message."""

    def case(self) -> Case:
        return Case(step(), [m for feed in two_hosts() for m in gathered(feed)])

    def test_the_windows_are_those_of_single_messages(self) -> None:
        alone = [m for feed in two_hosts() for m in feed.messages]
        assert len(self.case().messages) < len(alone)
        _, found = self._plain()
        assert found == final_rows(replay(step(), numbered(alone)))


class TestBottleneckStep(StepSuite):
    def case(self) -> Case:
        outputs = [o for feed in two_hosts() for o in replay(step(), [b for _, b in feed.messages])]
        return Case(BottleneckStep(), [(o.topic, o.batch) for o in outputs])
