"""Ground truth of a run. It never enters the stream; it is written to a folder of its own.

| file | holds |
|---|---|
| ``truth.json`` | counts by contract and the configuration; written last: without it a run was interrupted |
| ``starts.arrow`` | true start of every published span, one entry a batch |
| ``published.arrow`` | how many rows of other contracts that faults can hit (counters) were published when |
| ``missed.arrow`` | true times of spans and counters that were made and that nobody can ever decode |
| ``causes.arrow`` | what every ns of a device went to, by slot; the causes of a slot add up to it exactly |
| ``incidents.json`` | what went wrong, where and when |
| ``clock_steps.json`` | steps and resets of clocks |
| ``changes.json`` | deployments and what they did |

All times are true time: int64 ns since the start of the simulation.
"""

from __future__ import annotations

from simulator.truth.reader import Truth
from simulator.truth.records import (
    Causes,
    Change,
    ClockStep,
    Fate,
    Incident,
    Missed,
    NoSink,
    Published,
    Sink,
    SpanStarts,
    Tally,
)
from simulator.truth.sink import TruthSink

__all__ = ["Causes", "Change", "ClockStep", "Fate", "Incident", "Missed", "NoSink", "Published", "Sink", "SpanStarts",
           "Tally", "Truth", "TruthSink"]
