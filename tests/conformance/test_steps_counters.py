"""`counters` over a host whose counters and devices fail in every way."""

from __future__ import annotations

from functools import lru_cache

from processors.counters.step import CountersStep
from tests.conformance.step_suite import Case, Message, StepSuite
from tests.unit.processors.counters.readings import Row, messages


def broken(row: Row, number: int) -> Row | None:
    device, counter = row["device"], row["counter"]
    if device == "dev0" and counter == "work_bytes" and number >= 45:
        return row | {"raw": row["raw"] - 45_000}
    if device == "dev0" and counter == "power_w" and 20 <= number < 26:
        return row | {"value": None, "status": "sentinel"}
    if device == "dev1" and counter == "work_bytes" and 50 <= number < 70:
        return row | {"raw": 50_001}
    if device == "dev1" and counter == "other_bytes" and number == 30:
        return row | {"status": "reset"}
    if device == "dev2" and 30 <= number < 40:
        return row | {"raw": None, "value": None, "status": "missing"}
    if device == "dev2" and 55 <= number < 115:
        return None
    return row


@lru_cache(maxsize=1)
def failing() -> tuple[Message, ...]:
    return tuple(messages(12, broken))


class TestCounters(StepSuite):
    def case(self) -> Case:
        return Case(CountersStep(), failing())
