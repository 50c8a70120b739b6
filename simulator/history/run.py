"""One history from its plan into a sink."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fleetscope import memory
from simulator.history.generate import BLOCK_ROWS, Generator
from simulator.history.plan import Plan
from simulator.history.sinks import Sink
from simulator.history.statics import static_batches

_RELEASE_EVERY = 16


@dataclass(slots=True)
class Written:
    """Rows written so far."""

    windows: int = 0
    operators: int = 0
    inventory: int = 0
    marks: int = 0


def run_history(plan: Plan, sink: Sink, block_rows: int = BLOCK_ROWS,
                progress: Callable[[Written], None] = lambda _: None) -> Written:
    """Write everything: inventory and marks, then blocks in order of time. ``progress`` hears of each block."""
    written = Written()
    statics = list(static_batches(plan))
    for contract in ("aligned_inventory", "aligned_marks"):
        batches = [batch for batch in statics if batch.header.contract == contract]
        sink.statics(batches)
        setattr(written, contract.removeprefix("aligned_"), sum(len(batch) for batch in batches))
    for number, block in enumerate(Generator(plan, block_rows).blocks()):
        sink.block(block)
        setattr(written, block.table, getattr(written, block.table) + block.rows.num_rows)
        progress(written)
        if number % _RELEASE_EVERY == 0:
            memory.release()
    sink.close()
    return written
