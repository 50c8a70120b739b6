"""Closes one window of one host: one row of the contract `windows` for each device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pyarrow as pa

from fleetscope.contracts.batch import record_batch, symbol_array
from fleetscope.contracts.derived import STATE_NAMES, WINDOWS
from processors.windows.account import account
from processors.windows.chunks import NO_CODE, Rows
from processors.windows.engines import engine_rates
from processors.windows.exchanges import Exchange, exchanges
from processors.windows.intervals import Ints
from processors.windows.intervals import counted as counts_of
from processors.windows.inventory import Device
from processors.windows.readings import counted, run_wait_share
from processors.windows.state import Host
from processors.windows.view import HostRows, WindowRows
from processors.windows.works import COLLECTIVE, KERNEL, NONE, Account

WindowRow = dict[str, Any]

MAX_TOLD: Final = 4_096
"""Windows for which it is remembered what they told besides their own rows."""

_NO_COVERAGE: Final = (0, 0, 0, 0)


def close_window(host: Host, name: str, rows: HostRows, start_ns: int, stop_ns: int, known_to_ns: int,
                 lookback_ns: int) -> list[WindowRow]:
    """The rows of ``[start_ns, stop_ns)`` for host ``name``; moves the host's state past the window.

    Time before the host's first row and from ``known_to_ns`` on is unknown; readings of counters are looked at from
    ``lookback_ns`` before the window on. Row counts are the host's, the same for
    each of its devices.
    """
    _apply_inventory(host, stop_ns)
    seen = rows.window(start_ns, stop_ns)
    words = list(host.words)
    _meet(host, seen, words)
    known = (max(host.known_from_ns or start_ns, start_ns), min(known_to_ns, stop_ns))
    known_share = max(known[1] - known[0], 0) / (stop_ns - start_ns)
    if not host.inventory.devices:
        _take_out(host, start_ns, start_ns)
        _no_numbers(host, start_ns)
        host.last, host.edge_ns = [], stop_ns
        return []
    counts, by_producers = _counts(host, start_ns, start_ns)
    if known_to_ns < stop_ns:
        _remember(host, start_ns, [max(known_to_ns, start_ns), 0, 0, *_NO_COVERAGE])
    coverage = coverage_share(counts, by_producers, known_share)
    result = []
    no_numbers = _no_numbers(host, start_ns)
    there = {host.words[device]: device for device in host.inventory.devices if device in host.words}
    exchange = exchanges(seen.work, {code: host.inventory.peaks(device) for code, device in there.items()},
                         {code: host.inventory.path(device) for code, device in there.items()})
    for device in sorted(host.inventory.devices):
        row = _device_row(host, device, seen, exchange, (start_ns, stop_ns, lookback_ns), known, words)
        row["counter_errors"] += no_numbers.get(device, 0)
        row |= {"host": name, "device": device, "window_start_ns": start_ns, "window_ns": stop_ns - start_ns,
                "revision": host.offset, **counts, "coverage": coverage}
        result.append(row)
    host.last, host.last_known_share, host.last_received, host.edge_ns = result, known_share, by_producers, stop_ns
    host.asked_last = False
    host.issued = max(host.issued, host.offset)
    return result


def amend_last(host: Host) -> list[WindowRow]:
    """The last window's rows once more with what was counted since, for a host that has closed and has no next window
    to tell it. Empty where nothing was counted."""
    if not host.last or not (host.late or host.repeated or host.coverage):
        return []
    start_ns = host.last[0]["window_start_ns"]
    told, by_producers = _counts(host, start_ns, max([host.edge_ns or 0, *host.coverage]))
    host.last_received += by_producers
    rows = []
    for before in host.last:
        counts = {key: before[key] + told[key] for key in told}
        rows.append({**before, **counts, "revision": max(host.offset, before["revision"] + 1),
                     "coverage": coverage_share(counts, host.last_received, host.last_known_share)})
    host.last = rows
    host.issued = max(host.issued, rows[0]["revision"])
    if host.asked_last:  # what was accounted for again since must not be hidden by these rows
        host.touched.setdefault(start_ns, 0)
    return rows


def window_batch(rows: Sequence[WindowRow]) -> pa.RecordBatch:
    """Rows of the contract `windows`."""
    arrays: dict[str, pa.Array] = {}
    for column in WINDOWS.columns:
        values = [row[column.name] for row in rows]
        arrays[column.name] = symbol_array(values) if pa.types.is_dictionary(column.type) else pa.array(values,
                                                                                                       column.type)
    return record_batch(WINDOWS, arrays, len(rows))


def coverage_share(counts: dict[str, int], received: int, known_share: float) -> float:
    """Share of rows and time that is known: received / (received + dropped + lost) · known time; 1 where nothing was
    missed. ``received`` rows are those the coverage rows speak of, of all contracts."""
    missed = counts["dropped_rows"] + counts["lost_rows"]
    return known_share * (max(received, 0) / (max(received, 0) + missed) if missed else 1.0)


def _take_out(host: Host, start_ns: int, through_ns: int) -> tuple[int, list[int], list[int]]:
    """Take out what waits up to ``through_ns``: received rows, coverage of the window that starts at ``start_ns``, and
    coverage of other times."""
    received = sum(host.received.pop(key) for key in [k for k in host.received if k <= through_ns])
    own = host.coverage.pop(start_ns, list(_NO_COVERAGE))
    others = [host.coverage.pop(key) for key in [k for k in host.coverage if k <= through_ns]]
    return received, own, [sum(column) for column in zip(_NO_COVERAGE, *others, strict=True)]


def _no_numbers(host: Host, start_ns: int) -> dict[str, int]:
    """Take out readings of the window that are no numbers, by device, and forget those of windows before it."""
    for key in [key for key in host.no_numbers if key < start_ns]:
        del host.no_numbers[key]
    return host.no_numbers.pop(start_ns, {})


def _counts(host: Host, start_ns: int, through_ns: int) -> tuple[dict[str, int], int]:
    """What a window has to tell of what waits up to ``through_ns``, and how many rows its coverage rows received."""
    received, own, other = _take_out(host, start_ns, through_ns)
    by_producers, dropped, lost, repeats = (a + b for a, b in zip(own, other, strict=True))
    counts = {"received_rows": received, "late_rows": host.late, "dropped_rows": max(dropped, 0),
              "lost_rows": max(lost, 0), "redelivered_rows": max(repeats, 0) + host.repeated}
    _remember(host, start_ns, [0, host.late, host.repeated, *other])
    host.late = host.repeated = 0
    return counts, by_producers


def _remember(host: Host, start_ns: int, told: list[int]) -> None:
    """What the window told besides its own rows, for whoever accounts for it again."""
    if not any(told):
        return
    before = host.told.get(start_ns, [0] * len(told))
    host.told[start_ns] = [a + b for a, b in zip(before, told, strict=True)]
    while len(host.told) > MAX_TOLD:
        del host.told[min(host.told)]


def _apply_inventory(host: Host, before_ns: int) -> None:
    due = sorted(entry for entry in host.announced if entry[0] < before_ns)
    if due:
        host.announced = [entry for entry in host.announced if entry[0] >= before_ns]
        for entry in due:
            host.inventory.apply(entry)


def _meet(host: Host, seen: WindowRows, words: list[str]) -> None:
    """Learn devices and which ranks and jobs mark their open steps; here and not on arrival, so that it depends on
    event time alone."""
    for code in counts_of(np.concatenate((seen.work.device, seen.submissions.device)))[0].tolist():
        if code != NO_CODE:
            host.inventory.devices.setdefault(words[code], Device())
    steps = seen.steps
    for code, rank in np.unique(np.stack((steps.job, steps.rank), axis=1), axis=0).tolist():
        job = words[code] if code != NO_CODE else ""
        host.step_jobs.add(job)
        if rank != NONE:
            host.step_ranks.add((job, rank))


def _device_row(host: Host, name: str, seen: WindowRows, exchange: Exchange | None, span: tuple[int, int, int],
                known: tuple[int, int], words: list[str]) -> WindowRow:
    """``span``: start and end of the window and how far it looks back for readings."""
    start_ns, stop_ns, _ = span
    device = host.inventory.devices[name]
    code = host.words.get(name, NO_CODE - 1)
    works, rows = seen.works_of(code, exchange)
    peaks, saw = host.inventory.peaks(name), counted(host.readings, name, *span, host.inventory.full_mhz(name))
    engines, occupied = ({host.words[track]: value for track, value in found.items() if track in host.words}
                         for found in (host.inventory.engine_peaks(name), saw.occupied_ns))
    works = replace(works, peak=engine_rates(rows, (start_ns, stop_ns), engines, peaks.flops_per_s, occupied))
    job = _main_job(rows, start_ns, stop_ns, words)
    if len(rows):
        device.job, device.rank = job, _main_rank(rows, start_ns, stop_ns)
    pending = seen.pending(code, _job_code(host, device), NONE if device.rank is None else device.rank,
                           alone=len(host.inventory.devices) == 1)
    asks = _demand_of(host, device)
    result = account(start_ns, stop_ns, works, seen.demand(*asks), pending, peaks, known, saw,
                     seen.host_work(*asks, run_wait_share(host.readings, device.rank, *span), start_ns, stop_ns))
    return {"job": job, **_quantities(result), "launch_latency_p50_ns": _launch_latency(works.start, works.kind,
                                                                                       works.submitted, start_ns),
            "orphans": int(((works.submitted == NONE) & (works.start >= start_ns) & (works.kind != COLLECTIVE)).sum()),
            "err_ns": _bound(rows, seen)}


def _quantities(result: Account) -> WindowRow:
    states = {f"{state}_ns": result.states[state] for state in STATE_NAMES}
    return states | {name: getattr(result, name) for name in ("kernels", "transfers", "flops", "memory_bytes",
                                                              "h2d_bytes", "d2h_bytes", "counter_errors")}


def _launch_latency(start: Ints, kind: Ints, submitted: Ints,
                    start_ns: int) -> int | None:
    pairs = (kind == KERNEL) & (submitted != NONE) & (start >= start_ns)
    return int(np.median(start[pairs] - submitted[pairs])) if pairs.any() else None


def _weights(rows: Rows, start_ns: int, stop_ns: int) -> Ints:
    return np.asarray(np.maximum(np.minimum(rows.stop, stop_ns) - np.maximum(rows.start, start_ns), 0))


def _main_job(rows: Rows, start_ns: int, stop_ns: int, words: list[str]) -> str | None:
    best = _heaviest(rows.job, _weights(rows, start_ns, stop_ns), NO_CODE, dict(enumerate(words)))
    return None if best is None else words[best]


def _main_rank(rows: Rows, start_ns: int, stop_ns: int) -> int | None:
    return _heaviest(rows.rank, _weights(rows, start_ns, stop_ns), NONE, {})


def _heaviest(values: Ints, weights: Ints, none: int, names: dict[int, str]
              ) -> int | None:
    """The value with most weight; ties go to the smaller name, or number."""
    known = values != none
    if not known.any():
        return None
    distinct, inverse = np.unique(values[known], return_inverse=True)
    sums = np.bincount(inverse, weights[known])
    tied = distinct[sums == sums.max()].tolist()
    return int(min(tied, key=lambda value: (names.get(value, ""), value)))


def _job_code(host: Host, device: Device) -> int:
    return NO_CODE if device.job is None else host.words.get(device.job, NO_CODE)


def _demand_of(host: Host, device: Device) -> tuple[int | None, int | None]:
    """Which open steps speak for a device, as (job code, rank): those of its rank where the host ever marked that
    rank, else those of its job, else any. Steps of a rank do not speak for a device that never worked."""
    if device.job is None and device.rank is None:
        return None, NONE if host.step_ranks else None
    job = device.job or ""
    code = None if device.job is None else host.words.get(device.job, NO_CODE - 1)
    if device.rank is not None and {(job, device.rank), ("", device.rank)} & host.step_ranks:
        return code, device.rank
    return (code, None) if device.job in host.step_jobs else (None, None)


def _bound(rows: Rows, seen: WindowRows) -> int | None:
    """Largest error bound of the device's work and the host's submissions and steps; None where one has none."""
    bounds = [part.err for part in (rows, seen.submissions, seen.steps) if len(part)]
    if any(int(part.min()) < 0 for part in bounds):
        return None
    return max((int(part.max()) for part in bounds), default=0)
