"""The operators step keeps what every step must keep."""

from __future__ import annotations

from processors.operators.step import OperatorsStep
from tests.conformance.step_suite import Case, StepSuite
from tests.unit.processors.windows.hosts import Feed, busy_host


class TestOperatorsStep(StepSuite):
    def case(self) -> Case:
        feeds = [Feed("h1"), Feed("h2")]
        busy_host(feeds[0], 1, 3_000)
        busy_host(feeds[1], 2, 2_000)
        messages = [m for feed in feeds for m in feed.messages if m[0] in ("aligned.spans", "aligned.inventory")]
        return Case(OperatorsStep(window_ns=1_000, kept=1), messages)
