"""Closed windows once more, from what the store has of their host. Pure: rows in, rows of `windows` out.

The rows become aligned batches again and go through the same intake and the same closing as in the windows step, with
all windows open until everything is in: the result is that of a run in which nothing came late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from fleetscope.contracts.batch import Batch, Header, record_batch
from fleetscope.contracts.schema import Column, Contract
from processors.revise.asks import AskedWindow
from processors.windows.close import WindowRow, close_window
from processors.windows.intake import take
from processors.windows.inventory import Device
from processors.windows.state import Host
from processors.windows.step import WindowsStep
from processors.windows.view import HostRows, host_rows


@dataclass(frozen=True, slots=True)
class History:
    """What the store has of a host for a run of neighbouring windows.

    ``batches``: aligned spans, readings, inventory and coverage that the run needs, coverage in the order it was
    counted; ``received``: rows by window start. ``first_ns``: the host's first row if the run holds it, None if it is
    earlier.
    From before the run: ``devices`` met, ``steps`` (job, rank) that marked steps, ``earlier`` starts of the windows
    in which devices worked last, oldest first (their spans are in ``batches`` too). ``no_numbers``: readings that are
    none, by window start and device.
    """

    host: str
    batches: Sequence[Batch] = ()
    received: Mapping[int, int] = field(default_factory=dict)
    first_ns: int | None = None
    devices: Sequence[str] = ()
    steps: Sequence[tuple[str | None, int | None]] = ()
    earlier: Sequence[int] = ()
    no_numbers: Sequence[tuple[int, str, int]] = ()


def batch_of(contract: Contract, host: str, rows: pa.Table, sequence: int, clock: str = "") -> Batch:
    """Stored rows of one ``clock`` as a batch of their contract, in their order. Columns that are not in ``rows`` are
    null, or zero or empty where the contract has no null; symbols are encoded anew."""
    arrays = {}
    for column in contract.columns:
        if column.name in rows.column_names:
            arrays[column.name] = _typed(rows.column(column.name), column)
        elif not column.nullable:
            arrays[column.name] = _blank(column, rows.num_rows)
    header = Header(contract.name, contract.version, host, "store", 0, sequence, rows.num_rows, clock)
    return Batch(header, record_batch(contract, arrays, rows.num_rows))


def _typed(values: pa.ChunkedArray, column: Column) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return values.cast(pa.string()).combine_chunks().dictionary_encode().cast(column.type)
    return values.cast(column.type).combine_chunks()


def _blank(column: Column, rows: int) -> pa.Array:
    if pa.types.is_dictionary(column.type):
        return pa.repeat(pa.scalar(""), rows).dictionary_encode().cast(column.type)
    return pa.repeat(pa.scalar("" if pa.types.is_string(column.type) else 0, column.type), rows)


def recompute(history: History, windows: Sequence[AskedWindow], step: WindowsStep) -> list[WindowRow]:
    """Rows of contract `windows`, one for each device and window, of a run of neighbouring ``windows`` in order."""
    host = _filled(history, step)
    coverage = host.coverage
    host.known_from_ns = windows[0].start_ns if history.first_ns is None else history.first_ns
    rows = host_rows(host.chunks, windows[-1].start_ns + step.window_ns)
    for start_ns in history.earlier:  # only for what devices were doing last
        host.coverage, host.received = {}, {}
        close_window(host, history.host, rows, start_ns, start_ns + step.window_ns, start_ns + step.window_ns,
                     step.lookback_ns)
    found: list[WindowRow] = []
    for window in windows:
        own = coverage.get(window.start_ns, [0, 0, 0, 0])
        host.coverage = {window.start_ns: [a + b for a, b in zip(own, window.other, strict=True)]}
        host.received = {window.start_ns: history.received.get(window.start_ns, 0)}
        host.no_numbers = {window.start_ns: {device: rows for start, device, rows in history.no_numbers
                                             if start == window.start_ns}}
        found += _closed(host, history.host, rows, window, step)
    return found


def _filled(history: History, step: WindowsStep) -> Host:
    host = Host()
    host.known_from_ns = 0
    for batch in history.batches:
        take(host, batch, batch.header.contract, step.window_ns, step.max_span_ns, step.lookback_ns)
    for name in history.devices:
        host.inventory.devices.setdefault(name, Device())
    for job, rank in history.steps:
        host.step_jobs.add(job or "")
        if rank is not None:
            host.step_ranks.add((job or "", rank))
    return host


def _closed(host: Host, name: str, rows: HostRows, window: AskedWindow, step: WindowsStep) -> list[WindowRow]:
    stop_ns = window.start_ns + step.window_ns
    host.late, host.repeated, host.offset = window.late_rows, window.redelivered_rows, window.revision
    known_to = stop_ns if window.known_to_ns is None else window.known_to_ns
    return close_window(host, name, rows, window.start_ns, stop_ns, known_to, step.lookback_ns)
