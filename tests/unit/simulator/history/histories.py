"""Small histories, and their rows put together."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from simulator.history.generate import BLOCK_ROWS, Generator
from simulator.history.plan import Plan, make_plan
from simulator.history.settings import History, parse_history

START_NS = 1_767_225_600 * 10**9  # Thursday, 2026-01-01
HOUR_NS = 3_600 * 10**9
QUIET: dict[str, Any] = {
    "season": {"daily": 0.0, "weekend": 0.0, "duration_daily": 0.0},
    "noise": {"job": 0.0, "host": 0.0, "device": 0.0, "demand": 0.0, "white": 0.0, "call": 0.0},
}
"""Nothing varies but what is planted."""


def small(**values: Any) -> History:
    """Two hosts with two devices for 4 h in windows of 60 s, with these values."""
    return parse_history({"hours": 4, "window_s": 60, "hosts": 2, "devices": 2, **values}, 0)


@dataclass(frozen=True, slots=True)
class Made:
    plan: Plan
    windows: pa.Table
    operators: pa.Table

    def mean_ns(self, operator: str, hours: range, hosts: list[str] | None = None) -> float:
        """Mean over calls of an operator in these hours of the run, on these hosts (None: all)."""
        frame = self.operators.to_pandas()
        hour = (frame.hour_start_ns - self.plan.start_ns) // HOUR_NS
        rows = frame[(frame.operator == operator) & hour.isin(list(hours))
                     & (frame.host.isin(hosts) if hosts is not None else True)]
        return float(np.average(rows.mean_ns, weights=rows["count"]))


def made(history: History, seed: int = 1, block_rows: int = BLOCK_ROWS, start_ns: int = START_NS) -> Made:
    """Everything a history gives: windows by host, device and time, operators by host and hour."""
    plan = make_plan(history, seed, start_ns)
    blocks = list(Generator(plan, block_rows).blocks())
    windows = pa.Table.from_batches([block.rows for block in blocks if block.table == "windows"])
    operators = pa.concat_tables([block.rows for block in blocks if block.table == "operators"])
    return Made(plan, _plain(windows).sort_by([(key, "ascending") for key in ("host", "device", "window_start_ns")]),
                _plain(operators).sort_by([(key, "ascending") for key in (
                    "host", "hour_start_ns", "driver", "firmware", "compiler", "model_version", "batch_bucket",
                    "operator")]))


def _plain(table: pa.Table) -> pa.Table:
    """Symbols as text: dictionaries differ from block to block."""
    fields = [pa.field(f.name, pa.string() if pa.types.is_dictionary(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(fields)).combine_chunks()


@lru_cache(maxsize=1)
def busy() -> Made:
    """A history with something of everything: two jobs, noise, every kind of event."""
    return made(small(hours=12, hosts=6, **EVERYTHING))


EVERYTHING: dict[str, Any] = {
    "jobs": [{"name": "chat"},
             {"name": "big", "model": "chat-70b", "machine": "h100-like", "tensor_parallel": 2, "max_batch": 4,
              "prompt_tokens": 256, "swap_bytes": 4_000_000}],
    "deployments": [{"at_h": 3.51, "subject": "compiler", "version": "2.4.0", "effects": [{"slower": 0.05}],
                     "stages": [{"share": 0.5}, {"after_h": 2.0, "share": 0.9}]}],
    "transients": [{"at_h": 5, "hours": 1, "effects": [{"operator": "attention", "slower": 0.2}]}],
    "creeps": [{"at_h": 6, "hours": 4, "effects": [{"operator": "mlp_up", "model": "chat-8b", "faster": 0.1}]}],
    "cost_shifts": [{"at_h": 7, "source": "mlp_up", "target": "mlp_down", "share": 0.1, "job": "chat"}],
    "gaps": [{"at_h": 8, "hours": 0.5, "hosts_share": 0.2, "lost_share": 0.4},
             {"at_h": 9, "hours": 0.25, "hosts_share": 0.2}],
}
