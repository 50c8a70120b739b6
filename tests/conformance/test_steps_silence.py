"""`silence` over the beats of hosts that die, end, sleep, begin again and deliver late."""

from __future__ import annotations

from functools import lru_cache

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, Header, from_rows
from processors.silence.step import SilenceStep
from tests.conformance.step_suite import Case, Message, StepSuite

NS = 1_000_000_000
SPEAKS = {
    "steady": [(second, second, 1) for second in range(100)],
    "dies": [(second, second, 1) for second in range(20)],
    "sleeps": [(second, second, 1) for second in (*range(30), *range(45, 100))],
    "ends": [(second, second, 1) for second in range(25)],
    "reboots": [*((second, second, 1) for second in range(40)),
                *((second, second - 48, 2) for second in range(50, 100))],
    "spools": [*((second, second, 1) for second in range(50)), *((70, second, 1) for second in range(50, 70)),
               *((second, second, 1) for second in range(71, 100))],
}
"""By host: when a beat is read, what its clock shows then, and its epoch; all in seconds."""


@lru_cache(maxsize=1)
def beats() -> tuple[Message, ...]:
    order = sorted((read, name, shown, epoch) for name, series in SPEAKS.items() for read, shown, epoch in series)
    sequences: dict[tuple[str, int], int] = {}
    found: list[Message] = []
    for read, name, shown, epoch in order:
        sequence = sequences[name, epoch] = sequences.get((name, epoch), -1) + 1
        time = (shown + 1_000) * NS
        rows = [{"time_ticks": time, "contract": contract, "clock": "monotonic_raw", "batches_total": 0,
                 "rows_total": 0, "dropped_rows_total": 0, "through_ticks": time,
                 "closed": name == "ends" and read == 24} for contract in ("clock_samples", "marks")]
        header = Header("heartbeats", 1, name, f"{name}/links", epoch, sequence, len(rows), "monotonic_raw",
                        flushed_ticks=time)
        found.append(("raw.clock_links", Batch(header, from_rows(CONTRACTS["heartbeats"], rows))))
    return tuple(found)


class TestSilence(StepSuite):
    def case(self) -> Case:
        return Case(SilenceStep(), beats())
