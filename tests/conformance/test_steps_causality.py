"""The causality step keeps what every step must keep."""

from __future__ import annotations

from processors.causality.step import CausalityStep
from tests.conformance.step_suite import Case, StepSuite
from tests.unit.processors.causality.hosts import muddled_host
from tests.unit.processors.windows.hosts import Feed


class TestCausalityStep(StepSuite):
    def case(self) -> Case:
        feeds = [Feed("h1"), Feed("h2")]
        muddled_host(feeds[0], 1, 9)
        muddled_host(feeds[1], 2, 7)
        return Case(CausalityStep(), [m for feed in feeds for m in feed.messages if m[0] == "aligned.spans"])
