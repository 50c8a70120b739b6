"""Reads from the store what a run of closed windows is made of: only the rows that touch it, only columns in use."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from fleetscope.contracts.batch import Batch
from fleetscope.contracts.counters import NO_NUMBERS
from fleetscope.contracts.derived import ALIGNED_COUNTERS, ALIGNED_INVENTORY, ALIGNED_SPANS, COVERAGE
from fleetscope.store.abstract import Parameter, Store
from processors.revise.rebuild import History, batch_of
from processors.windows.readings import USED
from processors.windows.step import WindowsStep

NS: Final = 1_000_000_000
NEAR_NS: Final = 10 * NS
"""Devices that worked so long before a run are found at once; the others cost a longer look."""

_WORK: Final = ("device IS NOT NULL AND "
                "(track IN ('collective', 'pcie_h2d', 'pcie_d2h') OR startsWith(track, 'engine:'))")
_USED: Final = (f"({_WORK} OR track = 'driver' OR (track = 'cpu_thread' AND step IS NOT NULL) "
                "OR activity IN ('input', 'pageable_copy', 'wait'))")
_LENGTH: Final = "greatest(least(duration_ns, {max_span:Int64}), 1)"
_SPAN_COLUMNS: Final = ("start_ns", "duration_ns", "track", "device", "process_id", "correlation_id", "bytes", "flops",
                        "job", "rank", "step", "err_ns", "wait_ids", "activity", "communicator",
                        "communicator_sequence", "communicator_size", "clock")
_TIMES: Final = {"spans": "start_ns", "counters": "time_ns", "inventory": "time_ns"}

_SPANS: Final = f"""
SELECT {", ".join(_SPAN_COLUMNS)} FROM spans
WHERE host = {{host:String}} AND {_USED} AND ({{touching}})"""
_FACTS: Final = """SELECT time_ns, kind, component, parent, attribute, number FROM inventory
    WHERE host = {host:String} AND kind IN ('device', 'link', 'peak') AND time_ns"""
_INVENTORY: Final = f"""
({_FACTS} < {{begin:Int64}} ORDER BY time_ns DESC, number DESC LIMIT 1 BY kind, component, parent, attribute)
UNION ALL
({_FACTS} >= {{begin:Int64}} AND time_ns < {{end:Int64}})"""
_READINGS: Final = f"""
SELECT time_ns, device, counter, instance, raw, value, status, err_ns FROM counters
WHERE host = {{host:String}} AND counter IN {tuple(sorted(USED))}
    AND time_ns >= {{begin:Int64}} - {{lookback:Int64}} AND time_ns < {{end:Int64}}"""
_COVERAGE: Final = """
SELECT source, source_epoch, contract, from_ns, to_ns, received_rows, dropped_rows, lost_rows, redelivered_rows
FROM coverage
WHERE host = {host:String} AND to_ns > {begin:Int64}
    AND (lost_rows != 0 OR least(from_ns, to_ns - 1) < {end:Int64})
ORDER BY input_offset"""
_RECEIVED: Final = "\nUNION ALL\n".join(f"""
SELECT intDiv({time}, {{window:Int64}}) * {{window:Int64}} AS window_start, count() AS rows, min({time}) AS first_row
FROM {table} WHERE host = {{host:String}} AND {time} >= {{begin:Int64}} AND {time} < {{end:Int64}}
GROUP BY window_start""" for table, time in _TIMES.items())
_NO_NUMBERS: Final = f"""
SELECT intDiv(time_ns, {{window:Int64}}) * {{window:Int64}} AS window_start, device, count() AS rows FROM counters
WHERE host = {{host:String}} AND device IS NOT NULL AND status IN {NO_NUMBERS}
    AND time_ns >= {{begin:Int64}} AND time_ns < {{end:Int64}}
GROUP BY window_start, device"""
_EARLIER_ROW: Final = "\nUNION ALL\n".join(
    f"(SELECT 1 FROM {table} WHERE host = {{host:String}} AND {time} < {{begin:Int64}} LIMIT 1)"
    for table, time in _TIMES.items())
_DEVICES: Final = """
SELECT DISTINCT device FROM windows
WHERE host = {host:String} AND window_ns = {window:Int64} AND window_start_ns <= {begin:Int64}"""
_LAST_WORK: Final = f"""
SELECT device, max(start_ns + {_LENGTH}) AS end_ns FROM spans
WHERE host = {{host:String}} AND {_WORK} AND start_ns < {{begin:Int64}} AND start_ns >= {{since:Int64}}
GROUP BY device"""
_STEPS: Final = """
SELECT DISTINCT job, rank FROM spans
WHERE host = {host:String} AND device IS NULL AND track = 'cpu_thread' AND step IS NOT NULL
    AND start_ns < {begin:Int64} AND start_ns >= {since:Int64}
UNION DISTINCT
SELECT DISTINCT job, rank FROM spans
WHERE host = {host:String} AND device IS NOT NULL AND track = 'cpu_thread' AND step IS NOT NULL
    AND start_ns < {begin:Int64} AND start_ns >= {since:Int64}"""


def _by_clock(spans: pa.Table) -> list[pa.Table]:
    """The rows of each clock: it stands once in a batch."""
    clocks = spans.column("clock").cast(pa.string())
    return [spans.filter(pc.equal(clocks, clock)) for clock in sorted(pc.unique(clocks).to_pylist())]


def _clock_of(rows: pa.Table) -> str:
    return str(rows.column("clock")[0].as_py()) if "clock" in rows.column_names else ""


def _touching(n: int) -> str:
    """Rows that windows from parameter ``from<n>`` to ``to<n>`` look at: as long as they, or their submission, last."""
    start, stop = f"{{from{n}:Int64}}", f"{{to{n}:Int64}}"
    return (f"(start_ns < {stop} AND start_ns > {start} - {{reach:Int64}} AND "
            f"start_ns + {_LENGTH} + if(track = 'driver', {{lookback:Int64}}, 0) > {start})")


@dataclass(frozen=True, slots=True)
class Archive:
    """Reads histories. ``context_ns``: how far before a run is looked for what its devices did last and for who marked
    steps; a device idle for longer has no job."""

    store: Store
    step: WindowsStep
    context_ns: int = 3_600 * NS

    def history(self, host: str, begin_ns: int, end_ns: int) -> History:
        """What the windows in ``[begin_ns, end_ns)`` of ``host`` are made of. Raises as the store does."""
        known: dict[str, Parameter] = {
            "host": host, "begin": begin_ns, "end": end_ns, "window": self.step.window_ns,
            "max_span": self.step.max_span_ns, "lookback": self.step.lookback_ns,
            "reach": self.step.max_span_ns + self.step.lookback_ns, "since": begin_ns - self.context_ns,
        }
        received, first_ns = self._received(known)
        before = bool(self._table(_EARLIER_ROW, known).num_rows)
        devices = {str(row["device"]) for row in self._rows(_DEVICES, known)}
        last = self._last_work(known, devices)
        earlier = sorted({(end - 1) // self.step.window_ns * self.step.window_ns
                          for end in last.values() if end <= begin_ns})
        steps = [(row["job"], row["rank"]) for row in self._rows(_STEPS, known)]
        runs = [*((start, start + self.step.window_ns) for start in earlier), (begin_ns, end_ns)]
        return History(host, list(self._batches(known, runs)), received, None if before else first_ns,
                       sorted(devices | last.keys()), steps, earlier,
                       [(row["window_start"], row["device"], row["rows"]) for row in self._rows(_NO_NUMBERS, known)])

    def _batches(self, known: dict[str, Parameter], runs: Sequence[tuple[int, int]]) -> Iterable[Batch]:
        touching, parameters = [], dict(known)
        for n, (start, stop) in enumerate(runs):
            touching.append(_touching(n))
            parameters |= {f"from{n}": start, f"to{n}": stop}
        host = str(known["host"])
        spans = self._table(_SPANS.replace("{touching}", " OR ".join(touching)), parameters)
        tables = ((ALIGNED_INVENTORY, self._table(_INVENTORY, known)),
                  *((ALIGNED_SPANS, rows) for rows in _by_clock(spans)),
                  (ALIGNED_COUNTERS, self._table(_READINGS, known)),
                  (COVERAGE, self._table(_COVERAGE, known)))
        return [batch_of(contract, host, rows, number, _clock_of(rows))  # a number of its own: else it is a repeat
                for number, (contract, rows) in enumerate(tables) if rows.num_rows]

    def _received(self, known: dict[str, Parameter]) -> tuple[dict[int, int], int | None]:
        """Rows by window start, and the time of the first."""
        counts: dict[int, int] = {}
        first: int | None = None
        for row in self._rows(_RECEIVED, known):
            counts[row["window_start"]] = counts.get(row["window_start"], 0) + row["rows"]
            first = row["first_row"] if first is None else min(first, row["first_row"])
        return counts, first

    def _last_work(self, known: dict[str, Parameter], devices: set[str]) -> dict[str, int]:
        """End of the last work that began before the run, by device."""
        begin = int(str(known["begin"]))
        near = max(begin - max(NEAR_NS, self.step.window_ns), int(str(known["since"])))
        found = self._rows(_LAST_WORK, known | {"since": near})
        last = {row["device"]: row["end_ns"] for row in found}
        if devices - last.keys():
            last |= {row["device"]: row["end_ns"] for row in self._rows(_LAST_WORK, known)}
        return last

    def _rows(self, sql: str, known: dict[str, Parameter]) -> list[dict[str, Any]]:
        return list(self._table(sql, known).to_pylist())

    def _table(self, sql: str, known: dict[str, Parameter]) -> pa.Table:
        """The result of ``sql`` with those of the ``known`` parameters that it names."""
        return self.store.query(sql, {name: value for name, value in known.items() if f"{{{name}:" in sql})
