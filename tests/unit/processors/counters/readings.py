"""A host with three busy devices whose counters are read every 100 ms, as `align` and `windows` would tell it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from fleetscope.contracts import CONTRACTS
from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.derived import STATE_NAMES

NS = 1_000_000_000
STEP_NS = NS // 10
START_NS = 1_790_000_000 * NS
DEVICES = ("dev0", "dev1", "dev2")
Row = dict[str, Any]
Change = Callable[[Row, int], Row | None]
Message = tuple[str, Batch]


def counter(device: str, name: str, number: int, value: float) -> Row:
    monotonic = name != "power_w"
    return {"device": device, "counter": name, "time_ns": START_NS + number * STEP_NS, "time_ticks": number,
            "raw": int(value) if monotonic else None, "value": None if monotonic else value, "status": "ok",
            "err_ns": 700, "alignment": "settled"}


def window(device: str, second: int, *, busy: bool = True, lost: int = 0) -> Row:
    zero = {f"{name}_ns": 0 for name in STATE_NAMES}
    state = "compute_ns" if busy else "no_demand_ns"
    return {**zero, "host": "h1", "device": device, "window_start_ns": START_NS + second * NS, "window_ns": NS,
            "revision": second, state: NS, "kernels": 1, "transfers": 0, "orphans": 0, "received_rows": 9,
            "late_rows": 0, "dropped_rows": 0, "lost_rows": lost, "redelivered_rows": 0, "coverage": 1.0}


def messages(seconds: int, change: Change = lambda row, number: row, *, busy: bool = True, lost: Iterable[int] = (),
             bits: int = 32, end: bool = True) -> list[Message]:
    """``change`` a reading, by its row and number, or drop it (None); ``lost``: seconds in which rows were lost."""
    sequences: dict[str, int] = {}
    made: list[Message] = []

    def send(contract: str, topic: str, rows: list[Row], watermark: int) -> None:
        sequence = sequences[contract] = sequences.get(contract, -1) + 1
        header = Header(contract, CONTRACTS[contract].version, "h1", "h1/agent", 1, sequence, len(rows),
                        watermark_ns=watermark)
        made.append((topic, Batch(header, from_rows(CONTRACTS[contract], rows))))

    facts = [{"kind": "counter", "component": name, "attribute": "width_bits", "number": float(bits),
              "time_ns": START_NS, "time_ticks": 0, "alignment": "settled"} for name in ("work_bytes", "other_bytes")]
    send("aligned_inventory", "aligned.inventory", facts, START_NS)
    for second in range(seconds):
        rows = []
        for number in range(10 * second, 10 * second + 10):
            for at, device in enumerate(DEVICES):
                for name, value in (("work_bytes", 1_000 * number + at), ("other_bytes", 70 * number),
                                    ("power_w", 300.0 + number % 7)):
                    row = change(counter(device, name, number, value), number)
                    if row is not None:
                        rows.append(row)
        mark = START_NS + (second + 1) * NS
        send("aligned_counters", "aligned.counters", rows, mark)
        send("aligned_inventory", "aligned.inventory", [], mark)
        send("windows", "windows", [window(d, second, busy=busy, lost=int(second in lost)) for d in DEVICES], mark)
    if end:
        for contract, topic in (("aligned_counters", "aligned.counters"), ("aligned_inventory", "aligned.inventory")):
            send(contract, topic, [], 1 << 62)
    return made
