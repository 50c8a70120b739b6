"""Which closed windows a batch touches, and the request to account for them again from the store."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from fleetscope.contracts.batch import Batch, Header, from_rows
from fleetscope.contracts.derived import LATE_WINDOWS
from fleetscope.contracts.topics import ALIGNED_TOPICS, COVERAGE_TOPIC, LATE_WINDOWS_TOPIC
from fleetscope.step import Output
from processors.windows.chunks import NO_CODE, OTHER, Rows
from processors.windows.intervals import Ints
from processors.windows.inventory import Device
from processors.windows.readings import touches
from processors.windows.state import Host
from processors.windows.works import D2H, NONE

MAX_AFTER: Final = 3_600
"""Windows after a late row that are accounted for again because it says something new of its host: a device, a peak,
an earlier beginning."""
MAX_ROWS: Final = 5_000
"""Windows in one request."""

_OFFSETS: Final = {
    "spans_offset": ALIGNED_TOPICS["aligned_spans"].name, "counters_offset": ALIGNED_TOPICS["aligned_counters"].name,
    "inventory_offset": ALIGNED_TOPICS["aligned_inventory"].name, "coverage_offset": COVERAGE_TOPIC.name,
}
_TOLD: Final = ("told_late_rows", "told_redelivered_rows", "other_received_rows", "other_dropped_rows",
                "other_lost_rows", "other_redelivered_rows")


def note_times(host: Host, times: Ints, window_ns: int) -> None:
    """Rows at ``times``, all before the edge, belong to closed windows; the earliest may begin the host."""
    windows, counts = np.unique(times // window_ns, return_counts=True)
    for window, count in zip(windows.tolist(), counts.tolist(), strict=True):
        host.touched[window * window_ns] = host.touched.get(window * window_ns, 0) + count
    first = int(times.min())
    if host.known_from_ns is not None and first < host.known_from_ns:
        _run(host, first, host.known_from_ns + 1, window_ns)
        host.known_from_ns = first


def note_spans(host: Host, rows: Rows, window_ns: int) -> None:
    """Late spans touch every closed window that they reach into; work of a device nobody knew every one after it."""
    if host.edge_ns is None:
        return
    late = (rows.start < host.edge_ns) & (rows.role < OTHER)
    if not late.any():
        return
    rows = rows.take(late)
    last = (np.minimum(rows.keep, host.edge_ns) - 1) // window_ns
    for first, until in np.unique(np.stack((rows.start // window_ns, last), axis=1), axis=0).tolist():
        for window in range(first, until + 1):
            host.touched.setdefault(window * window_ns, 0)
    _meet(host, rows.take((rows.role <= D2H) & (rows.device != NO_CODE)), window_ns)


def note_readings(host: Host, times: Ints, lookback_ns: int, window_ns: int) -> None:
    """Late readings tell of the windows after them too, as far as those look back."""
    for window in sorted(touches(times.tolist(), lookback_ns, window_ns, host.edge_ns or 0)):
        host.touched.setdefault(window, 0)


def note_facts(host: Host, first_ns: int, window_ns: int) -> None:
    """Inventory counts from its own time on."""
    if host.edge_ns is not None and first_ns < host.edge_ns:
        _run(host, first_ns, host.edge_ns, window_ns)


def _meet(host: Host, work: Rows, window_ns: int) -> None:
    words = list(host.words)
    for code in np.unique(work.device).tolist():
        known = words[code] in host.inventory.devices
        device = host.inventory.devices.setdefault(words[code], Device())
        if device.job is not None or device.rank is not None:
            continue
        mine = work.take(work.device == code)
        newest = int(np.argmax(mine.start))
        job, rank = int(mine.job[newest]), int(mine.rank[newest])
        device.job = None if job == NO_CODE else words[job]
        device.rank = None if rank == NONE else rank
        if not known or device.job is not None or device.rank is not None:
            _run(host, int(mine.start.min()), host.edge_ns or 0, window_ns)


def _run(host: Host, begin_ns: int, end_ns: int, window_ns: int) -> None:
    first, last = begin_ns // window_ns, (end_ns - 1) // window_ns
    for window in range(first, min(last, first + MAX_AFTER) + 1):
        host.touched.setdefault(window * window_ns, 0)


def requests(host: Host, name: str, batch: Batch, window_ns: int) -> list[Output]:
    """What is asked because of ``batch``; forgets it. Nothing for a batch that was never published: the store will
    not have it."""
    touched, host.touched = host.touched, {}
    origin, header = batch.origin, batch.header
    if not touched or origin is None:
        return []
    host.asked_last = host.asked_last or bool(host.last and host.last[0]["window_start_ns"] in touched)
    common: dict[str, Any] = {
        "host": name, "window_ns": window_ns, "revision": max(host.offset, host.issued), "topic": origin.topic,
        "partition": origin.partition, "offset": origin.offset, "rows": len(batch), "producer": header.producer,
        "epoch": header.epoch, "sequence": header.sequence, "row0": header.row0,
        **{column: host.seen.get(topic) for column, topic in _OFFSETS.items()},
    }
    rows = [{**common, "window_start_ns": start, "late_rows": touched[start], **_told(host, start)}
            for start in sorted(touched)]
    return [_request(host, name, rows[at:at + MAX_ROWS]) for at in range(0, len(rows), MAX_ROWS)]


def _told(host: Host, start_ns: int) -> dict[str, Any]:
    known_to, *amounts = host.told.get(start_ns, (0,) * (1 + len(_TOLD)))
    return {"known_to_ns": known_to or None, **dict(zip(_TOLD, amounts, strict=True))}


def _request(host: Host, name: str, rows: list[dict[str, Any]]) -> Output:
    header = Header(LATE_WINDOWS.name, LATE_WINDOWS.version, name, "windows", 0, host.requests, len(rows),
                    min_time=rows[0]["window_start_ns"], max_time=rows[-1]["window_start_ns"])
    host.requests += 1
    return Output(LATE_WINDOWS_TOPIC.name, Batch(header, from_rows(LATE_WINDOWS, rows)))
